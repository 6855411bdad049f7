//! A row from its stream.

use super::entry::{EntryError, ThreadEntry};
use super::row::Row;
use crate::json;
use crate::state::StreamState;
use crate::store::Entry;

impl Row {
    /// The row that a stream's entries give. A fork's row begins with its own entries: what it inherited was another thread's life.
    pub fn rebuild<'a>(
        stream: &StreamState,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Self, EntryError> {
        let inherited = stream.origin.as_ref().map_or(0, |origin| {
            // Part of an entry that a sub-offset took along is copied, and inherited nevertheless.
            origin.at.position() + u64::from(origin.sub_offset > 0)
        });
        let is_own =
            |entry: &&Entry| entry.next.writer() == stream.id && entry.next.position() > inherited;
        let mut row = Self::new(stream);
        for entry in entries.into_iter().filter(is_own) {
            let messages =
                json::split(&entry.data).map_err(|error| EntryError::Shape(error.to_string()))?;
            for message in messages {
                row.apply(&ThreadEntry::parse(&message)?);
            }
        }
        Ok(row)
    }
}
