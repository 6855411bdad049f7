//! Moments at which a test can make the committer fail. In other builds nothing is done about them.

/// Where a batch is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(unreachable_pub, reason = "public for tests only")
)]
pub enum FaultPoint {
    /// In the transaction, not yet committed.
    Written,
    /// Durable, and in the database for whoever looks there; not yet in memory.
    Visible,
    /// Durable; nobody knows.
    Committed,
    /// Readers know, and the writers do not.
    Woken,
}

/// What happens there.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The committer is gone, as if the process had been killed: nothing more is written, woken or answered.
    Crash,
    /// The disk does not say whether it is durable.
    SyncFails,
}

/// Asked at each point.
#[cfg(any(test, feature = "testing"))]
pub type Faults = std::sync::Arc<dyn Fn(FaultPoint) -> Fault + Send + Sync>;
