//! The Python interpreter: code runs in contexts whose names stay between runs.
//!
//! The default context is there from the start and not listed; others are made and deleted. Contexts end with the server:
//! unlike sessions they hold nothing that could be found again.

mod context;
mod routes;
mod socket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::interpreter::InterpreterContext;

use self::context::Context;
use crate::clock::{self, Millis};
use crate::error::{ApiError, Result};
use crate::machines::Machine;

pub(super) use routes::router;

const CONTEXTS_MAX: usize = 32;
const DEFAULT: &str = "default";
const LANGUAGE: &str = "python";

/// The interpreters of one running box.
#[derive(Debug, Default)]
pub(crate) struct Interpreters {
    all: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    context: Arc<Context>,
    cwd: String,
    created_at: Millis,
}

impl Known {
    fn new(machine: &Arc<Machine>, cwd: Option<&str>) -> Self {
        let cwd = machine.absolute(cwd.unwrap_or_default());
        Self {
            context: Arc::new(Context::new(machine, cwd.clone())),
            cwd: cwd.to_string_lossy().into_owned(),
            created_at: clock::now(),
        }
    }

    fn shown(&self, id: &str) -> InterpreterContext {
        InterpreterContext {
            id: id.to_owned(),
            cwd: self.cwd.clone(),
            language: LANGUAGE.to_owned(),
            created_at: clock::rfc3339(self.created_at),
            active: true,
        }
    }
}

impl Interpreters {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context of this id, or the default one.
    fn find(&self, machine: &Arc<Machine>, id: Option<&str>) -> Option<Arc<Context>> {
        let mut all = self.all();
        match id.filter(|id| !id.is_empty()) {
            Some(id) if id != DEFAULT => all.get(id).map(|known| Arc::clone(&known.context)),
            Some(_) | None => {
                let known = all
                    .entry(DEFAULT.to_owned())
                    .or_insert_with(|| Known::new(machine, None));
                Some(Arc::clone(&known.context))
            }
        }
    }

    fn create(&self, machine: &Arc<Machine>, cwd: Option<&str>) -> Result<InterpreterContext> {
        let mut all = self.all();
        if all.len() >= CONTEXTS_MAX {
            return Err(ApiError::new(
                ErrorCode::TooManyRequests,
                format!("the sandbox has {CONTEXTS_MAX} contexts already: delete one first"),
            ));
        }
        let id = uuid::Uuid::new_v4().to_string();
        let known = Known::new(machine, cwd);
        let shown = known.shown(&id);
        all.insert(id, known);
        Ok(shown)
    }

    /// Forgets a context; its interpreter ends with the run that may be going on.
    fn delete(&self, id: &str) -> Result<()> {
        if id == DEFAULT {
            return Err(ApiError::bad_request(
                "the default context cannot be deleted",
            ));
        }
        match self.all().remove(id) {
            Some(_) => Ok(()),
            None => Err(ApiError::not_found(format!("context {id} not found"))),
        }
    }

    /// Interpreters that wait for code.
    pub(crate) fn waiting_processes(&self) -> u64 {
        let all = self.all();
        let waiting = all.values().filter(|known| known.context.is_waiting());
        u64::try_from(waiting.count()).unwrap_or(u64::MAX)
    }

    /// Forgets all contexts: their box is about to end.
    pub(crate) fn close(&self) {
        self.all().clear();
    }
}
