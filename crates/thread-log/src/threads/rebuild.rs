//! A row from its stream.

use super::entry::{EntryError, ThreadEntry};
use super::row::Row;
use crate::json;
use crate::offset::StreamId;
use crate::page::Entry;
use crate::state::StreamState;

/// A row on its way, page by page. A fork's row begins with its own entries: what it inherited was another thread's life.
#[derive(Debug, Clone)]
pub struct Rebuilding {
    row: Row,
    stream: StreamId,
    /// The last position that the fork did not write itself.
    inherited: u64,
}

impl Rebuilding {
    pub fn new(stream: &StreamState) -> Self {
        let inherited = stream.origin.as_ref().map_or(0, |origin| {
            // Part of an entry that a sub-offset took along is copied, and inherited nevertheless.
            origin.at.position() + u64::from(origin.sub_offset > 0)
        });
        Self {
            row: Row::new(stream),
            stream: stream.id,
            inherited,
        }
    }

    pub fn add(&mut self, entry: &Entry) -> Result<(), EntryError> {
        let is_own = entry.next.writer() == self.stream && entry.next.position() > self.inherited;
        if !is_own {
            return Ok(());
        }
        let messages =
            json::split(&entry.data).map_err(|error| EntryError::Shape(error.to_string()))?;
        for message in messages {
            self.row.apply(&ThreadEntry::parse(&message)?);
        }
        Ok(())
    }

    pub fn finish(self) -> Row {
        self.row
    }
}

impl Row {
    /// The row that a stream's entries give.
    pub fn rebuild<'a>(
        stream: &StreamState,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Self, EntryError> {
        let mut rebuilding = Rebuilding::new(stream);
        for entry in entries {
            rebuilding.add(entry)?;
        }
        Ok(rebuilding.finish())
    }
}
