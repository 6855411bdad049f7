//! Sandboxes that were just deleted.
//!
//! SDKs before 0.112 look once more at a sandbox after they have deleted it, and take "not found" for a failure. They
//! are shown what it was; everybody else is told that it is gone.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::records::SandboxRecord;

/// More than are deleted between a deletion and the look after it.
const KEPT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Departed(Mutex<VecDeque<SandboxRecord>>);

impl Departed {
    pub(super) fn remember(&self, record: SandboxRecord) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(record);
    }

    pub(super) fn find(&self, organization: &str, id: &str) -> Option<SandboxRecord> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept
            .iter()
            .find(|record| record.id == id && record.organization == organization);
        found.cloned()
    }
}
