//! What a batch of decisions changes in a database.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::command::EntryKey;
use crate::document::{Document, DocumentKey};
use crate::name::StreamName;
use crate::offset::StreamId;
use crate::producer::{ProducerId, ProducerState};
use crate::state::StreamState;

/// The net change of a batch, to be written in one transaction in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Streams to remove, with all their entries, producers and keys. Some may never have been written.
    pub removed: BTreeMap<StreamId, StreamName>,
    /// Rows to put in place of those with the same id. Names are unique when [`Changes::removed`] was done first.
    pub streams: BTreeMap<StreamId, StreamState>,
    /// Those of [`Changes::streams`] that have only grown: of their rows, nothing is new but the tail, the size, the last access and
    /// `Stream-Seq`. A store may keep that with the entries, and bring the row up to date later.
    pub grown: BTreeSet<StreamId>,
    pub entries: Vec<NewEntry>,
    pub producers: BTreeMap<(StreamId, ProducerId), ProducerState>,
    pub keys: Vec<NewKey>,
    /// Documents to put, with their versions, or to remove.
    pub documents: BTreeMap<DocumentKey, Option<Document>>,
    /// Whose readers are woken, once all this is durable.
    pub woken: BTreeSet<StreamName>,
}

/// An entry: what one request appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    pub stream: StreamId,
    pub position: u64,
    pub data: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub stream: StreamId,
    pub key: EntryKey,
    /// The entry that holds the message.
    pub position: u64,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was decided later.
    pub(crate) fn merge(&mut self, later: Self) {
        for (id, name) in later.removed {
            self.streams.remove(&id);
            self.grown.remove(&id);
            self.entries.retain(|entry| entry.stream != id);
            self.producers.retain(|(stream, _), _| *stream != id);
            self.keys.retain(|key| key.stream != id);
            self.removed.insert(id, name);
        }
        for (id, stream) in later.streams {
            let has_only_grown = later.grown.contains(&id)
                && (self.grown.contains(&id) || !self.streams.contains_key(&id));
            if has_only_grown {
                self.grown.insert(id);
            } else {
                self.grown.remove(&id);
            }
            self.streams.insert(id, stream);
        }
        self.entries.extend(later.entries);
        self.producers.extend(later.producers);
        self.keys.extend(later.keys);
        self.documents.extend(later.documents);
        self.woken.extend(later.woken);
    }
}
