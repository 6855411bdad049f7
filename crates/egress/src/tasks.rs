//! The tasks of one sandbox's gateway, which all end with it.

use std::sync::{Mutex, PoisonError};

use tokio::task::JoinSet;

#[derive(Debug)]
pub(crate) struct Tasks {
    /// `None` when closed: a task that is just ending must not start another one.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            running: Mutex::new(Some(JoinSet::new())),
        }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = running.as_mut() {
            while set.try_join_next().is_some() {}
            set.spawn(task);
        }
    }

    /// Ends all tasks; those that are at work end at their next wait.
    pub(crate) fn close(&self) {
        let taken = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(taken);
    }
}
