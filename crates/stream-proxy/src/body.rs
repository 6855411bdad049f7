//! Bodies on their way: passed on piece by piece, and given up when nothing comes for too long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("nothing came for {0:?}")]
    Silence(Duration),
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// A body that has to go on. Time that its reader takes does not count.
#[derive(Debug)]
pub(crate) struct Flowing {
    body: Incoming,
    silence_max: Duration,
    /// Set while we wait for the next piece.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Gone when the body has ended, well or not.
    ended: Option<oneshot::Sender<()>>,
}

impl Flowing {
    pub(crate) fn new(body: Incoming, silence_max: Duration) -> Self {
        Self {
            body,
            silence_max,
            deadline: None,
            ended: None,
        }
    }

    /// Also says when it has ended.
    pub(crate) fn watched(body: Incoming, silence_max: Duration) -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let watched = Self {
            ended: Some(sender),
            ..Self::new(body, silence_max)
        };
        (watched, receiver)
    }
}

impl Body for Flowing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.deadline = None;
            if frame.is_none() {
                self.ended = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let silence_max = self.silence_max;
        let deadline = self.deadline.get_or_insert_with(|| {
            Box::pin(tokio::time::sleep_until(Instant::now() + silence_max))
        });
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(BodyError::Silence(silence_max)))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
