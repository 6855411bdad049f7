//! Changes as SQL, inside of the caller's transaction.

use std::collections::BTreeSet;

use holm_thread_log::{
    Changes, Document, DocumentKey, Ending, Existence, ProducerId, ProducerState, StreamId,
    StreamState,
};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use super::growth::Growth;
use super::recent::Recent;
use super::row;

/// What of a stream never changes is written once.
const PUT_STREAM: &str = "
    INSERT INTO streams (id, name, content_type, lifetime_kind, lifetime_value, created_at, last_access, last_seen, closed, deleted,
        origin_source, origin_name, origin_at, origin_sub_offset, inherited, tail_position, size_bytes, forks, stream_seq, deadline)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
    ON CONFLICT (id) DO UPDATE SET last_access = ?7, last_seen = ?8, closed = ?9, deleted = ?10, tail_position = ?16,
        size_bytes = ?17, forks = ?18, stream_seq = ?19, deadline = ?20";

/// Writes everything but the counter of ids, in the order of the fields. What goes with the entries is written with them alone.
pub(super) fn changes(
    connection: &Connection,
    changes: &Changes,
    recent: &mut Recent,
    growth: &Growth,
) -> Result<()> {
    remove_streams(connection, changes.removed.keys())?;
    for (id, state) in &changes.streams {
        if !growth.is_carried(*id) {
            stream(connection, state)?;
            growth.write_producers(connection, *id)?;
        }
    }
    recent.add(connection, changes, growth)?;
    for ((stream, name), state) in &changes.producers {
        if !growth.is_carried(*stream) {
            producer(connection, *stream, name, *state)?;
        }
    }
    if !changes.keys.is_empty() {
        let mut statement = connection
            .prepare_cached("INSERT INTO entry_keys (stream, key, position) VALUES (?1, ?2, ?3)")?;
        for key in &changes.keys {
            statement.execute(params![
                key.stream.0.cast_signed(),
                key.key.as_str(),
                key.position.cast_signed()
            ])?;
        }
    }
    for (key, document) in &changes.documents {
        put_document(connection, key, document.as_ref())?;
    }
    Ok(())
}

pub(super) fn last_id(connection: &Connection, last_id: u64) -> Result<()> {
    connection
        .prepare_cached("UPDATE stream_counter SET last_id = ?1")?
        .execute([last_id.cast_signed()])?;
    Ok(())
}

/// The row goes at once, and the name with it; the rest, which may be much, goes later ([`super::remains`]).
fn remove_streams<'a>(
    connection: &Connection,
    ids: impl ExactSizeIterator<Item = &'a StreamId>,
) -> Result<()> {
    if ids.len() == 0 {
        return Ok(());
    }
    let mut remove = connection.prepare_cached("DELETE FROM streams WHERE id = ?1")?;
    let mut remember =
        connection.prepare_cached("INSERT INTO removed_streams (stream) VALUES (?1)")?;
    for id in ids {
        // One that was made and removed in the same batch has left nothing.
        if remove.execute([id.0.cast_signed()])? > 0 {
            remember.execute([id.0.cast_signed()])?;
        }
    }
    Ok(())
}

pub(super) fn producer(
    connection: &Connection,
    stream: StreamId,
    producer: &ProducerId,
    state: ProducerState,
) -> Result<()> {
    let sql = "INSERT INTO producers (stream, producer, epoch, last_seq) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (stream, producer) DO UPDATE SET epoch = ?3, last_seq = ?4";
    connection.prepare_cached(sql)?.execute(params![
        stream.0.cast_signed(),
        producer.as_str(),
        state.epoch.cast_signed(),
        state.last_seq.cast_signed()
    ])?;
    Ok(())
}

pub(super) fn stream(connection: &Connection, stream: &StreamState) -> Result<()> {
    let (lifetime_kind, lifetime_value) = row::lifetime(stream.lifetime);
    let origin = stream.origin.as_ref();
    let inherited = match stream.inherited.as_slice() {
        [] => None,
        segments => {
            let text = serde_json::to_string(segments);
            Some(text.map_err(|source| rusqlite::Error::ToSqlConversionFailure(source.into()))?)
        }
    };
    connection.prepare_cached(PUT_STREAM)?.execute(params![
        stream.id.0.cast_signed(),
        stream.name.as_str(),
        stream.content_type.as_str(),
        lifetime_kind,
        lifetime_value,
        stream.created_at.0,
        stream.last_access.0,
        stream.last_seen.map(|time| time.0),
        stream.ending == Ending::Closed,
        stream.existence == Existence::Deleted,
        origin.map(|origin| origin.source.0.cast_signed()),
        origin.map(|origin| origin.source_name.as_str()),
        origin.map(|origin| origin.at.to_string()),
        origin.map(|origin| origin.sub_offset.cast_signed()),
        inherited,
        stream.tail_position.cast_signed(),
        stream.size_bytes.cast_signed(),
        stream.forks.cast_signed(),
        stream.last_stream_seq.as_deref(),
        stream.deadline().map(|time| time.0),
    ])?;
    Ok(())
}

/// Terms mostly stay as they are while the document changes: only what is different is written.
fn put_document(
    connection: &Connection,
    key: &DocumentKey,
    document: Option<&Document>,
) -> Result<()> {
    let before: Option<String> = connection
        .prepare_cached("SELECT terms FROM log_documents WHERE collection = ?1 AND id = ?2")?
        .query_row([&key.collection, &key.id], |row| row.get(0))
        .optional()?;
    let malformed =
        |source: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(source.into());
    let before: BTreeSet<String> = match before {
        Some(text) => serde_json::from_str(&text).map_err(malformed)?,
        None => BTreeSet::new(),
    };
    let after: BTreeSet<&str> = document
        .iter()
        .flat_map(|document| document.content.terms.iter().map(String::as_str))
        .collect();
    for term in before.iter().filter(|term| !after.contains(term.as_str())) {
        connection
            .prepare_cached(
                "DELETE FROM log_terms WHERE collection = ?1 AND term = ?2 AND id = ?3",
            )?
            .execute([&key.collection, term, &key.id])?;
    }
    for term in after.iter().filter(|term| !before.contains(**term)) {
        connection
            .prepare_cached("INSERT INTO log_terms (collection, term, id) VALUES (?1, ?2, ?3)")?
            .execute([&key.collection, *term, &key.id])?;
    }
    match document {
        Some(document) => connection
            .prepare_cached(
                "INSERT INTO log_documents (collection, id, version, terms, body) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (collection, id) DO UPDATE SET version = ?3, terms = ?4, body = ?5",
            )?
            .execute(params![
                key.collection,
                key.id,
                document.version.cast_signed(),
                serde_json::to_string(&document.content.terms).map_err(malformed)?,
                &*document.content.body
            ])?,
        None => connection
            .prepare_cached("DELETE FROM log_documents WHERE collection = ?1 AND id = ?2")?
            .execute([&key.collection, &key.id])?,
    };
    Ok(())
}
