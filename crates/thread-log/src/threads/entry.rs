//! One entry of a thread: `{ id, ts, authorId?, payload }`.
//!
//! The bytes are stored as they came; what is read here is what rows and retries need. Fields and types that are not known are kept.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::signal::Signal;
use crate::command::EntryKey;
use crate::expiry::Timestamp;

/// More than that is a blob's.
pub const ENTRY_BYTES_MAX: usize = 1024 * 1024;

const TYPE_LENGTH_MAX: usize = 128;
const AUTHOR_LENGTH_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadEntry {
    /// A second entry with the same id is not stored.
    pub id: EntryKey,
    /// By the writer's clock.
    pub ts: Timestamp,
    pub author_id: Option<String>,
    pub group: Group,
}

/// What kind of payload it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    Chat,
    /// What an agent did, in its own words.
    Agent(Agent),
    Signal(Signal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Pi,
    Codex,
    Claude,
}

impl Agent {
    pub const ALL: [Self; 3] = [Self::Pi, Self::Codex, Self::Claude];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Codex => "codex",
            Self::Claude => "claude",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error(
        "the entry has {found} bytes, and at most {ENTRY_BYTES_MAX} are stored: put what is large into a blob"
    )]
    TooLong { found: usize },
    #[error("the entry is not {{ id, ts, authorId?, payload }}: {0}")]
    Shape(String),
    #[error("the entry's `id` is not 1 to 256 bytes without control characters")]
    Id,
    #[error(
        "the entry's `ts` is neither a time such as \"2026-11-16T04:30:00Z\" nor milliseconds since 1970"
    )]
    Time,
    #[error("the entry's `authorId` has more than {AUTHOR_LENGTH_MAX} bytes")]
    Author,
    #[error(
        "the payload's `type` is `{found}`: it has to be `chat` or to begin with `pi.`, `codex.`, `claude.` or `signal.`"
    )]
    Type { found: String },
    #[error("the payload of `{kind}` is not as it has to be: {problem}")]
    Payload { kind: String, problem: String },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    ts: &'a RawValue,
    #[serde(borrow, rename = "authorId", default)]
    author_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow, rename = "text")]
    _text: Cow<'a, str>,
}

impl ThreadEntry {
    pub fn parse(data: &[u8]) -> Result<Self, EntryError> {
        if data.len() > ENTRY_BYTES_MAX {
            return Err(EntryError::TooLong { found: data.len() });
        }
        // A list would be read as the fields of the object in their order.
        if !begins_object(data) {
            return Err(EntryError::Shape("it is no object".to_owned()));
        }
        let envelope: Envelope<'_> = serde_json::from_slice(data)
            .map_err(|error| EntryError::Shape(without_place(&error)))?;
        let author_id = envelope.author_id.map(Cow::into_owned);
        if author_id
            .as_ref()
            .is_some_and(|author| author.len() > AUTHOR_LENGTH_MAX)
        {
            return Err(EntryError::Author);
        }
        Ok(Self {
            id: envelope.id.parse().map_err(|_| EntryError::Id)?,
            ts: time(envelope.ts.get()).ok_or(EntryError::Time)?,
            author_id,
            group: Group::parse(envelope.payload.get())?,
        })
    }
}

impl Group {
    fn parse(payload: &str) -> Result<Self, EntryError> {
        if !begins_object(payload.as_bytes()) {
            return Err(EntryError::Shape("`payload` is no object".to_owned()));
        }
        let Kind { kind } = serde_json::from_str(payload)
            .map_err(|error| EntryError::Shape(format!("`payload`: {}", without_place(&error))))?;
        let unknown = || EntryError::Type {
            found: kind.chars().take(TYPE_LENGTH_MAX).collect(),
        };
        if kind == "chat" {
            let chat: Result<Chat<'_>, _> = serde_json::from_str(payload);
            return chat
                .map(|_| Self::Chat)
                .map_err(|error| malformed(&kind, &error));
        }
        let (group, name) = kind.split_once('.').ok_or_else(unknown)?;
        let is_name =
            !name.is_empty() && kind.len() <= TYPE_LENGTH_MAX && name.bytes().all(is_plain);
        if !is_name {
            return Err(unknown());
        }
        if group == "signal" {
            return Signal::parse(name, payload)
                .map(Self::Signal)
                .map_err(|error| malformed(&kind, &error));
        }
        let agent = Agent::ALL.into_iter().find(|agent| agent.as_str() == group);
        agent.map(Self::Agent).ok_or_else(unknown)
    }
}

fn begins_object(data: &[u8]) -> bool {
    data.trim_ascii_start().first() == Some(&b'{')
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn time(text: &str) -> Option<Timestamp> {
    if let Ok(milliseconds) = text.parse::<i64>() {
        // What cannot be written as a date is none.
        jiff::Timestamp::from_millisecond(milliseconds).ok()?;
        return Some(Timestamp(milliseconds));
    }
    let text: Cow<'_, str> = serde_json::from_str(text).ok()?;
    Timestamp::parse_rfc3339(&text).ok()
}

fn malformed(kind: &str, error: &serde_json::Error) -> EntryError {
    EntryError::Payload {
        kind: kind.to_owned(),
        problem: without_place(error),
    }
}

/// Lines and columns are of a part of what was sent, and would mislead.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((problem, _)) => problem.to_owned(),
        None => text,
    }
}
