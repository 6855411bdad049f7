//! Who may change a sandbox's state.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Lets one in at a time, for as long as the change takes. It guards no data: it is the turn itself.
#[derive(Debug)]
pub(super) struct Gate(Semaphore);

/// The turn of whoever holds it.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// None only if the gate was closed for good, which nobody does.
    _permit: Option<SemaphorePermit<'a>>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Waits for the turn.
    pub(super) async fn enter(&self) -> Turn<'_> {
        Turn {
            _permit: self.0.acquire().await.ok(),
        }
    }

    /// The turn, if nobody has it.
    pub(super) fn try_enter(&self) -> Option<Turn<'_>> {
        let permit = self.0.try_acquire().ok()?;
        Some(Turn {
            _permit: Some(permit),
        })
    }
}
