//! How much of the server those who are let in to one thread may have at once.
//!
//! A token lies in a box, and a box is hostile. What it stores is bounded where it is stored; here it is what it occupies: requests in
//! flight, and the memory of what it sends and gets. All tokens of a thread share, so that renewing them gains nothing. Tickets
//! have a share of their own: a box cannot lock those out who watch it, nor get more by making tickets.
//!
//! A request has its place until the last of its answer was taken, also by a reader that is slow, or waits for what is new.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::Response;
use holm_thread_log::StreamId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::buffers::keep_until_sent;
use crate::config::ServerLimits;
use crate::streams::{body, pages};

/// Shares that are remembered before those that nobody uses are looked for.
const CLEARED_AT_LEAST: usize = 64;

/// With what somebody was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Token,
    Ticket,
}

/// The shares that are in use.
pub(crate) struct Shares {
    requests_max: [(Holder, usize); 2],
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    shares: HashMap<(StreamId, Holder), Weak<Share>>,
    cleared_at: usize,
}

/// What all requests with tokens, or with tickets, of one thread have together.
#[derive(Debug)]
pub(crate) struct Share {
    requests: Arc<Semaphore>,
    /// Of bodies.
    pub(crate) sent: Arc<Semaphore>,
    /// Of long answers.
    pub(crate) got: Arc<Semaphore>,
}

/// A request that is in flight.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) share: Arc<Share>,
    _request: OwnedSemaphorePermit,
}

/// Where a request's place is kept; filled by whoever finds out who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<OnceLock<Option<Place>>>);

impl fmt::Debug for Shares {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shares")
            .field("requests_max", &self.requests_max)
            .finish_non_exhaustive()
    }
}

impl Shares {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self {
            requests_max: [
                (Holder::Token, limits.thread_requests_max),
                (Holder::Ticket, limits.thread_viewers_max),
            ],
            used: Mutex::default(),
        }
    }

    /// A place for one more request, if there is one.
    pub(crate) fn enter(&self, stream: StreamId, holder: Holder) -> Option<Place> {
        let share = self.share(stream, holder);
        let request = Arc::clone(&share.requests).try_acquire_owned().ok()?;
        Some(Place {
            share,
            _request: request,
        })
    }

    fn share(&self, stream: StreamId, holder: Holder) -> Arc<Share> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (stream, holder);
        if let Some(share) = used.shares.get(&key).and_then(Weak::upgrade) {
            return share;
        }
        if used.shares.len() >= used.cleared_at.max(CLEARED_AT_LEAST) {
            used.shares.retain(|_, share| share.strong_count() > 0);
            used.cleared_at = used.shares.len() * 2;
        }
        let requests_max = self.requests_max.iter().find(|(of, _)| *of == holder);
        let requests_max = requests_max.map_or(0, |(_, max)| *max);
        let share = Arc::new(Share {
            requests: Arc::new(Semaphore::new(requests_max)),
            sent: Arc::new(Semaphore::new(body::SHARE_UNITS)),
            got: Arc::new(Semaphore::new(pages::SHARE_UNITS)),
        });
        used.shares.insert(key, Arc::downgrade(&share));
        share
    }
}

impl Slot {
    /// Keeps a place, or that there was none.
    pub(crate) fn fill(&self, place: Option<Place>) {
        // A request is let in once.
        drop(self.0.set(place));
    }

    /// The share of who sent this request, if it has one.
    pub(crate) fn share_of(parts: &Parts) -> Option<&Share> {
        parts.extensions.get::<Self>()?.share()
    }

    /// The share of who asks, if it has one.
    pub(crate) fn share(&self) -> Option<&Share> {
        let place = self.0.get()?.as_ref()?;
        Some(&place.share)
    }
}

/// Keeps a request's place until its answer was sent. Who found none is told when to come again, and its connection ends, which
/// others need.
pub(crate) async fn keep_place(
    mut request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let slot = Slot::default();
    request.extensions_mut().insert(slot.clone());
    let mut response = next(request).await;
    match slot.0.get() {
        None => response,
        Some(Some(_)) => keep_until_sent(response, slot),
        Some(None) => {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Shares {
        let limits = ServerLimits {
            thread_requests_max: 2,
            thread_viewers_max: 1,
            ..ServerLimits::default()
        };
        Shares::new(&limits)
    }

    #[test]
    fn a_share_is_a_threads_and_a_holders_own() {
        let shares = shares();
        let enter = |stream, holder| shares.enter(StreamId(stream), holder);
        let one = enter(1, Holder::Token).unwrap();
        let _two = enter(1, Holder::Token).unwrap();
        assert!(enter(1, Holder::Token).is_none());
        let _viewer = enter(1, Holder::Ticket).unwrap();
        assert!(enter(1, Holder::Ticket).is_none());
        let _other = enter(2, Holder::Token).unwrap();
        drop(one);
        assert!(enter(1, Holder::Token).is_some());
    }

    #[test]
    fn shares_that_nobody_uses_are_forgotten() {
        let shares = shares();
        let kept = shares.enter(StreamId(0), Holder::Token).unwrap();
        for stream in 1..10_000 {
            drop(shares.enter(StreamId(stream), Holder::Token));
        }
        assert!(shares.used.lock().unwrap().shares.len() <= CLEARED_AT_LEAST);
        // Not those that somebody uses.
        let _second = shares.enter(StreamId(0), Holder::Token).unwrap();
        assert!(shares.enter(StreamId(0), Holder::Token).is_none());
        drop(kept);
    }
}
