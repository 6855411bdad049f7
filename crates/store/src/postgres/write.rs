//! Writes what a batch has changed: each kind of change by one statement with many rows.

use std::collections::HashSet;

use holm_thread_log::{Changes, Document, DocumentKey, StreamId, StreamState};

use super::error::{PostgresError, all};
use super::rows::lifetime_columns;
use super::session::{Parameters, Session};

/// In the order that [`Changes`] asks for. Streams whose ids are `fresh` are new to the table.
pub(super) async fn write(
    session: &Session,
    changes: &Changes,
    fresh: &HashSet<StreamId>,
) -> Result<(), PostgresError> {
    remove(session, changes).await?;
    let (new, old): (Vec<&StreamState>, Vec<&StreamState>) = changes
        .streams
        .values()
        .partition(|stream| fresh.contains(&stream.id));
    let written = tokio::join!(
        update_streams(session, &old),
        insert_streams(session, &new),
        insert_entries(session, changes),
        put_producers(session, changes),
        insert_keys(session, changes),
    );
    all(written.into())?;
    put_documents(session, changes).await
}

/// The stream is gone at once; what belonged to it is removed by and by, because there may be much of it.
async fn remove(session: &Session, changes: &Changes) -> Result<(), PostgresError> {
    if changes.removed.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = changes
        .removed
        .keys()
        .map(|id| id.0.cast_signed())
        .collect();
    let sql = "WITH gone AS (DELETE FROM holm.log_streams WHERE id = ANY($1) RETURNING id)
               INSERT INTO holm.log_garbage (stream) SELECT id FROM gone";
    session.execute("remove streams", sql, &[&ids]).await?;
    Ok(())
}

async fn update_streams(session: &Session, streams: &[&StreamState]) -> Result<(), PostgresError> {
    if streams.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = each(streams, |stream| stream.id.0.cast_signed());
    let last_access: Vec<i64> = each(streams, |stream| stream.last_access.0);
    let last_seen: Vec<Option<i64>> = each(streams, |stream| stream.last_seen.map(|seen| seen.0));
    let closed: Vec<bool> = each(streams, is_closed);
    let deleted: Vec<bool> = each(streams, is_deleted);
    let tails: Vec<i64> = each(streams, |stream| stream.tail_position.cast_signed());
    let sizes: Vec<i64> = each(streams, |stream| stream.size_bytes.cast_signed());
    let forks: Vec<i64> = each(streams, |stream| stream.forks.cast_signed());
    let seqs: Vec<Option<&str>> = streams
        .iter()
        .map(|stream| stream.last_stream_seq.as_deref())
        .collect();
    let deadlines: Vec<Option<i64>> = each(streams, |stream| {
        stream.deadline().map(|deadline| deadline.0)
    });
    let sql = "UPDATE holm.log_streams s
               SET last_access = n.last_access, last_seen = n.last_seen, closed = n.closed, deleted = n.deleted,
                   tail_position = n.tail_position, size_bytes = n.size_bytes, forks = n.forks,
                   stream_seq = n.stream_seq, deadline = n.deadline
               FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bigint[],
                           $7::bigint[], $8::bigint[], $9::text[], $10::bigint[])
                    AS n (id, last_access, last_seen, closed, deleted, tail_position, size_bytes, forks, stream_seq, deadline)
               WHERE s.id = n.id";
    let changed = session
        .execute(
            "change streams",
            sql,
            &[
                &ids,
                &last_access,
                &last_seen,
                &closed,
                &deleted,
                &tails,
                &sizes,
                &forks,
                &seqs,
                &deadlines,
            ],
        )
        .await?;
    if usize::try_from(changed).is_ok_and(|changed| changed == streams.len()) {
        Ok(())
    } else {
        let what = "a stream that was read is missing";
        Err(PostgresError::Malformed { what })
    }
}

async fn insert_streams(session: &Session, streams: &[&StreamState]) -> Result<(), PostgresError> {
    if streams.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = each(streams, |stream| stream.id.0.cast_signed());
    let names: Vec<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
    let types: Vec<&str> = streams
        .iter()
        .map(|stream| stream.content_type.as_str())
        .collect();
    let kinds: Vec<i16> = each(streams, |stream| lifetime_columns(stream.lifetime).0);
    let values: Vec<i64> = each(streams, |stream| lifetime_columns(stream.lifetime).1);
    let created: Vec<i64> = each(streams, |stream| stream.created_at.0);
    let last_access: Vec<i64> = each(streams, |stream| stream.last_access.0);
    let last_seen: Vec<Option<i64>> = each(streams, |stream| stream.last_seen.map(|seen| seen.0));
    let closed: Vec<bool> = each(streams, is_closed);
    let deleted: Vec<bool> = each(streams, is_deleted);
    let origins = || streams.iter().map(|stream| stream.origin.as_ref());
    let sources: Vec<Option<i64>> = origins()
        .map(|origin| Some(origin?.source.0.cast_signed()))
        .collect();
    let source_names: Vec<Option<&str>> = origins()
        .map(|origin| Some(origin?.source_name.as_str()))
        .collect();
    let source_offsets: Vec<Option<String>> = origins()
        .map(|origin| Some(origin?.at.to_string()))
        .collect();
    let sub_offsets: Vec<Option<i64>> = origins()
        .map(|origin| Some(origin?.sub_offset.cast_signed()))
        .collect();
    let what = "what a fork inherits";
    let inherited: Vec<String> = streams
        .iter()
        .map(|stream| serde_json::to_string(&stream.inherited))
        .collect::<Result<_, _>>()
        .map_err(|_| PostgresError::Malformed { what })?;
    let tails: Vec<i64> = each(streams, |stream| stream.tail_position.cast_signed());
    let sizes: Vec<i64> = each(streams, |stream| stream.size_bytes.cast_signed());
    let forks: Vec<i64> = each(streams, |stream| stream.forks.cast_signed());
    let seqs: Vec<Option<&str>> = streams
        .iter()
        .map(|stream| stream.last_stream_seq.as_deref())
        .collect();
    let deadlines: Vec<Option<i64>> = each(streams, |stream| {
        stream.deadline().map(|deadline| deadline.0)
    });
    let sql = "INSERT INTO holm.log_streams
                   (id, name, content_type, lifetime_kind, lifetime_value, created_at, last_access, last_seen, closed, deleted,
                    origin_source, origin_name, origin_at, origin_sub_offset, inherited, tail_position, size_bytes, forks,
                    stream_seq, deadline)
               SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[],
                   $7::bigint[], $8::bigint[], $9::boolean[], $10::boolean[], $11::bigint[], $12::text[], $13::text[],
                   $14::bigint[], $15::text[], $16::bigint[], $17::bigint[], $18::bigint[], $19::text[], $20::bigint[])";
    session
        .execute(
            "make streams",
            sql,
            &[
                &ids,
                &names,
                &types,
                &kinds,
                &values,
                &created,
                &last_access,
                &last_seen,
                &closed,
                &deleted,
                &sources,
                &source_names,
                &source_offsets,
                &sub_offsets,
                &inherited,
                &tails,
                &sizes,
                &forks,
                &seqs,
                &deadlines,
            ],
        )
        .await?;
    Ok(())
}

fn each<T>(streams: &[&StreamState], column: impl Fn(&StreamState) -> T) -> Vec<T> {
    streams.iter().map(|stream| column(stream)).collect()
}

fn is_closed(stream: &StreamState) -> bool {
    stream.ending == holm_thread_log::Ending::Closed
}

fn is_deleted(stream: &StreamState) -> bool {
    stream.existence == holm_thread_log::Existence::Deleted
}

async fn insert_entries(session: &Session, changes: &Changes) -> Result<(), PostgresError> {
    if changes.entries.is_empty() {
        return Ok(());
    }
    let entries = &changes.entries;
    let streams: Vec<i64> = entries
        .iter()
        .map(|entry| entry.stream.0.cast_signed())
        .collect();
    let positions: Vec<i64> = entries
        .iter()
        .map(|entry| entry.position.cast_signed())
        .collect();
    let data: Vec<&[u8]> = entries.iter().map(|entry| entry.data.as_ref()).collect();
    let sql = "INSERT INTO holm.log_entries (stream, position, data)
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";
    session
        .execute("add entries", sql, &[&streams, &positions, &data])
        .await?;
    Ok(())
}

async fn put_producers(session: &Session, changes: &Changes) -> Result<(), PostgresError> {
    if changes.producers.is_empty() {
        return Ok(());
    }
    let keys = || changes.producers.keys();
    let states = || changes.producers.values();
    let streams: Vec<i64> = keys().map(|(stream, _)| stream.0.cast_signed()).collect();
    let producers: Vec<&str> = keys().map(|(_, producer)| producer.as_str()).collect();
    let epochs: Vec<i64> = states().map(|state| state.epoch.cast_signed()).collect();
    let seqs: Vec<i64> = states().map(|state| state.last_seq.cast_signed()).collect();
    let sql = "INSERT INTO holm.log_producers (stream, producer, epoch, last_seq)
               SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
               ON CONFLICT (stream, producer) DO UPDATE SET epoch = EXCLUDED.epoch, last_seq = EXCLUDED.last_seq";
    session
        .execute(
            "put producers",
            sql,
            &[&streams, &producers, &epochs, &seqs],
        )
        .await?;
    Ok(())
}

async fn insert_keys(session: &Session, changes: &Changes) -> Result<(), PostgresError> {
    if changes.keys.is_empty() {
        return Ok(());
    }
    let keys = &changes.keys;
    let streams: Vec<i64> = keys.iter().map(|key| key.stream.0.cast_signed()).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let positions: Vec<i64> = keys.iter().map(|key| key.position.cast_signed()).collect();
    let sql = "INSERT INTO holm.log_entry_keys (stream, key, position)
               SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])";
    session
        .execute("add keys of entries", sql, &[&streams, &texts, &positions])
        .await?;
    Ok(())
}

const FORGET_TERMS: &str = "DELETE FROM holm.log_terms t
    USING unnest($1::text[], $2::text[], $3::text[]) AS n (collection, id, terms)
    JOIN holm.log_documents d ON d.collection = n.collection AND d.id = n.id
    CROSS JOIN LATERAL unnest(d.terms) AS old (term)
    WHERE NOT n.terms::jsonb ? old.term AND t.collection = d.collection AND t.term = old.term AND t.id = d.id";
const ADD_TERMS: &str = "INSERT INTO holm.log_terms (collection, term, id)
    SELECT n.collection, new.term, n.id
    FROM unnest($1::text[], $2::text[], $3::text[]) AS n (collection, id, terms)
    CROSS JOIN LATERAL jsonb_array_elements_text(n.terms::jsonb) AS new (term)
    ON CONFLICT DO NOTHING";
const REMOVE_DOCUMENTS: &str =
    "DELETE FROM holm.log_documents d USING unnest($1::text[], $2::text[]) AS gone (collection, id)
    WHERE d.collection = gone.collection AND d.id = gone.id";
const PUT_DOCUMENTS: &str = "INSERT INTO holm.log_documents (collection, id, version, body, terms)
    SELECT n.collection, n.id, n.version, n.body, ARRAY(SELECT jsonb_array_elements_text(n.terms::jsonb))
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::text[])
        AS n (collection, id, version, body, terms)
    ON CONFLICT (collection, id)
    DO UPDATE SET version = EXCLUDED.version, body = EXCLUDED.body, terms = EXCLUDED.terms";

/// Terms that stay are left alone: most writes change none.
async fn put_documents(session: &Session, changes: &Changes) -> Result<(), PostgresError> {
    if changes.documents.is_empty() {
        return Ok(());
    }
    let what = "the terms of a document";
    let terms: Vec<String> = changes
        .documents
        .values()
        .map(|document| {
            let terms = document
                .as_ref()
                .map(|document| document.content.terms.as_slice());
            serde_json::to_string(terms.unwrap_or_default())
        })
        .collect::<Result<_, _>>()
        .map_err(|_| PostgresError::Malformed { what })?;
    let collections: Vec<&str> = changes
        .documents
        .keys()
        .map(|key| key.collection.as_str())
        .collect();
    let ids: Vec<&str> = changes
        .documents
        .keys()
        .map(|key| key.id.as_str())
        .collect();
    let removed: Vec<&DocumentKey> = changes
        .documents
        .iter()
        .filter(|(_, document)| document.is_none())
        .map(|(key, _)| key)
        .collect();
    // The old terms are forgotten before the document has the new ones.
    session
        .prepare(&[FORGET_TERMS, ADD_TERMS, REMOVE_DOCUMENTS, PUT_DOCUMENTS])
        .await?;
    let changed: Parameters<'_> = &[&collections, &ids, &terms];
    let run = |doing, sql| async move { session.execute(doing, sql, changed).await.map(drop) };
    let written = tokio::join!(
        biased;
        run("forget terms of documents", FORGET_TERMS),
        run("add terms of documents", ADD_TERMS),
        remove_documents(session, &removed),
        insert_documents(session, changes, &terms),
    );
    all(written.into())?;
    Ok(())
}

async fn remove_documents(session: &Session, keys: &[&DocumentKey]) -> Result<(), PostgresError> {
    if keys.is_empty() {
        return Ok(());
    }
    let collections: Vec<&str> = keys.iter().map(|key| key.collection.as_str()).collect();
    let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
    session
        .execute("remove documents", REMOVE_DOCUMENTS, &[&collections, &ids])
        .await?;
    Ok(())
}

async fn insert_documents(
    session: &Session,
    changes: &Changes,
    terms: &[String],
) -> Result<(), PostgresError> {
    let put: Vec<(&DocumentKey, &Document, &str)> = changes
        .documents
        .iter()
        .zip(terms)
        .filter_map(|((key, document), terms)| Some((key, document.as_ref()?, terms.as_str())))
        .collect();
    if put.is_empty() {
        return Ok(());
    }
    let collections: Vec<&str> = put
        .iter()
        .map(|(key, _, _)| key.collection.as_str())
        .collect();
    let ids: Vec<&str> = put.iter().map(|(key, _, _)| key.id.as_str()).collect();
    let versions: Vec<i64> = put
        .iter()
        .map(|(_, document, _)| document.version.cast_signed())
        .collect();
    let bodies: Vec<&[u8]> = put
        .iter()
        .map(|(_, document, _)| document.content.body.as_ref())
        .collect();
    let terms: Vec<&str> = put.iter().map(|(_, _, terms)| *terms).collect();
    session
        .execute(
            "put documents",
            PUT_DOCUMENTS,
            &[&collections, &ids, &versions, &bodies, &terms],
        )
        .await?;
    Ok(())
}
