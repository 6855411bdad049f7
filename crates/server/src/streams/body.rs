//! Bodies of requests: whole, in time, and never more in memory than the server bears.
//!
//! Small bodies are only bounded by the number of connections. What a body has beyond that is taken from a budget that all share;
//! a client waits for its part of it before it is read on, so that the sender is held back and not the server's memory filled.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, EXPECT, RETRY_AFTER};
use axum::http::request::Parts;
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Result, StreamError};
use crate::tokens::{Share, Slot};

/// What a body may have without asking for a part of the budget.
const FREE_BYTES: usize = 64 * 1024;
/// The budget of all bodies together, and its unit.
const BUDGET_UNITS: usize = 4096;
/// What those who were let in to one thread may have of it.
pub(crate) const SHARE_UNITS: usize = BUDGET_UNITS / 8;
const UNIT_BYTES: usize = 64 * 1024;
/// How long the whole of a body may take, however steadily it drips.
const WHOLE_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// What is read of a body that is too large, so that its client hears why, and for how long.
const DISCARDED_BYTES_MAX: usize = 256 * 1024 * 1024;
const DISCARD_PATIENCE: Duration = Duration::from_secs(10);

/// The memory for bodies of requests. One for each server.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    budget: Arc<Semaphore>,
    bytes_max: usize,
    silence_max: Duration,
}

/// A body that was read, and the part of the budget that it has until it is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    _budget: Vec<Unit>,
}

/// A part of the budget, and of the share of who sends.
#[derive(Debug)]
struct Unit {
    _own: Option<OwnedSemaphorePermit>,
    _common: OwnedSemaphorePermit,
}

impl Bodies {
    pub(crate) fn new(bytes_max: usize, silence_max: Duration) -> Self {
        Self {
            budget: Arc::new(Semaphore::new(BUDGET_UNITS)),
            bytes_max,
            silence_max,
        }
    }

    pub(crate) async fn read(&self, parts: &Parts, body: Body) -> Result<Whole> {
        self.read_at_most(parts, body, self.bytes_max).await
    }

    /// Reads a body to its end. One that is cut off or takes too long leaves nothing behind.
    pub(super) async fn read_at_most(
        &self,
        parts: &Parts,
        mut body: Body,
        bytes_max: usize,
    ) -> Result<Whole> {
        let headers = &parts.headers;
        let announced = headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > bytes_max) {
            // A client that waits to be told may be told at once.
            if !headers.contains_key(EXPECT) {
                discard(&mut body).await;
            }
            return Err(too_large(bytes_max));
        }
        let share = Slot::share_of(parts);
        let whole = timeout(WHOLE_PATIENCE, self.collect(share, &mut body, bytes_max)).await;
        whole.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn collect(
        &self,
        share: Option<&Share>,
        body: &mut Body,
        bytes_max: usize,
    ) -> Result<Whole> {
        let mut first = Bytes::new();
        let mut more = BytesMut::new();
        let mut budget = Vec::new();
        while let Some(frame) = self.frame(body).await? {
            let length = first.len() + more.len() + frame.len();
            if length > bytes_max {
                drop((first, more, budget));
                discard(body).await;
                return Err(too_large(bytes_max));
            }
            self.pay(share, &mut budget, length).await?;
            // One frame, the common case, is not copied.
            if first.is_empty() && more.is_empty() {
                first = frame;
                continue;
            }
            if more.is_empty() {
                more.extend_from_slice(&std::mem::take(&mut first));
            }
            more.extend_from_slice(&frame);
        }
        let bytes = if more.is_empty() {
            first
        } else {
            more.freeze()
        };
        Ok(Whole {
            bytes,
            _budget: budget,
        })
    }

    async fn frame(&self, body: &mut Body) -> Result<Option<Bytes>> {
        loop {
            let next = timeout(self.silence_max, body.frame()).await;
            match next.map_err(|_| too_slow())? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    // Trailers say nothing here.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a body was cut off");
                    let message = "the body was cut off; nothing was stored";
                    return Err(StreamError::bad_request("body_cut", message));
                }
            }
        }
    }

    /// Holds as much of the budget as a body of this length needs.
    async fn pay(&self, share: Option<&Share>, paid: &mut Vec<Unit>, length: usize) -> Result<()> {
        let needed = length.saturating_sub(FREE_BYTES).div_ceil(UNIT_BYTES);
        while paid.len() < needed {
            // Its own first: who waits for itself holds up nobody else.
            let unit = async {
                let own = match share {
                    Some(share) => Some(Arc::clone(&share.sent).acquire_owned().await?),
                    None => None,
                };
                let common = Arc::clone(&self.budget).acquire_owned().await?;
                Ok::<_, AcquireError>(Unit {
                    _own: own,
                    _common: common,
                })
            };
            let unit = timeout(self.silence_max, unit).await;
            let Ok(Ok(unit)) = unit else {
                let message = "the server reads as many large bodies as it can: try again";
                return Err(
                    StreamError::new(StatusCode::TOO_MANY_REQUESTS, "busy", message)
                        .with(RETRY_AFTER, 1),
                );
            };
            paid.push(unit);
        }
        Ok(())
    }
}

/// Reads on for a while: a client that is still sending would not see the answer.
async fn discard(body: &mut Body) {
    let reading = async {
        let mut length = 0;
        while let Some(Ok(frame)) = body.frame().await {
            length += frame.data_ref().map_or(0, Bytes::len);
            if length > DISCARDED_BYTES_MAX {
                break;
            }
        }
    };
    // Whether all of it came does not matter.
    drop(timeout(DISCARD_PATIENCE, reading).await);
}

fn too_large(bytes_max: usize) -> StreamError {
    StreamError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("a body may have at most {bytes_max} bytes: send it in parts"),
    )
}

fn too_slow() -> StreamError {
    StreamError::new(
        StatusCode::REQUEST_TIMEOUT,
        "body_too_slow",
        "the body did not arrive in time; nothing was stored",
    )
}
