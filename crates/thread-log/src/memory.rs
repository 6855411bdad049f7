//! A store that forgets: the reference that other stores are compared with, and a stand-in for them in tests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::changes::Changes;
use crate::command::{Command, Decision, EntryKey};
use crate::decide::Batch;
use crate::document::{Document, DocumentKey};
use crate::expiry::Timestamp;
use crate::facts::{Facts, Need};
use crate::name::StreamName;
use crate::offset::{Offset, ReadFrom, StreamId};
use crate::page::{Page, PageEntries};
use crate::producer::{ProducerId, ProducerState};
use crate::rules::{NoRules, Rules};
use crate::state::{Presence, StreamState};
use crate::store::{
    DocumentQuery, Order, ReadPlan, Result, Seen, StoreError, StreamStore, visible,
};
use crate::wake::{Feed, Hub, Watch};

#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    rules: Arc<dyn Rules>,
    hub: Hub,
}

/// What a database would have as tables.
#[derive(Debug, Default)]
struct Tables {
    streams: BTreeMap<StreamId, StreamState>,
    names: BTreeMap<StreamName, StreamId>,
    entries: BTreeMap<(StreamId, u64), Bytes>,
    producers: HashMap<(StreamId, ProducerId), ProducerState>,
    keys: HashSet<(StreamId, EntryKey)>,
    documents: BTreeMap<DocumentKey, Document>,
    last_id: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(NoRules))
    }
}

impl MemoryStore {
    pub fn new(rules: Arc<dyn Rules>) -> Self {
        Self {
            tables: Mutex::default(),
            rules,
            hub: Hub::new(),
        }
    }

    /// Does several commands as one transaction, as a store with a committer does.
    pub fn apply_batch(
        &self,
        commands: &[(Timestamp, Command)],
        facts: &mut Facts,
    ) -> Result<Vec<Decision>> {
        let mut tables = self.lock();
        let mut batch = Batch::new(facts, &*self.rules);
        // Everything in as few questions as it takes, as a store does whose database is far away.
        loop {
            let missing = batch.missing(commands.iter().map(|(now, command)| (command, *now)));
            if missing.is_empty() {
                break;
            }
            for need in missing {
                tables.answer(need, batch.facts())?;
            }
        }
        let mut decisions = Vec::with_capacity(commands.len());
        for (now, command) in commands {
            let decision = loop {
                match batch.run(command, *now) {
                    Ok(decision) => break decision,
                    Err(need) => tables.answer(need, batch.facts())?,
                }
            };
            decisions.push(decision);
        }
        let changes = batch.finish();
        let woken = changes.woken.clone();
        tables.write(changes);
        drop(tables);
        self.hub.wake(&woken);
        Ok(decisions)
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn by_name(&self, name: &StreamName) -> Option<StreamState> {
        let id = self.names.get(name)?;
        self.streams.get(id).cloned()
    }

    /// Answers a need. Fails only if the tables contradict each other.
    fn answer(&mut self, need: Need, facts: &mut Facts) -> Result<()> {
        match need {
            Need::Name(name) => {
                let stream = self.by_name(&name);
                facts.learn_name(name, stream);
            }
            Need::Stream(id) => {
                let stream = self.streams.get(&id).cloned();
                facts.learn_stream(stream.ok_or_else(|| missing("find the source of a fork"))?);
            }
            Need::Producer(stream, producer) => {
                let state = self.producers.get(&(stream, producer.clone())).copied();
                facts.learn_producer(stream, producer, state);
            }
            Need::Keys(stream, asked) => {
                let is_seen = |key: &&EntryKey| self.keys.contains(&(stream, (*key).clone()));
                let seen = asked.iter().filter(is_seen).cloned().collect();
                facts.learn_keys(stream, &asked, &seen);
            }
            Need::Entry { writer, position } => {
                let data = self.entries.get(&(writer, position)).cloned();
                facts.learn_entry(
                    writer,
                    position,
                    data.ok_or_else(|| missing("find an entry"))?,
                );
            }
            Need::Document(key) => {
                let document = self.documents.get(&key).cloned();
                facts.learn_document(key, document);
            }
            Need::FreshId => {
                self.last_id += 1;
                facts.learn_fresh_id(StreamId(self.last_id));
            }
        }
        Ok(())
    }

    fn write(&mut self, changes: Changes) {
        for (id, name) in &changes.removed {
            self.streams.remove(id);
            if self.names.get(name) == Some(id) {
                self.names.remove(name);
            }
            self.entries.retain(|(stream, _), _| stream != id);
            self.producers.retain(|(stream, _), _| stream != id);
            self.keys.retain(|(stream, _)| stream != id);
        }
        for (id, stream) in changes.streams {
            self.names.insert(stream.name.clone(), id);
            self.streams.insert(id, stream);
        }
        let entries = changes.entries.into_iter();
        self.entries
            .extend(entries.map(|entry| ((entry.stream, entry.position), entry.data)));
        self.producers.extend(changes.producers);
        self.keys
            .extend(changes.keys.into_iter().map(|key| (key.stream, key.key)));
        for (key, document) in changes.documents {
            match document {
                Some(document) => self.documents.insert(key, document),
                None => self.documents.remove(&key),
            };
        }
    }

    fn page(&self, stream: StreamState, from: ReadFrom, bytes_max: usize) -> Seen<Page> {
        let plan = ReadPlan::new(&stream, from)?;
        let mut entries = PageEntries::new(&stream.content_type, bytes_max);
        let wanted = plan.segments().iter().flat_map(|segment| {
            let range = (segment.writer, segment.after + 1)..=(segment.writer, segment.through);
            self.entries.range(range)
        });
        for ((writer, position), data) in wanted {
            if !entries.push(data, Offset::new(*writer, *position)) {
                break;
            }
        }
        Ok(plan.page(stream, entries))
    }
}

fn missing(doing: &'static str) -> StoreError {
    let source = "it is not there".into();
    StoreError::Failed { doing, source }
}

#[async_trait]
impl StreamStore for MemoryStore {
    async fn apply(&self, command: Command, now: Timestamp) -> Result<Decision> {
        let mut decisions = self.apply_batch(&[(now, command)], &mut Facts::new())?;
        decisions.pop().ok_or_else(|| missing("decide a command"))
    }

    async fn head(&self, name: &StreamName, now: Timestamp) -> Result<Seen<StreamState>> {
        Ok(visible(self.lock().by_name(name), now))
    }

    async fn read(
        &self,
        name: &StreamName,
        from: ReadFrom,
        bytes_max: usize,
        now: Timestamp,
    ) -> Result<Seen<Page>> {
        let tables = self.lock();
        let stream = visible(tables.by_name(name), now);
        Ok(stream.and_then(|stream| tables.page(stream, from, bytes_max)))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&StreamName>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<StreamState>> {
        let tables = self.lock();
        let streams = tables.names.iter().filter_map(|(name, id)| {
            let is_wanted =
                name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after);
            tables
                .streams
                .get(id)
                .filter(|stream| is_wanted && stream.presence(now) == Presence::Live)
        });
        Ok(streams.take(limit).cloned().collect())
    }

    async fn overdue(&self, now: Timestamp, limit: usize) -> Result<Vec<StreamName>> {
        let tables = self.lock();
        let mut overdue: Vec<_> = tables
            .streams
            .values()
            .filter_map(|stream| {
                stream
                    .deadline()
                    .map(|deadline| (deadline, stream.name.clone()))
            })
            .filter(|(deadline, _)| *deadline <= now)
            .collect();
        overdue.sort();
        Ok(overdue
            .into_iter()
            .take(limit)
            .map(|(_, name)| name)
            .collect())
    }

    async fn document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        Ok(self.lock().documents.get(key).cloned())
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Vec<(DocumentKey, Document)>> {
        let tables = self.lock();
        let found = tables.documents.iter().filter(|(key, document)| {
            let has_terms = query
                .terms
                .iter()
                .all(|term| document.content.terms.contains(term));
            let is_after = query.after.as_ref().is_none_or(|after| match query.order {
                Order::Ascending => key.id > *after,
                Order::Descending => key.id < *after,
            });
            key.collection == query.collection && has_terms && is_after
        });
        let owned = |(key, document): (&DocumentKey, &Document)| (key.clone(), document.clone());
        Ok(match query.order {
            Order::Ascending => found.take(query.limit).map(owned).collect(),
            Order::Descending => found.rev().take(query.limit).map(owned).collect(),
        })
    }

    fn watch(&self, name: &StreamName) -> Watch {
        self.hub.watch(name)
    }

    fn feed(&self) -> Feed {
        self.hub.feed()
    }
}

#[cfg(test)]
mod checks;
#[cfg(test)]
mod tests;
