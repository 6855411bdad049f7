//! Sessions for reading: few, shared, made when they are needed.
//!
//! A read is one statement after another, each of which is of one moment by itself: there is no transaction that a reader who leaves
//! could leave open, so several readers use a session at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_thread_log::StoreError;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::address::Address;
use super::error::{PostgresError, Remedy, failed};
use super::session::{Role, Session};

/// Reads at once on one session; those beyond wait.
const READS_PER_SESSION: usize = 16;
const BACKOFF: Duration = Duration::from_millis(50);

type Slot = Mutex<Option<Arc<Session>>>;

#[derive(Debug)]
pub(super) struct Readers {
    address: Address,
    sessions: Vec<Slot>,
    connecting: Semaphore,
    next: AtomicUsize,
    running: Semaphore,
    patience: Duration,
}

impl Readers {
    pub(super) fn new(address: Address, count: usize, patience: Duration) -> Self {
        let count = count.max(1);
        Self {
            address,
            sessions: (0..count).map(|_| Mutex::default()).collect(),
            connecting: Semaphore::new(1),
            next: AtomicUsize::new(0),
            running: Semaphore::new(count * READS_PER_SESSION),
            patience,
        }
    }

    /// Reads, and reads again on another session as long as the database is only away for a moment.
    pub(super) async fn read<T, F>(
        &self,
        doing: &'static str,
        read: impl Fn(Arc<Session>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, PostgresError>>,
    {
        let started = Instant::now();
        let Ok(Ok(_running)) = timeout(self.patience, self.running.acquire()).await else {
            return Err(StoreError::Busy);
        };
        loop {
            let result = match self.session().await {
                Ok(session) => read(session).await,
                Err(error) => Err(error),
            };
            let error = match result {
                Ok(read) => return Ok(read),
                Err(error) => error,
            };
            if error.remedy() != Remedy::TryAgain || started.elapsed() >= self.patience {
                return Err(failed(doing, Arc::new(error)));
            }
            sleep(BACKOFF).await;
        }
    }

    /// The next session in turn, made anew if it has ended.
    async fn session(&self) -> Result<Arc<Session>, PostgresError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.sessions.len();
        if let Some(session) = self.living(index) {
            return Ok(session);
        }
        // One connects, and the others that wait for the same session have it then too. The semaphore is never closed.
        let Ok(_connecting) = self.connecting.acquire().await else {
            return Err(PostgresError::Silent);
        };
        if let Some(session) = self.living(index) {
            return Ok(session);
        }
        let session = Arc::new(Session::connect(&self.address, Role::Reader).await?);
        if let Some(slot) = self.sessions.get(index) {
            *lock(slot) = Some(Arc::clone(&session));
        }
        Ok(session)
    }

    fn living(&self, index: usize) -> Option<Arc<Session>> {
        let session = lock(self.sessions.get(index)?).clone();
        session.filter(|session| !session.is_closed())
    }
}

fn lock(slot: &Slot) -> MutexGuard<'_, Option<Arc<Session>>> {
    // Nothing in here can be half done.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
