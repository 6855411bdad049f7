//! Pages of streams, and the memory of those that are long.
//!
//! A page has its bytes, unless its first entry is larger: one entry is as large as a body may be. Pages of the ordinary kind are bounded
//! by the number of connections; what is larger is paid for from a budget that all readers share, of which those who
//! were let in to one thread have a part.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use holm_thread_log::{Page, ReadFrom, Seen, StoreError, StreamName};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::now;
use crate::buffers::keep_until_sent;
use crate::state::AppState;
use crate::tokens::Share;

/// The budget of all long pages together, that of one share, and their unit.
const BUDGET_UNITS: usize = 4096;
pub(crate) const SHARE_UNITS: usize = BUDGET_UNITS / 8;
const UNIT_BYTES: usize = 64 * 1024;
/// How long a reader waits for others to take theirs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The memory for long pages. One for each server.
#[derive(Debug)]
pub(crate) struct Pages {
    budget: Arc<Semaphore>,
}

/// The memory of a long page, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Paid {
    _own: Option<OwnedSemaphorePermit>,
    common: Option<OwnedSemaphorePermit>,
}

impl Paid {
    /// An answer that has its memory until it was sent.
    pub(crate) fn until_sent(self, answer: Response) -> Response {
        match self.common {
            Some(_) => keep_until_sent(answer, self),
            None => answer,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the server sends as many long entries as it can: try again")]
    Busy,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self {
            budget: Arc::new(Semaphore::new(BUDGET_UNITS)),
        }
    }

    async fn pay(&self, share: Option<&Share>, bytes: usize) -> Result<Paid, PageError> {
        let units = bytes.div_ceil(UNIT_BYTES);
        // Its own first: who waits for itself holds up nobody else.
        let own = match share {
            Some(share) => Some(take(&share.got, units.min(SHARE_UNITS)).await?),
            None => None,
        };
        Ok(Paid {
            _own: own,
            common: Some(take(&self.budget, units.min(BUDGET_UNITS)).await?),
        })
    }
}

async fn take(budget: &Arc<Semaphore>, units: usize) -> Result<OwnedSemaphorePermit, PageError> {
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    let taking = Arc::clone(budget).acquire_many_owned(units);
    match timeout(PATIENCE, taking).await {
        Ok(Ok(taken)) => Ok(taken),
        Ok(Err(_)) | Err(_) => Err(PageError::Busy),
    }
}

/// Reads a page. A long one is read again when there is memory for it.
pub(crate) async fn read(
    state: &AppState,
    share: Option<&Share>,
    name: &StreamName,
    from: ReadFrom,
    bytes_max: usize,
) -> Result<Seen<(Page, Paid)>, PageError> {
    let read = || state.streams.read(name, from, bytes_max, now());
    let page = match read().await? {
        Ok(page) => page,
        Err(unseen) => return Ok(Err(unseen)),
    };
    let bytes: usize = page.entries.iter().map(|entry| entry.data.len()).sum();
    if bytes <= bytes_max {
        return Ok(Ok((page, Paid::default())));
    }
    drop(page);
    let paid = state.pages.pay(share, bytes).await?;
    Ok(read().await?.map(|page| (page, paid)))
}
