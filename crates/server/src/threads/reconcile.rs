//! What may be done about a thread before it is shown.

use std::fmt;

use async_trait::async_trait;
use holm_thread_log::threads::{Row, ThreadId};
use holm_thread_log::{StreamState, Timestamp};

/// Looks at a thread that somebody asks for. It finds out, for one, that the machine of a run is gone, and appends the signal that says
/// so: a run is never silently over. There is no other watcher.
#[async_trait]
pub(crate) trait Reconcile: fmt::Debug + Send + Sync {
    async fn reconcile(&self, thread: &Reconciling<'_>, now: Timestamp) -> Reconciled;
}

/// A thread, as it is.
#[derive(Debug, Clone, Copy)]
#[expect(
    dead_code,
    reason = "for those who know of runs and machines; the one here knows nothing"
)]
pub(crate) struct Reconciling<'a> {
    pub(crate) organization: &'a str,
    pub(crate) id: &'a ThreadId,
    pub(crate) row: &'a Row,
    pub(crate) stream: &'a StreamState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reconciled {
    AsItWas,
    /// Something was appended: what is shown has to be read again.
    #[expect(dead_code, reason = "what is here changes nothing")]
    Changed,
}

/// Lets threads be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoReconcile;

#[async_trait]
impl Reconcile for NoReconcile {
    async fn reconcile(&self, _thread: &Reconciling<'_>, _now: Timestamp) -> Reconciled {
        Reconciled::AsItWas
    }
}
