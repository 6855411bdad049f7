//! One sandbox, in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use holm_daytona_wire::sandbox::SandboxState;

use super::gate::Gate;
use crate::error::{ApiError, Result};
use crate::machines::{Activity, Machine};
use crate::records::SandboxRecord;

/// One sandbox: its record as it is stored, and its box while it runs.
#[derive(Debug)]
pub struct Sandbox {
    pub id: String,
    pub organization: String,
    pub activity: Arc<Activity>,
    record: RwLock<SandboxRecord>,
    machine: RwLock<Option<Arc<Machine>>>,
    /// Held by whoever changes its state.
    pub(super) gate: Gate,
    /// Held while its record is written.
    pen: Mutex<Existence>,
}

/// Whether a sandbox has a record to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existence {
    Here,
    Gone,
}

impl Sandbox {
    pub(super) fn new(record: SandboxRecord, activity: Arc<Activity>) -> Arc<Self> {
        Arc::new(Self {
            id: record.id.clone(),
            organization: record.organization.clone(),
            activity,
            record: RwLock::new(record),
            machine: RwLock::new(None),
            gate: Gate::new(),
            pen: Mutex::new(Existence::Here),
        })
    }

    /// The record as it is stored, but for the time of the last activity, which is as of now.
    pub fn record(&self) -> SandboxRecord {
        let mut record = self.peek(Clone::clone);
        record.last_activity_at = self.activity.last();
        record
    }

    /// The right to write its record. Held by threads that may block.
    pub(super) fn pen(&self) -> MutexGuard<'_, Existence> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state(&self) -> SandboxState {
        self.peek(|record| record.state.clone())
    }

    /// Looks at the record without copying it.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&SandboxRecord) -> T) -> T {
        look(&self.record.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn replace_record(&self, record: SandboxRecord) {
        *self.record.write().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// The running box.
    pub fn machine(&self) -> Result<Arc<Machine>> {
        let machine = self.machine.read().unwrap_or_else(PoisonError::into_inner);
        match (&*machine, self.state()) {
            (Some(machine), SandboxState::Started) => Ok(Arc::clone(machine)),
            (_, state) => Err(ApiError::bad_request(format!(
                "Sandbox is not started (its state is {state}). Is the Sandbox started?"
            ))),
        }
    }

    /// The box, whatever the state says.
    pub(super) fn current_machine(&self) -> Option<Arc<Machine>> {
        self.machine
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_machine(&self, machine: Option<Arc<Machine>>) {
        *self.machine.write().unwrap_or_else(PoisonError::into_inner) = machine;
    }
}
