//! Memory for answers that are as long as a box made them: bounded for all requests together.
//!
//! One answer has a bound of its own; many at once would still fill the server's memory. What an answer takes is counted
//! while it grows, and given back when it was sent to its end, however slowly its client reads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use holm_daytona_wire::error::ErrorCode;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};

const UNIT_BYTES: usize = 16 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// How long an answer of known length waits for others to be sent.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Buffers {
    units: Arc<Semaphore>,
    units_max: usize,
}

/// Memory that is taken until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    permit: Option<OwnedSemaphorePermit>,
    /// Of what was taken.
    bytes: usize,
}

/// Whether there was memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    None,
}

impl Buffers {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units_max)),
            units_max,
        }
    }

    /// Takes so many bytes more, if they are there.
    pub(crate) fn grow(&self, held: &mut Held, bytes: usize) -> Room {
        let taken = held.permit.as_ref();
        let taken = taken.map_or(0, OwnedSemaphorePermit::num_permits);
        let more = units(held.bytes + bytes).saturating_sub(taken);
        let Ok(count) = u32::try_from(more) else {
            return Room::None;
        };
        let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(count) else {
            return Room::None;
        };
        match &mut held.permit {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        held.bytes += bytes;
        Room::Enough
    }

    /// Takes so many bytes, and waits for them.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Held> {
        // One that asks for more than there is has to have all of it.
        let count = u32::try_from(units(bytes).min(self.units_max)).unwrap_or(u32::MAX);
        let taking = Arc::clone(&self.units).acquire_many_owned(count);
        match tokio::time::timeout(PATIENCE, taking).await {
            Ok(Ok(permit)) => Ok(Held {
                permit: Some(permit),
                bytes,
            }),
            Ok(Err(_)) | Err(_) => Err(ApiError::new(
                ErrorCode::ServiceUnavailable,
                "the server is busy with long answers: try again, or follow the log instead",
            )),
        }
    }
}

impl Held {
    /// An answer that keeps what was taken until it was sent.
    pub(crate) fn until_sent(self, answer: impl IntoResponse) -> Response {
        let response = answer.into_response();
        if self.bytes <= PIECE_BYTES {
            return response;
        }
        keep_until_sent(response, self)
    }
}

/// An answer that keeps something until it was sent to its end.
pub(crate) fn keep_until_sent<T: Send + Unpin + 'static>(response: Response, held: T) -> Response {
    response.map(|body| {
        Body::new(InPieces {
            body,
            rest: Bytes::new(),
            _held: held,
        })
    })
}

/// A body in pieces: one that is handed over whole counts as sent before its client has read any of it.
#[derive(Debug)]
struct InPieces<T> {
    body: Body,
    rest: Bytes,
    _held: T,
}

impl<T: Unpin> HttpBody for InPieces<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let below = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(below.lower().saturating_add(rest));
        if let Some(upper) = below.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn what_is_taken_is_given_back() {
        let buffers = Buffers::new(10 * UNIT_BYTES);
        let mut one = Held::default();
        for _ in 0..10 {
            assert_eq!(buffers.grow(&mut one, UNIT_BYTES - 1), Room::Enough);
        }
        // Pieces of units add up.
        assert_eq!(buffers.grow(&mut one, 10), Room::Enough);
        assert_eq!(buffers.grow(&mut one, 1), Room::None);
        let mut other = Held::default();
        assert_eq!(buffers.grow(&mut other, 0), Room::Enough);
        assert_eq!(buffers.grow(&mut other, 1), Room::None);
        let text = vec![7; 150_000];
        let answer = one.until_sent(text.clone());
        assert_eq!(answer.body().size_hint().exact(), Some(150_000));
        assert_eq!(buffers.grow(&mut other, 1), Room::None);
        let mut body = answer.into_body();
        let mut sent = Vec::new();
        while let Some(frame) = body.frame().await {
            // Not before the last piece is there.
            assert_eq!(buffers.grow(&mut other, 1), Room::None);
            sent.extend(frame.unwrap().into_data().unwrap());
        }
        assert!(sent == text);
        drop(body);
        assert_eq!(buffers.grow(&mut other, 1), Room::Enough);
        drop(other);
        // More than all is all.
        let all = buffers.take(100 * UNIT_BYTES).await.unwrap();
        assert_eq!(buffers.grow(&mut Held::default(), 1), Room::None);
        drop(all);
    }
}
