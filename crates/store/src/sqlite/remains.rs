//! What removed streams have left, removed a little at a time: a stream may hold more than one transaction should.
//!
//! Nobody sees it any more: entries are found through the row of their stream, and ids are never used again.

use std::collections::BTreeSet;

use holm_thread_log::StreamId;
use rusqlite::{Connection, Result, params};

/// What one transaction removes at most, beside what it is for.
const ROWS_MAX: u16 = 256;
const BYTES_MAX: u64 = 1 << 20;

/// Removed streams that have left something.
#[derive(Debug, Default)]
pub(super) struct Remains {
    streams: BTreeSet<StreamId>,
}

impl Remains {
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        let mut statement = connection.prepare("SELECT stream FROM removed_streams")?;
        let ids = statement.query_map([], |row| Ok(StreamId(super::row::unsigned(row, 0)?)))?;
        Ok(Self {
            streams: ids.collect::<Result<_>>()?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// These were removed, and it is durable.
    pub(super) fn extend<'a>(&mut self, removed: impl IntoIterator<Item = &'a StreamId>) {
        self.streams.extend(removed);
    }

    /// Removes a piece, in the caller's transaction. The stream that nothing is left of is to be forgotten after the commit.
    pub(super) fn remove_some(&self, connection: &Connection) -> Result<Option<StreamId>> {
        let Some(stream) = self.streams.first() else {
            return Ok(None);
        };
        let id = stream.0.cast_signed();
        let mut is_all = true;
        if let Some(piece) = first_piece(connection, id)? {
            connection
                .prepare_cached("DELETE FROM entries WHERE stream = ?1 AND position <= ?2")?
                .execute([id, piece.through])?;
            is_all &= piece.is_last;
        }
        for sql in [
            "DELETE FROM producers WHERE stream = ?1 AND producer IN (SELECT producer FROM producers WHERE stream = ?1 LIMIT ?2)",
            "DELETE FROM entry_keys WHERE stream = ?1 AND key IN (SELECT key FROM entry_keys WHERE stream = ?1 LIMIT ?2)",
        ] {
            let removed = connection
                .prepare_cached(sql)?
                .execute(params![id, ROWS_MAX])?;
            is_all &= removed < usize::from(ROWS_MAX);
        }
        if !is_all {
            return Ok(None);
        }
        connection
            .prepare_cached("DELETE FROM removed_streams WHERE stream = ?1")?
            .execute([id])?;
        Ok(Some(*stream))
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }
}

/// Entries that are removed together.
struct Piece {
    through: i64,
    is_last: bool,
}

/// Asking for the length of an entry does not read it.
fn first_piece(connection: &Connection, stream: i64) -> Result<Option<Piece>> {
    let mut statement = connection.prepare_cached(
        "SELECT position, length(data) FROM entries WHERE stream = ?1 ORDER BY position",
    )?;
    let mut rows = statement.query([stream])?;
    let (mut piece, mut count, mut bytes) = (None, 0, 0);
    while let Some(row) = rows.next()? {
        if let Some(through) = piece.filter(|_| count == ROWS_MAX || bytes > BYTES_MAX) {
            return Ok(Some(Piece {
                through,
                is_last: false,
            }));
        }
        piece = Some(row.get(0)?);
        count += 1;
        bytes += super::row::unsigned(row, 1)?;
    }
    Ok(piece.map(|through| Piece {
        through,
        is_last: true,
    }))
}
