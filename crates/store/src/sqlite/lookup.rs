//! Answers to what a decision needs to know.

use std::collections::HashSet;

use bytes::Bytes;
use holm_thread_log::{
    Document, DocumentKey, EntryKey, Facts, Need, ProducerId, ProducerState, StreamId, StreamName,
    StreamState,
};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use super::bundle::Bundle;
use super::growth::Growth;
use super::recent::RecentEntries;
use super::row::{self, STREAM_COLUMNS};

/// Where facts are found.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) connection: &'a Connection,
    pub(super) recent: &'a RecentEntries,
    pub(super) growth: &'a Growth,
    /// The last id that was given to a stream.
    pub(super) last_id: &'a mut u64,
}

impl Known<'_> {
    /// Finds the fact, and tells it.
    pub(super) fn answer(self, need: Need, facts: &mut Facts) -> Result<()> {
        let connection = self.connection;
        match need {
            Need::Name(name) => {
                let found = match self.growth.stream_of_name(&name) {
                    Some(stream) => Some(stream),
                    None => stream_by_name(connection, &name)?,
                };
                facts.learn_name(name, found);
            }
            Need::Stream(id) => facts.learn_stream(match self.growth.stream(id) {
                Some(stream) => stream.clone(),
                None => stream_by_id(connection, id)?,
            }),
            Need::Producer(stream, producer) => {
                let state = match self.growth.producer(stream, &producer) {
                    Some(state) => Some(state),
                    None => producer_state(connection, stream, &producer)?,
                };
                facts.learn_producer(stream, producer, state);
            }
            Need::Keys(stream, asked) => {
                let seen = seen_keys(connection, stream, &asked)?;
                facts.learn_keys(stream, &asked, &seen);
            }
            Need::Entry { writer, position } => {
                let data = match self.recent.get(writer, position) {
                    Some(data) => data,
                    None => entry(connection, writer, position)?,
                };
                facts.learn_entry(writer, position, data);
            }
            Need::Document(key) => {
                let found = document(connection, &key)?;
                facts.learn_document(key, found);
            }
            Need::FreshId => {
                *self.last_id += 1;
                facts.learn_fresh_id(StreamId(*self.last_id));
            }
        }
        Ok(())
    }
}

pub(super) fn stream_by_name(
    connection: &Connection,
    name: &StreamName,
) -> Result<Option<StreamState>> {
    connection
        .prepare_cached(&format!(
            "SELECT {STREAM_COLUMNS} FROM streams WHERE name = ?1"
        ))?
        .query_row([name.as_str()], row::stream)
        .optional()
}

pub(super) fn stream_by_id(connection: &Connection, id: StreamId) -> Result<StreamState> {
    connection
        .prepare_cached(&format!(
            "SELECT {STREAM_COLUMNS} FROM streams WHERE id = ?1"
        ))?
        .query_row([id.0.cast_signed()], row::stream)
}

fn producer_state(
    connection: &Connection,
    stream: StreamId,
    producer: &ProducerId,
) -> Result<Option<ProducerState>> {
    connection
        .prepare_cached(
            "SELECT epoch, last_seq FROM producers WHERE stream = ?1 AND producer = ?2",
        )?
        .query_row(
            params![stream.0.cast_signed(), producer.as_str()],
            |found| {
                Ok(ProducerState {
                    epoch: row::unsigned(found, 0)?,
                    last_seq: row::unsigned(found, 1)?,
                })
            },
        )
        .optional()
}

fn seen_keys(
    connection: &Connection,
    stream: StreamId,
    asked: &[EntryKey],
) -> Result<HashSet<EntryKey>> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM entry_keys WHERE stream = ?1 AND key = ?2")?;
    let mut seen = HashSet::new();
    for key in asked {
        if statement.exists(params![stream.0.cast_signed(), key.as_str()])? {
            seen.insert(key.clone());
        }
    }
    Ok(seen)
}

fn entry(connection: &Connection, writer: StreamId, position: u64) -> Result<Bytes> {
    connection
        .prepare_cached(
            "SELECT position, count, data FROM entries WHERE stream = ?1 AND position >= ?2 ORDER BY position LIMIT 1",
        )?
        .query_row([writer.0.cast_signed(), position.cast_signed()], |found| {
            match Bundle::read(found)?.entries_from(position).next().transpose()? {
                Some((at, data)) if at == position => Ok(Bytes::copy_from_slice(data)),
                Some(_) | None => Err(rusqlite::Error::QueryReturnedNoRows),
            }
        })
}

pub(super) fn document(connection: &Connection, key: &DocumentKey) -> Result<Option<Document>> {
    connection
        .prepare_cached(
            "SELECT version, terms, body FROM log_documents WHERE collection = ?1 AND id = ?2",
        )?
        .query_row([&key.collection, &key.id], |found| row::document(found, 0))
        .optional()
}

/// The last row of the entries that came last.
pub(super) fn last_recent_row(connection: &Connection) -> Result<i64> {
    connection
        .prepare_cached("SELECT ifnull(max(row), 0) FROM recent_entries")?
        .query_row([], |found| found.get(0))
}

/// The last id that a stream got.
pub(super) fn last_id(connection: &Connection) -> Result<u64> {
    connection.query_row("SELECT last_id FROM stream_counter", [], |found| {
        row::unsigned(found, 0)
    })
}
