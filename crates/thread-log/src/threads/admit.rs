//! What a client sends to a thread, checked before it waits for the store.

use super::entry::{EntryError, Group, ThreadEntry};
use super::signal::Signal;
use crate::command::Message;

/// What becomes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// With their keys.
    Entries(Vec<Message>),
    /// They only say that their writer lives.
    Heartbeat,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    #[error("entry {number}")]
    Entry {
        /// From 1.
        number: usize,
        #[source]
        source: EntryError,
    },
    #[error("a heartbeat comes alone, not together with entries")]
    MixedHeartbeat,
}

/// Checks messages, and gives each its id as its key.
pub fn admit(messages: Vec<Message>) -> Result<Admitted, NotAdmitted> {
    let mut heartbeats = 0;
    let mut entries = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let entry = ThreadEntry::parse(&message.data).map_err(|source| NotAdmitted::Entry {
            number: index + 1,
            source,
        })?;
        if entry.group == Group::Signal(Signal::Heartbeat) {
            heartbeats += 1;
            continue;
        }
        entries.push(Message {
            key: Some(entry.id),
            ..message
        });
    }
    match (heartbeats, entries.is_empty()) {
        (0, _) => Ok(Admitted::Entries(entries)),
        (_, true) => Ok(Admitted::Heartbeat),
        (_, false) => Err(NotAdmitted::MixedHeartbeat),
    }
}
