//! What all routes of threads share.

use std::path::PathBuf;
use std::sync::Arc;

use holm_thread_log::threads::{Row, ThreadId, row_key};
use holm_thread_log::{Command, Outcome, StreamState, StreamStore, Timestamp};

use super::asking::Subject;
use super::blobs::Blobs;
use super::failure;
use super::reconcile::{NoReconcile, Reconcile, Reconciled, Reconciling};
use super::wire::Thread;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::tokens::{KeyRing, Tickets};

/// The threads of a server.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(super) streams: Arc<dyn StreamStore>,
    pub(super) keys: KeyRing,
    pub(super) tickets: Tickets,
    pub(super) blobs: Blobs,
    reconcile: Arc<dyn Reconcile>,
}

impl Threads {
    pub(crate) fn new(streams: Arc<dyn StreamStore>, blobs: PathBuf) -> Self {
        Self {
            keys: KeyRing::new(Arc::clone(&streams)),
            tickets: Tickets::new(Arc::clone(&streams)),
            blobs: Blobs::new(blobs),
            reconcile: Arc::new(NoReconcile),
            streams,
        }
    }

    /// Removes what uploads of an earlier server have left. Before the first request.
    pub(crate) fn clear_uploads(&self) -> std::io::Result<()> {
        self.blobs.clear_incoming()
    }

    /// Removes the blobs of threads that are there no more.
    pub(crate) async fn collect(&self) {
        self.blobs.collect(&*self.streams).await;
    }

    /// A thread's row and its stream, if it is the one that was meant.
    pub(super) async fn find(&self, subject: &Subject) -> Result<(Row, StreamState)> {
        let (organization, id) = (&subject.organization, &subject.id);
        let seen = self.streams.head(&subject.stream, now()).await;
        let stream = seen
            .map_err(failure::store)?
            .map_err(|unseen| failure::unseen(id.as_str(), unseen))?;
        subject.check(&stream)?;
        let row = self.row(organization, id).await?;
        Ok((row.unwrap_or_else(|| Row::new(&stream)), stream))
    }

    /// As [`Threads::find`], after somebody has looked at what became of its run.
    pub(super) async fn find_reconciled(&self, subject: &Subject) -> Result<Thread> {
        let (row, stream) = self.find(subject).await?;
        let thread = Reconciling {
            organization: &subject.organization,
            id: &subject.id,
            row: &row,
            stream: &stream,
        };
        let (row, stream) = match self.reconcile.reconcile(&thread, now()).await {
            Reconciled::AsItWas => (row, stream),
            Reconciled::Changed => self.find(subject).await?,
        };
        Ok(Thread::new(&subject.id, row, &stream))
    }

    pub(super) async fn row(&self, organization: &str, id: &ThreadId) -> Result<Option<Row>> {
        let key = row_key(organization, id);
        let document = self.streams.document(&key).await.map_err(failure::store)?;
        document
            .map(|document| Row::from_content(&document.content))
            .transpose()
            .map_err(|error| ApiError::internal("the row of this thread cannot be read", error))
    }

    pub(super) async fn apply(&self, id: &ThreadId, command: Command) -> Result<Outcome> {
        let decision = self.streams.apply(command, now()).await;
        decision
            .map_err(failure::store)?
            .map_err(|refusal| failure::refused(id.as_str(), &refusal))
    }
}

pub(super) fn now() -> Timestamp {
    Timestamp(clock::now())
}
