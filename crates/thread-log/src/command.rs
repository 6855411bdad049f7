//! What can be asked of a store, and what it can answer.
//!
//! A command is decided and stored as a whole or not at all. The answer is data: who speaks HTTP makes a status of it.

use bytes::Bytes;

use crate::content_type::ContentType;
use crate::document::{DocumentKey, DocumentWrite};
use crate::expiry::Lifetime;
use crate::json::JsonError;
use crate::name::StreamName;
use crate::offset::{Offset, StreamId};
use crate::producer::{Claim, ProducerState};
use crate::state::{Ending, StreamState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Create(Create),
    Append(Append),
    Delete {
        name: StreamName,
    },
    /// Renews a sliding lifetime, or says that a writer lives. Adds no entry and wakes nobody.
    Touch {
        name: StreamName,
        touch: Touch,
    },
    /// Removes the stream if its time is over; from the store's sweeper.
    Expire {
        name: StreamName,
    },
    /// Changes documents, all or none.
    Write {
        documents: Vec<DocumentWrite>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    Read,
    Heartbeat { writer: Option<Writer> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub name: StreamName,
    /// `None`: what the source of a fork has, or bytes.
    pub content_type: Option<ContentType>,
    /// `None`: what the source of a fork has, or for ever.
    pub lifetime: Option<Lifetime>,
    pub ending: Ending,
    pub payload: Option<Payload>,
    pub fork: Option<Fork>,
    pub writer: Option<Writer>,
    /// Written with it, or nothing is. Left out when the stream is there already.
    pub documents: Vec<DocumentWrite>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    pub source: StreamName,
    /// `None`: the source's end.
    pub at: Option<Offset>,
    /// How much of the entry after `at` is taken along: messages of JSON, bytes of all else.
    pub sub_offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    pub name: StreamName,
    /// `None` is right only without a payload.
    pub content_type: Option<ContentType>,
    /// `None`: only close.
    pub payload: Option<Payload>,
    pub producer: Option<Claim>,
    pub stream_seq: Option<String>,
    /// Whether the stream is closed with it.
    pub ending: Ending,
    /// Who writes, if it is not the owner.
    pub writer: Option<Writer>,
    /// Written with it, or nothing is. Left out when the append turns out to be a duplicate.
    pub documents: Vec<DocumentWrite>,
}

/// Somebody who was let in to write, and not to do everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// For the [`Rules`](crate::Rules); such as the run that a token was made for.
    pub run: String,
    /// The one stream that it was let in to, and not a later one of the same name. `None`: whichever has the name.
    pub stream: Option<StreamId>,
    /// How many bytes the stream may have with what it writes.
    pub stream_bytes_max: u64,
}

impl Writer {
    /// One that is bound by the rules only.
    pub fn of_run(run: impl Into<String>) -> Self {
        Self {
            run: run.into(),
            stream: None,
            stream_bytes_max: u64::MAX,
        }
    }
}

/// What is appended by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// The body as it came. For a stream of JSON it is taken apart when the command is decided, which holds up other writers:
    /// who knows the type beforehand uses [`Payload::json`].
    Bytes(Bytes),
    Messages(Vec<Message>),
}

impl Payload {
    /// Takes a body of JSON apart.
    pub fn json(body: &Bytes) -> Result<Self, JsonError> {
        let messages = crate::json::flatten(body)?;
        Ok(Self::Messages(
            messages.into_iter().map(Message::from).collect(),
        ))
    }
}

/// One JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub data: Bytes,
    /// A message whose key the stream has seen is not stored again.
    pub key: Option<EntryKey>,
}

impl From<Bytes> for Message {
    fn from(data: Bytes) -> Self {
        Self { data, key: None }
    }
}

/// The writer's own id of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(String);

pub const ENTRY_KEY_LENGTH_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of an entry is 1 to {ENTRY_KEY_LENGTH_MAX} bytes, without control characters")]
pub struct EntryKeyError;

impl EntryKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for EntryKey {
    type Err = EntryKeyError;

    fn from_str(text: &str) -> Result<Self, EntryKeyError> {
        let is_good =
            (1..=ENTRY_KEY_LENGTH_MAX).contains(&text.len()) && !text.contains(char::is_control);
        is_good.then(|| Self(text.to_owned())).ok_or(EntryKeyError)
    }
}

/// The answer to a command.
pub type Decision = Result<Outcome, Refusal>;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Created(Box<StreamState>),
    /// It was there already, just as it was asked for.
    Exists(Box<StreamState>),
    Appended(Appended),
    /// Stored before, by its producer's number or the keys of its messages. Nothing was added.
    Duplicate(Appended),
    /// Closed, now or before, and nothing was added.
    Closed(Appended),
    Deleted,
    Touched,
    /// What [`Command::Expire`] found.
    Expired(Expired),
    Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    Removed,
    StillAlive,
}

/// Where a stream stands after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub tail: Offset,
    pub ending: Ending,
    /// What is known of the producer now, if the request had one.
    pub producer: Option<ProducerState>,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no such stream")]
    NotFound,
    #[error("the stream was deleted; only its forks still use it")]
    Gone,
    #[error("the stream is closed")]
    Closed { tail: Offset },
    #[error("the stream holds `{expected}`")]
    ContentType { expected: ContentType },
    #[error("the body is empty")]
    Empty,
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("the stream exists with another {what}")]
    Differs { what: &'static str },
    #[error("the name belongs to a deleted stream that still has forks")]
    NameHeld,
    #[error("there is no stream `{source_name}` to fork")]
    SourceNotFound { source_name: StreamName },
    #[error("the stream `{source_name}` was deleted and cannot be forked")]
    SourceGone { source_name: StreamName },
    #[error("the fork's source holds `{expected}`")]
    SourceContentType { expected: ContentType },
    #[error("the fork's offset is none of its source's")]
    ForkOffset,
    #[error("the fork's sub-offset is beyond the entry that follows its offset")]
    ForkSubOffset,
    #[error(
        "the fork would be made of more than {} pieces",
        crate::segment::SEGMENTS_MAX
    )]
    ForkTooDeep,
    #[error("the producer has a later epoch, {current}")]
    StaleEpoch { current: u64 },
    #[error("a new epoch begins with sequence 0")]
    EpochMustStartAtZero,
    #[error("the producer's sequence {expected} is missing before {received}")]
    Gap { expected: u64, received: u64 },
    #[error("the stream's sequence must rise above `{last}`")]
    StreamSeq { last: String },
    #[error(
        "the stream that the writer was let in to is deleted: this is another one of the same name"
    )]
    Replaced,
    #[error("the stream has as much as its writer may store: {bytes_max} bytes")]
    StreamFull { bytes_max: u64 },
    #[error("the document `{}` of `{}` was changed by somebody else", .key.id, .key.collection)]
    DocumentChanged { key: DocumentKey },
    /// From the [`Rules`](crate::Rules).
    #[error("{message}")]
    Rule { code: &'static str, message: String },
}
