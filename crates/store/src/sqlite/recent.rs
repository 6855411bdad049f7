//! Entries that were appended lately: side by side in the order of their coming, whatever stream they are of.
//!
//! A hundred streams that grow at once would change a hundred pages of `entries` with each commit. Here they fill a few, one after
//! the other; once there are many, those of one stream move to `entries` together. What has not moved is in memory as well:
//!
//! - A reader takes `entries` from its snapshot, and what is not there from memory. Entries never change, and it knows which there are
//!   (by the row of the stream, or from [`super::growth`]), so it does not matter that memory is of another moment.
//! - What has moved stays in memory for a while, for readers with an older snapshot. One that is too late reads again.
//! - Rows that have moved are removed from the front, when all before them have moved too. After a crash, those that are in `entries`
//!   are known to have moved.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use holm_thread_log::{Changes, NewEntry, StreamId, StreamName};
use rusqlite::{Connection, Result, params};

use super::bundle::{self, Packer};
use super::growth::{Carried, Growth};
use super::row;

/// Bigger ones fill pages of their own, and go to `entries` at once.
pub(super) const ENTRY_BYTES_MAX: usize = 16 << 10;

/// What an entry costs in memory beside its data, with what is known of its stream.
const OVERHEAD_BYTES: usize = 400;

/// A transaction may move so many, however few have come.
const TOGETHER: usize = 64;

type Key = (StreamId, u64);

/// The part that readers see.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentEntries {
    data: Arc<Mutex<BTreeMap<Key, Bytes>>>,
}

impl RecentEntries {
    /// Entries of a stream from a position on, without a gap: up to another position, and to at least so many bytes.
    pub(super) fn range(
        &self,
        stream: StreamId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Vec<Bytes> {
        let (mut expected, mut bytes) = (from, 0);
        let data = self.lock();
        data.range((stream, from)..(stream, to))
            .take_while(|((_, position), entry)| {
                let is_next = *position == expected && bytes <= bytes_max;
                expected += 1;
                bytes += entry.len();
                is_next
            })
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    pub(super) fn get(&self, stream: StreamId, position: u64) -> Option<Bytes> {
        self.lock().get(&(stream, position)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Bytes>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The committer's part. What a transaction does to it is settled by [`Recent::committed`] or [`Recent::rolled_back`].
#[derive(Debug)]
pub(super) struct Recent {
    shared: RecentEntries,
    /// Rows that have not moved, the oldest first.
    rows: BTreeMap<i64, Key>,
    /// The row of each of them, and its size.
    row_of: BTreeMap<Key, (i64, usize)>,
    /// What they take, in memory.
    bytes: usize,
    bytes_max: usize,
    last_row: i64,
    /// The first row that may still be in the table, and that of the transaction that is being made.
    first_row: i64,
    next_first_row: i64,
    /// What the transaction that is being made has added and moved.
    added: Vec<(i64, Key, usize)>,
    moved: HashSet<Key>,
    /// What the last one has moved.
    kept_for_readers: HashSet<Key>,
}

impl Recent {
    /// Reads what the last process has left.
    pub(super) fn read(connection: &Connection, bytes_max: usize) -> Result<Self> {
        let mut recent = Self {
            shared: RecentEntries::default(),
            rows: BTreeMap::new(),
            row_of: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            last_row: 0,
            first_row: 0,
            next_first_row: 0,
            added: Vec::new(),
            moved: HashSet::new(),
            kept_for_readers: HashSet::new(),
        };
        let ends = "SELECT ifnull(min(row), 1), ifnull(max(row), 0) FROM recent_entries";
        (recent.first_row, recent.last_row) =
            connection.query_row(ends, [], |found| Ok((found.get(0)?, found.get(1)?)))?;
        recent.next_first_row = recent.first_row;
        let mut statement = connection.prepare(
            "SELECT row, stream, position, data FROM recent_entries AS recent
             WHERE EXISTS (SELECT 1 FROM streams WHERE id = recent.stream)
               AND recent.position <= ifnull(
                   (SELECT position - ifnull(count, 1) FROM entries
                    WHERE stream = recent.stream AND position >= recent.position ORDER BY position LIMIT 1),
                   recent.position)",
        )?;
        let mut rows = statement.query([])?;
        while let Some(found) = rows.next()? {
            let key = (StreamId(row::unsigned(found, 1)?), row::unsigned(found, 2)?);
            let data = Bytes::from(found.get::<_, Vec<u8>>(3)?);
            recent.remember(found.get(0)?, key, data.len());
            recent.shared.lock().insert(key, data);
        }
        Ok(recent)
    }

    pub(super) fn last_row(&self) -> i64 {
        self.last_row
    }

    pub(super) fn shared(&self) -> RecentEntries {
        self.shared.clone()
    }

    /// Writes new entries, in the caller's transaction. They are in memory before they are durable; nobody looks for them before
    /// the row of their stream says that they are there.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        changes: &Changes,
        growth: &Growth,
    ) -> Result<()> {
        for entry in &changes.entries {
            let key = (entry.stream, entry.position);
            if entry.data.len() > ENTRY_BYTES_MAX {
                bundle::insert(connection, key.0, key.1, None, &entry.data)?;
                continue;
            }
            let row = self.last_row + 1;
            insert_recent(
                connection,
                row,
                entry,
                growth.carried(changes, key.0, key.1),
            )?;
            self.last_row = row;
            self.added.push((row, key, entry.data.len()));
            self.shared.lock().insert(key, entry.data.clone());
        }
        Ok(())
    }

    /// Moves some to where they stay, if there are many: more than have come, and more bytes, so that they do not become more and more.
    /// Not those of streams that the same transaction removes. Says of which streams.
    pub(super) fn move_some(
        &mut self,
        connection: &Connection,
        removed: &BTreeMap<StreamId, StreamName>,
    ) -> Result<BTreeSet<StreamId>> {
        let mut streams = BTreeSet::new();
        let budget = TOGETHER.max(self.added.len() * 2);
        let added_bytes = self.added.iter().map(|(.., size)| size + OVERHEAD_BYTES);
        let bytes_budget = added_bytes.sum::<usize>() * 2;
        let (mut bytes, mut oldest_left) = (self.bytes, None);
        for (row, key) in &self.rows {
            let (stream, _) = key;
            if self.moved.contains(key) || removed.contains_key(stream) {
                continue;
            }
            let is_enough = |moved: &HashSet<Key>, bytes: usize| {
                moved.len() >= budget && self.bytes - bytes >= bytes_budget
            };
            if bytes <= self.bytes_max || is_enough(&self.moved, bytes) {
                oldest_left = Some(*row);
                break;
            }
            streams.insert(*stream);
            let of_stream = self.row_of.range((*stream, 0)..=(*stream, u64::MAX));
            let mut packer = Packer::new(connection, *stream);
            for (key, (_, size)) in of_stream {
                if is_enough(&self.moved, bytes) {
                    break;
                }
                let data = self.shared.get(key.0, key.1);
                packer.push(key.1, data.ok_or_else(lost)?)?;
                self.moved.insert(*key);
                bytes = bytes.saturating_sub(size + OVERHEAD_BYTES);
            }
            packer.finish()?;
        }
        let first_added = self.added.first().map(|(row, ..)| *row);
        let end = oldest_left.or(first_added).unwrap_or(self.last_row + 1);
        let budget = budget.max(self.moved.len() * 2);
        self.remove_moved(connection, end, budget)?;
        Ok(streams)
    }

    /// Removes rows before this one: not all at once, since one row that has not moved keeps thousands that have.
    fn remove_moved(&mut self, connection: &Connection, end: i64, budget: usize) -> Result<()> {
        let budget = i64::try_from(budget).unwrap_or(i64::MAX);
        let end = end.min(self.first_row.saturating_add(budget));
        if end > self.first_row {
            connection
                .prepare_cached("DELETE FROM recent_entries WHERE row < ?1")?
                .execute([end])?;
            self.next_first_row = end;
        }
        Ok(())
    }

    pub(super) fn committed(&mut self, removed: &BTreeMap<StreamId, StreamName>) {
        self.first_row = self.next_first_row;
        for (row, key, size) in std::mem::take(&mut self.added) {
            self.remember(row, key, size);
        }
        if !self.moved.is_empty() {
            let moved = std::mem::take(&mut self.moved);
            for key in &moved {
                self.forget(key);
            }
            let mut data = self.shared.lock();
            for key in std::mem::replace(&mut self.kept_for_readers, moved) {
                data.remove(&key);
            }
        }
        for stream in removed.keys() {
            let of_stream = self.row_of.range((*stream, 0)..=(*stream, u64::MAX));
            let keys: Vec<Key> = of_stream.map(|(key, _)| *key).collect();
            for key in &keys {
                self.forget(key);
            }
            let mut data = self.shared.lock();
            for key in &keys {
                data.remove(key);
            }
        }
    }

    pub(super) fn rolled_back(&mut self) {
        let mut data = self.shared.lock();
        for (_, key, _) in &self.added {
            data.remove(key);
        }
        drop(data);
        if let Some((first, ..)) = self.added.first() {
            self.last_row = first - 1;
        }
        self.next_first_row = self.first_row;
        self.added.clear();
        self.moved.clear();
    }

    fn remember(&mut self, row: i64, key: Key, size: usize) {
        self.rows.insert(row, key);
        self.row_of.insert(key, (row, size));
        self.bytes += size + OVERHEAD_BYTES;
    }

    fn forget(&mut self, key: &Key) {
        if let Some((row, size)) = self.row_of.remove(key) {
            self.rows.remove(&row);
            self.bytes = self.bytes.saturating_sub(size + OVERHEAD_BYTES);
        }
    }
}

/// What is to be moved is in memory, or nothing may be removed.
fn lost() -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure("an entry that has not moved is not in memory".into())
}

fn insert_recent(
    connection: &Connection,
    row: i64,
    entry: &NewEntry,
    carried: Option<Carried<'_>>,
) -> Result<()> {
    let state = carried.as_ref().map(|carried| carried.state);
    let producer = carried.as_ref().and_then(|carried| carried.producer);
    connection
        .prepare_cached(
            "INSERT INTO recent_entries (row, stream, position, data, last_access, stream_seq, producer, epoch, last_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            row,
            entry.stream.0.cast_signed(),
            entry.position.cast_signed(),
            &*entry.data,
            state.map(|state| state.last_access.0),
            state.and_then(|state| state.last_stream_seq.as_deref()),
            producer.map(|(producer, _)| producer.as_str()),
            producer.map(|(_, state)| state.epoch.cast_signed()),
            producer.map(|(_, state)| state.last_seq.cast_signed()),
        ])?;
    Ok(())
}
