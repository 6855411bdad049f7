//! Durable streams: what they mean, apart from where they are kept and how they are spoken to.
//!
//! - The small parts: [`Offset`], [`StreamName`], [`ContentType`], [`producer`], [`json`], [`Lifetime`], [`cursor`](cursor()),
//!   [`etag`], [`sse`], [`segment`].
//! - [`Command`] and [`Decision`] are what can be asked and answered; [`Batch`] decides, from [`Facts`], and yields [`Changes`].
//! - [`StreamStore`] is the contract of a place to keep streams; [`Hub`] wakes those who wait for them.
//! - [`subscription`] is the state machine of those who are woken when streams have grown.
//! - [`Rules`] make documents follow from entries, such as the row of a thread.
//! - [`threads`]: what entries of threads are, and the row that follows from them.
//! - `MemoryStore` (feature `testing`) keeps nothing, and is what other stores are compared with.
//!
//! This crate knows no HTTP and no database, starts no agent, and reads no clock.

mod changes;
mod command;
mod content_type;
mod cursor;
mod decide;
mod document;
pub mod etag;
mod expiry;
mod facts;
pub mod json;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod name;
mod offset;
mod page;
pub mod producer;
mod rules;
pub mod segment;
pub mod sse;
mod state;
mod store;
pub mod subscription;
pub mod threads;
mod wake;

pub use changes::{Changes, NewEntry, NewKey};
pub use command::{
    Append, Appended, Command, Create, Decision, ENTRY_KEY_LENGTH_MAX, EntryKey, EntryKeyError,
    Expired, Fork, Message, Outcome, Payload, Refusal, Touch, Writer,
};
pub use content_type::{ContentType, ContentTypeError};
pub use cursor::{JITTER_SECONDS_MAX, cursor};
pub use decide::Batch;
pub use document::{Content, Document, DocumentKey, DocumentWrite, Expect};
pub use expiry::{ExpiryError, Lifetime, Timestamp};
pub use facts::{Facts, Need};
#[cfg(any(test, feature = "testing"))]
pub use memory::MemoryStore;
pub use name::{NAME_LENGTH_MAX, NameError, StreamName};
pub use offset::{Offset, OffsetError, ReadFrom, StreamId};
pub use page::{Entry, Page, PageEntries};
pub use producer::{Claim, ProducerId, ProducerState};
pub use rules::{Event, Judgement, NoRules, Rules, Standing, What};
pub use segment::Segment;
pub use state::{Ending, Existence, Origin, Presence, StreamState};
pub use store::{
    DocumentQuery, Order, ReadPlan, Result, Seen, StoreError, StreamStore, Unseen, visible,
};
pub use wake::{Fed, Feed, Hub, Watch};
