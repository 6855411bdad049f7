//! What has been read of a database, as far as decisions need it.
//!
//! Decisions do no I/O. One that lacks a fact says which ([`Need`]); the store reads it, tells it here, and decides again.
//! Facts are true as long as nobody else writes: a store that is the only writer keeps them from batch to batch, one that is not
//! begins each batch without any. After a failed commit they are forgotten.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::changes::Changes;
use crate::command::EntryKey;
use crate::document::{Document, DocumentKey};
use crate::name::StreamName;
use crate::offset::StreamId;
use crate::producer::{ProducerId, ProducerState};
use crate::state::StreamState;

/// A fact that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// The stream of this name, deleted ones included: [`Facts::learn_name`].
    Name(StreamName),
    /// A stream that another one was forked from: [`Facts::learn_stream`].
    Stream(StreamId),
    Producer(StreamId, ProducerId),
    /// Which of these the stream has seen.
    Keys(StreamId, Vec<EntryKey>),
    /// An entry that this stream itself wrote.
    Entry {
        writer: StreamId,
        position: u64,
    },
    Document(DocumentKey),
    /// An id that no stream has or had, higher than those of all streams that are there.
    FreshId,
}

#[derive(Debug, Default)]
pub struct Facts {
    names: HashMap<StreamName, Option<StreamId>>,
    streams: HashMap<StreamId, StreamState>,
    producers: HashMap<StreamId, HashMap<ProducerId, Option<ProducerState>>>,
    keys: HashMap<StreamId, HashMap<EntryKey, Seen>>,
    entries: HashMap<(StreamId, u64), Bytes>,
    documents: HashMap<DocumentKey, Option<Document>>,
    fresh_ids: Vec<StreamId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// A fact, or what has to be read for it.
pub(crate) type Known<T> = Result<T, Need>;

impl Facts {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn learn_name(&mut self, name: StreamName, stream: Option<StreamState>) {
        self.names
            .insert(name, stream.as_ref().map(|stream| stream.id));
        if let Some(stream) = stream {
            self.learn_stream(stream);
        }
    }

    pub fn learn_stream(&mut self, stream: StreamState) {
        self.names.insert(stream.name.clone(), Some(stream.id));
        self.streams.insert(stream.id, stream);
    }

    pub fn learn_producer(
        &mut self,
        stream: StreamId,
        producer: ProducerId,
        state: Option<ProducerState>,
    ) {
        self.producers
            .entry(stream)
            .or_default()
            .insert(producer, state);
    }

    /// Of the keys that were asked for, those that were seen.
    pub fn learn_keys(&mut self, stream: StreamId, asked: &[EntryKey], seen: &HashSet<EntryKey>) {
        let keys = self.keys.entry(stream).or_default();
        for key in asked {
            let answer = if seen.contains(key) {
                Seen::Yes
            } else {
                Seen::No
            };
            keys.insert(key.clone(), answer);
        }
    }

    pub fn learn_entry(&mut self, writer: StreamId, position: u64, data: Bytes) {
        self.entries.insert((writer, position), data);
    }

    pub fn learn_document(&mut self, key: DocumentKey, document: Option<Document>) {
        self.documents.insert(key, document);
    }

    /// Ids are used in the order in which they are told, each at most once; told again, it is another one.
    pub fn learn_fresh_id(&mut self, id: StreamId) {
        self.fresh_ids.push(id);
    }

    /// Forgets everything: the database may be different from now on, or the memory is needed.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many facts there are, for a store that bounds its memory.
    pub fn count(&self) -> usize {
        let keys: usize = self.keys.values().map(HashMap::len).sum();
        let producers: usize = self.producers.values().map(HashMap::len).sum();
        self.names.len() + self.streams.len() + self.documents.len() + producers + keys
    }

    pub(crate) fn id_of(&self, name: &StreamName) -> Known<Option<StreamId>> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| Need::Name(name.clone()))
    }

    pub(crate) fn stream(&self, id: StreamId) -> Known<&StreamState> {
        self.streams.get(&id).ok_or(Need::Stream(id))
    }

    pub(crate) fn producer(
        &self,
        stream: StreamId,
        producer: &ProducerId,
    ) -> Known<Option<ProducerState>> {
        let known = self
            .producers
            .get(&stream)
            .and_then(|known| known.get(producer));
        known
            .copied()
            .ok_or_else(|| Need::Producer(stream, producer.clone()))
    }

    /// Those of the keys that were seen.
    pub(crate) fn seen_keys<'a>(
        &self,
        stream: StreamId,
        keys: &[&'a EntryKey],
    ) -> Known<HashSet<&'a EntryKey>> {
        let known = self.keys.get(&stream);
        let state = |key: &EntryKey| known.and_then(|known| known.get(key)).copied();
        let missing: Vec<EntryKey> = keys
            .iter()
            .filter(|key| state(key).is_none())
            .map(|key| (*key).clone())
            .collect();
        if !missing.is_empty() {
            return Err(Need::Keys(stream, missing));
        }
        Ok(keys
            .iter()
            .copied()
            .filter(|key| state(key) == Some(Seen::Yes))
            .collect())
    }

    pub(crate) fn entry(&self, writer: StreamId, position: u64) -> Known<Bytes> {
        self.entries
            .get(&(writer, position))
            .cloned()
            .ok_or(Need::Entry { writer, position })
    }

    pub(crate) fn document(&self, key: &DocumentKey) -> Known<Option<&Document>> {
        self.documents
            .get(key)
            .map(Option::as_ref)
            .ok_or_else(|| Need::Document(key.clone()))
    }

    /// An id for a new stream, above that of its source: ids that were told may be older than a stream of another server.
    pub(crate) fn fresh_id(&self, source: Option<StreamId>) -> Known<StreamId> {
        let mut ids = self.fresh_ids.iter().copied();
        ids.find(|id| source.is_none_or(|source| *id > source))
            .ok_or(Need::FreshId)
    }

    /// Makes a decision a fact.
    pub(crate) fn absorb(&mut self, changes: &Changes) {
        for (id, name) in &changes.removed {
            self.streams.remove(id);
            self.names.insert(name.clone(), None);
            self.producers.remove(id);
            self.keys.remove(id);
        }
        for (id, stream) in &changes.streams {
            self.fresh_ids.retain(|fresh| fresh != id);
            self.learn_stream(stream.clone());
        }
        for ((stream, producer), state) in &changes.producers {
            self.learn_producer(*stream, producer.clone(), Some(*state));
        }
        for key in &changes.keys {
            self.keys
                .entry(key.stream)
                .or_default()
                .insert(key.key.clone(), Seen::Yes);
        }
        for (key, document) in &changes.documents {
            self.documents.insert(key.clone(), document.clone());
        }
    }

    /// Entries are needed once, and big.
    pub(crate) fn forget_entries(&mut self) {
        self.entries.clear();
    }
}
