//! How a store of streams is to be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holm_thread_log::{NoRules, Rules};

use super::failure::Failure;
use super::faults::FaultPoint;
#[cfg(any(test, feature = "testing"))]
use super::faults::{Fault, Faults};

/// Called with the reason when nobody can say what is on the disk, on the thread that writes. The store does nothing after it.
pub type FailStop = Arc<dyn Fn(&(dyn std::error::Error + 'static)) + Send + Sync>;

#[derive(Clone)]
pub struct SqliteOptions {
    pub rules: Arc<dyn Rules>,
    /// Ends the process, unless it is replaced; a server says why before.
    pub fail_stop: FailStop,
    /// What may wait to be written.
    pub queue_bytes_max: u32,
    /// How long a full queue, or a full house of readers, is waited for.
    pub patience: Duration,
    /// How many read at the same time.
    pub readers: usize,
    /// What the entries that came last may take in memory before they move to where they stay.
    pub recent_bytes_max: usize,
    #[cfg(any(test, feature = "testing"))]
    pub faults: Option<Faults>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            rules: Arc::new(NoRules),
            fail_stop: Arc::new(|_| std::process::abort()),
            queue_bytes_max: 256 << 20,
            patience: Duration::from_secs(10),
            readers: 4,
            recent_bytes_max: 8 << 20,
            #[cfg(any(test, feature = "testing"))]
            faults: None,
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteOptions")
            .field("rules", &self.rules)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("patience", &self.patience)
            .field("readers", &self.readers)
            .field("recent_bytes_max", &self.recent_bytes_max)
            .finish_non_exhaustive()
    }
}

impl SqliteOptions {
    /// The store stops.
    pub(super) fn fail(&self, failure: &Failure) {
        if let Failure::Unknown(doing, source) = failure {
            let reason = crate::StoreError::Stopped {
                doing,
                source: Arc::clone(source),
            };
            (self.fail_stop)(&reason);
        }
    }

    /// Fails here if a test wants it.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn reach(&self, point: FaultPoint) -> Result<(), Failure> {
        let fault = self
            .faults
            .as_ref()
            .map_or(Fault::None, |faults| faults(point));
        match fault {
            Fault::None => Ok(()),
            Fault::Crash => Err(Failure::Crash),
            Fault::SyncFails => {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
                let source = rusqlite::Error::SqliteFailure(code, None);
                Err(Failure::of_commit(source, super::failure::Disk::Writable))
            }
        }
    }

    #[cfg(not(any(test, feature = "testing")))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "it does something in tests only"
    )]
    pub(super) fn reach(&self, _: FaultPoint) -> Result<(), Failure> {
        Ok(())
    }
}
