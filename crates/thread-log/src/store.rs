//! The contract of a store: where streams are kept.
//!
//! **What an implementor owes:**
//!
//! - A command is decided by [`Batch`](crate::Batch) and nothing else, and its [`Changes`](crate::Changes) are written in one transaction.
//! - [`StreamStore::apply`] returns when that is durable: it survives a power cut. Readers see nothing before, and are woken
//!   ([`Hub`](crate::Hub)) after it and before the writer hears of it.
//! - When it is unknown whether something became durable, nobody is answered: the store stops, and says so ([`StoreError::Stopped`]).
//! - Queues are bounded. A full one is [`StoreError::Busy`], and nothing has happened.
//! - A future that is dropped does not undo its command: it may or may not have happened, as after a lost connection.

use std::fmt;

use async_trait::async_trait;

use crate::command::{Command, Decision};
use crate::document::{Document, DocumentKey};
use crate::expiry::Timestamp;
use crate::name::StreamName;
use crate::offset::{Offset, ReadFrom};
use crate::page::{Page, PageEntries};
use crate::segment::{self, Segment};
use crate::sse::Freshness;
use crate::state::{Presence, StreamState};
use crate::wake::{Feed, Watch};

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Boxed futures, so that a server picks its store when it starts; a box costs nothing beside a sync of the disk.
#[async_trait]
pub trait StreamStore: Send + Sync + fmt::Debug {
    /// Does what the command asks, or says why not; then it is durable.
    async fn apply(&self, command: Command, now: Timestamp) -> Result<Decision>;

    /// A stream, if clients may see it.
    async fn head(&self, name: &StreamName, now: Timestamp) -> Result<Seen<StreamState>>;

    /// Entries from a place on, of one moment: at least one if there is any, and then as many as fit into `bytes_max`.
    /// Nothing is renewed by it: see [`Lifetime::needs_touch`](crate::Lifetime::needs_touch).
    async fn read(
        &self,
        name: &StreamName,
        from: ReadFrom,
        bytes_max: usize,
        now: Timestamp,
    ) -> Result<Seen<Page>>;

    /// Streams whose names begin so, by name, deleted and expired ones left out.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&StreamName>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<StreamState>>;

    /// Names for [`Command::Expire`], the longest overdue first.
    async fn overdue(&self, now: Timestamp, limit: usize) -> Result<Vec<StreamName>>;

    async fn document(&self, key: &DocumentKey) -> Result<Option<Document>>;

    /// Documents that have all the terms, by id.
    async fn documents(&self, query: &DocumentQuery) -> Result<Vec<(DocumentKey, Document)>>;

    /// Wakes when a stream of this name has changed: entries, its closing, its end, its making. Ask for it *before* reading; a change
    /// after that is not missed. A wake-up may come without a change.
    fn watch(&self, name: &StreamName) -> Watch;

    /// The names of all streams that change, for subscriptions.
    fn feed(&self) -> Feed;
}

/// What a reader gets, if the stream is there for it.
pub type Seen<T> = std::result::Result<T, Unseen>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    #[error("there is no such stream")]
    NotFound,
    #[error("the stream was deleted; only its forks still use it")]
    Gone,
    #[error("the offset is none of this stream's")]
    ForeignOffset,
}

/// Which documents, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentQuery {
    pub collection: String,
    pub terms: Vec<String>,
    pub order: Order,
    /// The id after which to go on.
    pub after: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// What a store reads for a page: these entries in this order, as far as the bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    segments: Vec<Segment>,
    /// Where the reader is, if nothing is read.
    from: Offset,
}

impl ReadPlan {
    /// Finds out what a reader wants, from the row of the stream in the same snapshot that the entries are read from.
    pub fn new(stream: &StreamState, from: ReadFrom) -> Seen<Self> {
        let all = stream.segments();
        let (segments, from) = match from {
            ReadFrom::Start => (all, Offset::START),
            ReadFrom::Now => (Vec::new(), stream.tail()),
            ReadFrom::At(offset) => {
                let position = segment::locate(&all, offset).ok_or(Unseen::ForeignOffset)?;
                (segment::after(&all, position), offset)
            }
        };
        Ok(Self { segments, from })
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The page of the entries that were read, which are a beginning of what was planned.
    pub fn page(self, stream: StreamState, entries: PageEntries) -> Page {
        let (entries, body) = entries.finish();
        let next = entries.last().map_or(self.from, |last| last.next);
        let freshness = if next == stream.tail() {
            Freshness::UpToDate
        } else {
            Freshness::MoreToRead
        };
        Page {
            stream,
            entries,
            body,
            next,
            freshness,
        }
    }
}

/// The stream as a reader sees it.
pub fn visible(stream: Option<StreamState>, now: Timestamp) -> Seen<StreamState> {
    let stream = stream.ok_or(Unseen::NotFound)?;
    match stream.presence(now) {
        Presence::Live => Ok(stream),
        Presence::Expired => Err(Unseen::NotFound),
        Presence::Gone => Err(Unseen::Gone),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing has happened; try again later.
    #[error("the store has more to write than it can")]
    Busy,
    /// Nothing has happened.
    #[error("the store has no space left, or may not write")]
    Full {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It may have happened or not: ask again with the same producer's number or the same keys.
    #[error("the store has stopped")]
    Stopped,
    #[error("could not {doing}")]
    Failed {
        doing: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
