//! What streams mean to whoever keeps them: rows that follow from entries, and writers that are no longer welcome.
//!
//! The rules are asked while a command is decided. What they write is stored in the same transaction as the entries: a thread's row
//! is always what its entries say, and a finished-signal, the row's status and what is to be done about the box are one change.

use std::fmt;

use crate::command::Message;
use crate::document::{Document, DocumentKey, DocumentWrite};
use crate::expiry::Timestamp;
use crate::name::StreamName;
use crate::state::StreamState;

/// Pure: the same event and row give the same judgement. They run while other writers wait, so they are quick.
pub trait Rules: Send + Sync + fmt::Debug {
    /// The document that follows from this stream's entries, if it has one. It is removed together with the stream.
    fn row(&self, stream: &StreamName) -> Option<DocumentKey>;

    /// Whether it may happen, and which documents change with it. Asked only for streams with a row, before anything is stored;
    /// messages that were stored before are already left out.
    fn judge(&self, event: &Event<'_>) -> Judgement;
}

#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// As it will be.
    pub stream: &'a StreamState,
    pub what: What<'a>,
    /// As it is.
    pub row: Option<&'a Document>,
    pub writer: Option<&'a str>,
    pub now: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// With its first messages, if any. Inherited ones are not among them.
    Created(&'a [Message]),
    /// Also when the stream is closed with it; without messages when it is only closed.
    Appended(&'a [Message]),
    Heartbeat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Accept {
        documents: Vec<DocumentWrite>,
        writer: Standing,
    },
    /// The code is for machines, the message for people.
    Refuse { code: &'static str, message: String },
}

/// What the writer is after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Welcome,
    /// It was its last word. There is room for that also in a stream that is full.
    Done,
}

/// Streams that are only streams.
#[derive(Debug, Clone, Copy)]
pub struct NoRules;

impl Rules for NoRules {
    fn row(&self, _stream: &StreamName) -> Option<DocumentKey> {
        None
    }

    fn judge(&self, _event: &Event<'_>) -> Judgement {
        Judgement::Accept {
            documents: Vec::new(),
            writer: Standing::Welcome,
        }
    }
}
