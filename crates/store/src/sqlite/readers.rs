//! Connections that read, each used by one at a time and on threads that may block.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_thread_log::{Result, StoreError};
use rusqlite::Connection;
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>, patience: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(connections.len())),
            free: Arc::new(Mutex::new(connections)),
            patience,
        }
    }

    /// Reads of one moment. A caller that goes away leaves it to end by itself; pages are bounded, so it does.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.places).acquire_owned();
        let place = tokio::time::timeout(self.patience, turn)
            .await
            .map_err(|_| StoreError::Busy)?
            .map_err(|_| StoreError::Stopped)?;
        let free = Arc::clone(&self.free);
        let reading = tokio::task::spawn_blocking(move || {
            // A panic drops the connection and its place: what is left goes on.
            let mut connection = lock(&free).pop().ok_or(StoreError::Stopped)?;
            let result = in_snapshot(&mut connection, work);
            lock(&free).push(connection);
            drop(place);
            result.map_err(|source| StoreError::Failed {
                doing,
                source: Box::new(source),
            })
        });
        reading.await.map_err(|_| StoreError::Stopped)?
    }
}

fn in_snapshot<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction()?;
    let result = work(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

fn lock(free: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}
