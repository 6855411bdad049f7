//! Creating, and forking.

use bytes::Bytes;

use super::{Draft, Found, Step, entry_of, messages_of};
use crate::command::{Create, EntryKey, Fork, Message, Outcome, Refusal};
use crate::content_type::ContentType;
use crate::expiry::Lifetime;
use crate::json;
use crate::rules::What;
use crate::segment::{self, SEGMENTS_MAX, Segment};
use crate::state::{Existence, Origin, StreamState};

/// What a fork takes over.
struct Inheritance {
    source: StreamState,
    origin: Origin,
    inherited: Vec<Segment>,
    /// What it begins with of an entry that its source has.
    prefix: Option<Bytes>,
}

impl Draft<'_> {
    pub(super) fn create(&mut self, create: &Create) -> Step<Outcome> {
        match self.find(&create.name)? {
            Found::Gone => return Err(Refusal::NameHeld.into()),
            Found::Live(stream) => {
                return match difference(&stream, create) {
                    Some(what) => Err(Refusal::Differs { what }.into()),
                    None => Ok(Outcome::Exists(stream)),
                };
            }
            Found::Missing => {}
        }
        let inheritance = match &create.fork {
            Some(fork) => Some(self.inherit(fork, create.content_type.as_ref())?),
            None => None,
        };
        let source = inheritance.as_ref().map(|inheritance| &inheritance.source);
        let content_type = match source {
            Some(source) => source.content_type.clone(),
            None => create
                .content_type
                .clone()
                .unwrap_or_else(ContentType::octet_stream),
        };
        let source_id = source.map(|source| source.id);
        let lifetime = create
            .lifetime
            .or(source.map(|source| source.lifetime))
            .unwrap_or(Lifetime::Forever);
        let mut messages = match &create.payload {
            Some(payload) => messages_of(&content_type, payload)?,
            None => Vec::new(),
        };
        forget_repeated_keys(&mut messages);
        let mut stream = StreamState {
            id: self.facts.fresh_id(source_id)?,
            name: create.name.clone(),
            content_type,
            lifetime,
            created_at: self.now,
            last_access: self.now,
            last_seen: None,
            ending: create.ending,
            existence: Existence::Live,
            origin: None,
            inherited: Vec::new(),
            tail_position: 0,
            size_bytes: 0,
            forks: 0,
            last_stream_seq: None,
        };
        if let Some(inheritance) = inheritance {
            self.hand_over(&mut stream, inheritance);
        }
        let told = messages.clone();
        if let Some((data, keys)) = entry_of(messages) {
            self.add_entry(&mut stream, data, keys);
        }
        self.ask_rules(&stream, What::Created(&told), create.writer.as_ref())?;
        self.write(&create.documents)?;
        self.wake(&stream);
        self.put(stream.clone());
        Ok(Outcome::Created(Box::new(stream)))
    }

    fn inherit(&mut self, fork: &Fork, content_type: Option<&ContentType>) -> Step<Inheritance> {
        let source_name = fork.source.clone();
        let source = match self.find(&fork.source)? {
            Found::Missing => return Err(Refusal::SourceNotFound { source_name }.into()),
            Found::Gone => return Err(Refusal::SourceGone { source_name }.into()),
            Found::Live(source) => *source,
        };
        if content_type.is_some_and(|wanted| *wanted != source.content_type) {
            let expected = source.content_type;
            return Err(Refusal::SourceContentType { expected }.into());
        }
        let segments = source.segments();
        let at = fork.at.unwrap_or_else(|| source.tail());
        let position = segment::locate(&segments, at).ok_or(Refusal::ForkOffset)?;
        let inherited = segment::through(&segments, position);
        if inherited.len() > SEGMENTS_MAX {
            return Err(Refusal::ForkTooDeep.into());
        }
        let prefix = match fork.sub_offset {
            0 => None,
            sub_offset => Some(self.prefix(&source, position, sub_offset)?),
        };
        let origin = Origin {
            source: source.id,
            source_name,
            at,
            sub_offset: fork.sub_offset,
        };
        Ok(Inheritance {
            source,
            origin,
            inherited,
            prefix,
        })
    }

    fn hand_over(&mut self, stream: &mut StreamState, inheritance: Inheritance) {
        let mut source = inheritance.source;
        source.forks += 1;
        self.put(source);
        stream.tail_position = inheritance.origin.at.position();
        stream.origin = Some(inheritance.origin);
        stream.inherited = inheritance.inherited;
        if let Some(prefix) = inheritance.prefix {
            self.add_entry(stream, prefix, Vec::new());
        }
    }

    /// The beginning of the entry after a position.
    fn prefix(&self, source: &StreamState, position: u64, sub_offset: u64) -> Step<Bytes> {
        let segments = segment::after(&source.segments(), position);
        let next = segments.first().ok_or(Refusal::ForkSubOffset)?;
        let entry = self.entry(next.writer, position + 1)?;
        let count = usize::try_from(sub_offset).map_err(|_| Refusal::ForkSubOffset)?;
        if source.content_type.is_json() {
            let messages = json::split(&entry).map_err(Refusal::Json)?;
            let taken = messages.get(..count).ok_or(Refusal::ForkSubOffset)?;
            return Ok(json::join(taken.iter()));
        }
        if count > entry.len() {
            return Err(Refusal::ForkSubOffset.into());
        }
        Ok(entry.slice(..count))
    }
}

/// In which way a stream is not what is asked for. A fork that does not ask takes what its source had.
fn difference(stream: &StreamState, create: &Create) -> Option<&'static str> {
    let is_fork = create.fork.is_some();
    let content_type = match &create.content_type {
        None if is_fork => true,
        None => stream.content_type == ContentType::octet_stream(),
        Some(wanted) => *wanted == stream.content_type,
    };
    let lifetime = match create.lifetime {
        None if is_fork => true,
        None => stream.lifetime == Lifetime::Forever,
        Some(wanted) => wanted == stream.lifetime,
    };
    let fork = match (&create.fork, &stream.origin) {
        (None, None) => true,
        (Some(wanted), Some(origin)) => {
            wanted.source == origin.source_name
                && wanted.at.is_none_or(|at| at == origin.at)
                && wanted.sub_offset == origin.sub_offset
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    [
        (content_type, "content type"),
        (lifetime, "lifetime"),
        (create.ending == stream.ending, "closed state"),
        (fork, "source"),
    ]
    .into_iter()
    .find_map(|(is_same, what)| (!is_same).then_some(what))
}

/// Of messages with the same key, the first one counts.
pub(super) fn forget_repeated_keys(messages: &mut Vec<Message>) {
    let mut seen: std::collections::HashSet<EntryKey> = std::collections::HashSet::new();
    messages.retain(|message| match &message.key {
        Some(key) => seen.insert(key.clone()),
        None => true,
    });
}
