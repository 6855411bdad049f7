//! What commands do: the one implementation of the semantics, shared by all stores.
//!
//! ```text
//!     store:   drain commands ─▶ Batch::run each ──Err(Need)──▶ read it, Facts::learn_*, run again
//!                                      │
//!                                      ▼ all decided
//!              Batch::finish ─▶ Changes ─▶ one transaction ─▶ durable ─▶ wake readers ─▶ answer writers
//! ```
//!
//! **Invariants:** a run that lacks a fact has changed nothing. A refused command changes nothing either, except that it may remove
//! a stream whose time is over.

mod append;
mod create;
mod remove;

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use crate::changes::{Changes, NewEntry, NewKey};
use crate::command::{
    Command, Decision, EntryKey, Expired, Message, Outcome, Payload, Refusal, Touch, Writer,
};
use crate::content_type::ContentType;
use crate::document::{Document, DocumentKey, DocumentWrite};
use crate::expiry::Timestamp;
use crate::facts::{Facts, Known, Need};
use crate::json;
use crate::name::StreamName;
use crate::offset::StreamId;
use crate::rules::{Event, Judgement, Rules, Standing, What};
use crate::state::{Presence, StreamState};

/// Commands that are stored together. Each sees what those before it did.
#[derive(Debug)]
pub struct Batch<'a> {
    facts: &'a mut Facts,
    rules: &'a dyn Rules,
    changes: Changes,
}

impl<'a> Batch<'a> {
    pub fn new(facts: &'a mut Facts, rules: &'a dyn Rules) -> Self {
        Self {
            facts,
            rules,
            changes: Changes::default(),
        }
    }

    /// Decides a command, or says which fact is missing for it; then nothing has happened yet.
    pub fn run(&mut self, command: &Command, now: Timestamp) -> Result<Decision, Need> {
        let mut draft = self.draft(now);
        let decision = draft.decide(command)?;
        let changes = draft.changes;
        self.facts.absorb(&changes);
        self.changes.merge(changes);
        Ok(decision)
    }

    /// What is missing for these commands, as far as it can be told before they are run: for a store that would rather ask
    /// its database once than for each. Asked again when that is known, it may find more; empty, a run seldom needs anything.
    pub fn missing<'c>(
        &self,
        commands: impl IntoIterator<Item = (&'c Command, Timestamp)>,
    ) -> Vec<Need> {
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        for (command, now) in commands {
            if let Err(need) = self.draft(now).decide(command) {
                // Each new stream needs an id of its own.
                if need == Need::FreshId || seen.insert(need.clone()) {
                    missing.push(need);
                }
            }
        }
        missing
    }

    fn draft(&self, now: Timestamp) -> Draft<'_> {
        Draft {
            facts: self.facts,
            batch: &self.changes,
            rules: self.rules,
            now,
            changes: Changes::default(),
            settled: Changes::default(),
        }
    }

    /// Tells a fact that a run asked for.
    pub fn facts(&mut self) -> &mut Facts {
        self.facts
    }

    /// What is to be written.
    pub fn finish(self) -> Changes {
        self.facts.forget_entries();
        self.changes
    }
}

/// One decision on its way.
#[derive(Debug)]
struct Draft<'a> {
    facts: &'a Facts,
    /// What the batch changes already; its entries are in no database yet.
    batch: &'a Changes,
    rules: &'a dyn Rules,
    now: Timestamp,
    changes: Changes,
    /// What stays even if the command is refused: streams whose time was over.
    settled: Changes,
}

/// A stream as a command finds it.
enum Found {
    Missing,
    Gone,
    Live(Box<StreamState>),
}

/// A reason to stop: a refusal, or a fact that is missing.
enum Stop {
    Refused(Refusal),
    Need(Need),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(need)
    }
}

type Step<T> = Result<T, Stop>;

impl Draft<'_> {
    fn decide(&mut self, command: &Command) -> Known<Decision> {
        let result = match command {
            Command::Create(create) => self.create(create),
            Command::Append(append) => self.append(append),
            Command::Delete { name } => self.delete(name),
            Command::Touch { name, touch } => self.touch(name, touch),
            Command::Expire { name } => self.expire(name),
            Command::Write { documents } => self.write(documents).map(|()| Outcome::Written),
        };
        match result {
            Ok(outcome) => Ok(Ok(outcome)),
            Err(Stop::Refused(refusal)) => {
                self.changes = std::mem::take(&mut self.settled);
                Ok(Err(refusal))
            }
            Err(Stop::Need(need)) => Err(need),
        }
    }

    fn touch(&mut self, name: &StreamName, touch: &Touch) -> Step<Outcome> {
        let mut stream = self.live(name)?;
        stream.last_access = self.now;
        if let Touch::Heartbeat { writer } = touch {
            check_writer(&stream, writer.as_ref())?;
            stream.last_seen = Some(self.now);
            self.ask_rules(&stream, What::Heartbeat, writer.as_ref())?;
        }
        self.put(stream);
        Ok(Outcome::Touched)
    }

    fn expire(&mut self, name: &StreamName) -> Step<Outcome> {
        let Some(stream) = self.by_name(name)? else {
            return Ok(Outcome::Expired(Expired::Removed));
        };
        let is_over = stream
            .deadline()
            .is_some_and(|deadline| deadline <= self.now);
        if !is_over {
            return Ok(Outcome::Expired(Expired::StillAlive));
        }
        self.bury(stream)?;
        Ok(Outcome::Expired(Expired::Removed))
    }

    /// All or none: a refused write drops what was drafted before it.
    fn write(&mut self, writes: &[DocumentWrite]) -> Step<()> {
        let mut written = BTreeMap::new();
        for write in writes {
            let current = match written.get(&write.key) {
                Some(document) => Option::as_ref(document),
                None => self.document(&write.key)?,
            };
            let Some(document) = write.against(current) else {
                return Err(Refusal::DocumentChanged {
                    key: write.key.clone(),
                }
                .into());
            };
            written.insert(write.key.clone(), document);
        }
        self.changes.documents.extend(written);
        Ok(())
    }

    /// Lets the rules have their say, and writes what follows. Says what the writer is then.
    fn ask_rules(
        &mut self,
        stream: &StreamState,
        what: What<'_>,
        writer: Option<&Writer>,
    ) -> Step<Standing> {
        let Some(key) = self.rules.row(&stream.name) else {
            return Ok(Standing::Welcome);
        };
        let row = self.document(&key)?;
        let event = Event {
            stream,
            what,
            row,
            writer: writer.map(|writer| writer.run.as_str()),
            now: self.now,
        };
        match self.rules.judge(&event) {
            Judgement::Accept { documents, writer } => {
                self.write(&documents)?;
                Ok(writer)
            }
            Judgement::Refuse { code, message } => Err(Refusal::Rule { code, message }.into()),
        }
    }

    /// The stream of a name. One whose time is over is removed on the way.
    fn find(&mut self, name: &StreamName) -> Known<Found> {
        let Some(stream) = self.by_name(name)? else {
            return Ok(Found::Missing);
        };
        Ok(match stream.presence(self.now) {
            Presence::Live => Found::Live(Box::new(stream)),
            Presence::Gone => Found::Gone,
            Presence::Expired => {
                self.bury(stream)?;
                self.settled = self.changes.clone();
                Found::Missing
            }
        })
    }

    /// As [`Draft::find`], for commands that a stream must be there for.
    fn live(&mut self, name: &StreamName) -> Step<StreamState> {
        match self.find(name)? {
            Found::Missing => Err(Refusal::NotFound.into()),
            Found::Gone => Err(Refusal::Gone.into()),
            Found::Live(stream) => Ok(*stream),
        }
    }

    fn by_name(&self, name: &StreamName) -> Known<Option<StreamState>> {
        match self.facts.id_of(name)? {
            Some(id) if !self.changes.removed.contains_key(&id) => self.stream(id).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    fn stream(&self, id: StreamId) -> Known<StreamState> {
        match self.changes.streams.get(&id) {
            Some(stream) => Ok(stream.clone()),
            None => self.facts.stream(id).cloned(),
        }
    }

    fn document(&self, key: &DocumentKey) -> Known<Option<&Document>> {
        match self.changes.documents.get(key) {
            Some(document) => Ok(document.as_ref()),
            None => self.facts.document(key),
        }
    }

    fn entry(&self, writer: StreamId, position: u64) -> Known<Bytes> {
        let is_it = |entry: &&NewEntry| entry.stream == writer && entry.position == position;
        match self.batch.entries.iter().find(is_it) {
            Some(entry) => Ok(entry.data.clone()),
            None => self.facts.entry(writer, position),
        }
    }

    fn put(&mut self, stream: StreamState) {
        self.changes.streams.insert(stream.id, stream);
    }

    fn wake(&mut self, stream: &StreamState) {
        self.changes.woken.insert(stream.name.clone());
    }

    /// Adds an entry at the end of a stream, whose row the caller puts.
    fn add_entry(&mut self, stream: &mut StreamState, data: Bytes, keys: Vec<EntryKey>) {
        stream.tail_position += 1;
        stream.size_bytes += u64::try_from(data.len()).unwrap_or(u64::MAX);
        let (id, position) = (stream.id, stream.tail_position);
        self.changes.entries.push(NewEntry {
            stream: id,
            position,
            data,
        });
        let keys = keys.into_iter().map(|key| NewKey {
            stream: id,
            key,
            position,
        });
        self.changes.keys.extend(keys);
    }
}

/// Names are used again; who was let in to the stream that had this one before is a stranger to the next.
fn check_writer(stream: &StreamState, writer: Option<&Writer>) -> Result<(), Refusal> {
    match writer.and_then(|writer| writer.stream) {
        Some(id) if id != stream.id => Err(Refusal::Replaced),
        Some(_) | None => Ok(()),
    }
}

/// What a writer's last word may take beyond what it may fill: that it has ended can always be said.
const LAST_WORD_BYTES: u64 = 64 << 10;

/// Whether the stream is as large as its writer may make it, at most. The owner may make it larger.
fn check_size(
    stream: &StreamState,
    writer: Option<&Writer>,
    standing: Standing,
) -> Result<(), Refusal> {
    let bytes_max = writer.map_or(u64::MAX, |writer| writer.stream_bytes_max);
    let beyond = match standing {
        Standing::Welcome => 0,
        Standing::Done => LAST_WORD_BYTES,
    };
    if stream.size_bytes > bytes_max.saturating_add(beyond) {
        return Err(Refusal::StreamFull { bytes_max });
    }
    Ok(())
}

/// What a payload is on a stream of this type.
fn messages_of(content_type: &ContentType, payload: &Payload) -> Result<Vec<Message>, Refusal> {
    match payload {
        Payload::Messages(_) if !content_type.is_json() => Err(Refusal::ContentType {
            expected: content_type.clone(),
        }),
        Payload::Messages(messages) => Ok(messages.clone()),
        Payload::Bytes(body) if content_type.is_json() => {
            let messages = json::flatten(body)?;
            Ok(messages.into_iter().map(Message::from).collect())
        }
        Payload::Bytes(body) if body.is_empty() => Ok(Vec::new()),
        Payload::Bytes(body) => Ok(vec![Message::from(body.clone())]),
    }
}

/// The entry that messages make, and the keys that are remembered with it. No messages, no entry.
fn entry_of(messages: Vec<Message>) -> Option<(Bytes, Vec<EntryKey>)> {
    if messages.is_empty() {
        return None;
    }
    let data = json::join(messages.iter().map(|message| &message.data));
    let keys = messages
        .into_iter()
        .filter_map(|message| message.key)
        .collect();
    Some((data, keys))
}

#[cfg(test)]
mod tests;
