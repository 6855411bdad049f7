//! Reads what decisions need: each kind of fact by one statement, all kinds at once.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use holm_thread_log::{
    Content, Document, DocumentKey, EntryKey, Facts, Need, ProducerId, ProducerState, StreamId,
    StreamName,
};
use tokio_postgres::Row;

use super::error::{PostgresError, all};
use super::rows::{column, id, number, stream, stream_columns};
use super::session::{Parameters, Session};

/// What is asked, by kind: one array for each column.
#[derive(Debug, Default)]
struct Questions {
    names: Vec<StreamName>,
    streams: Vec<StreamId>,
    producers: Vec<(StreamId, ProducerId)>,
    keys: Vec<(StreamId, Vec<EntryKey>)>,
    entries: Vec<(StreamId, u64)>,
    documents: Vec<DocumentKey>,
    fresh_ids: i64,
}

impl Questions {
    fn sort(needs: Vec<Need>) -> Self {
        let mut questions = Self::default();
        for need in needs {
            match need {
                Need::Name(name) => questions.names.push(name),
                Need::Stream(stream) => questions.streams.push(stream),
                Need::Producer(stream, producer) => questions.producers.push((stream, producer)),
                Need::Keys(stream, keys) => questions.keys.push((stream, keys)),
                Need::Entry { writer, position } => questions.entries.push((writer, position)),
                Need::Document(key) => questions.documents.push(key),
                Need::FreshId => questions.fresh_ids += 1,
            }
        }
        questions
    }
}

/// Reads these facts and tells them. The ids that it gave out are returned: streams with them are not in the table yet.
pub(super) async fn answer(
    session: &Session,
    needs: Vec<Need>,
    facts: &mut Facts,
) -> Result<Vec<StreamId>, PostgresError> {
    let questions = Questions::sort(needs);
    let asked = tokio::join!(
        names(session, &questions.names),
        streams(session, &questions.streams),
        producers(session, &questions.producers),
        keys(session, &questions.keys),
        entries(session, &questions.entries),
        documents(session, &questions.documents),
        fresh_ids(session, questions.fresh_ids),
    );
    let [
        names,
        streams,
        producers,
        keys,
        entries,
        documents,
        fresh_ids,
    ] = all(asked.into())?;
    let mut by_name = HashMap::new();
    for row in &names {
        let stream = stream(row)?;
        by_name.insert(stream.name.clone(), stream);
    }
    for name in questions.names {
        let stream = by_name.remove(&name);
        facts.learn_name(name, stream);
    }
    expect(
        streams.len(),
        questions.streams.len(),
        "the source of a fork is missing",
    )?;
    for row in &streams {
        facts.learn_stream(stream(row)?);
    }
    let mut known = HashMap::new();
    for row in &producers {
        let state = ProducerState {
            epoch: number(row, 2)?,
            last_seq: number(row, 3)?,
        };
        known.insert((id(row, 0)?, column::<String>(row, 1)?), state);
    }
    for (stream, producer) in questions.producers {
        let state = known.remove(&(stream, producer.as_str().to_owned()));
        facts.learn_producer(stream, producer, state);
    }
    let mut seen: HashMap<StreamId, HashSet<EntryKey>> = HashMap::new();
    for row in &keys {
        let what = "the key of an entry";
        let key = column::<&str>(row, 1)?
            .parse()
            .map_err(|_| PostgresError::Malformed { what })?;
        seen.entry(id(row, 0)?).or_default().insert(key);
    }
    let none = HashSet::new();
    for (stream, asked) in questions.keys {
        facts.learn_keys(stream, &asked, seen.get(&stream).unwrap_or(&none));
    }
    expect(
        entries.len(),
        questions.entries.len(),
        "an entry is missing",
    )?;
    for row in &entries {
        let data = Bytes::copy_from_slice(column(row, 2)?);
        facts.learn_entry(id(row, 0)?, number(row, 1)?, data);
    }
    let mut found = HashMap::new();
    for row in &documents {
        let (key, document) = document(row)?;
        found.insert(key, document);
    }
    for key in questions.documents {
        let document = found.remove(&key);
        facts.learn_document(key, document);
    }
    let mut given = Vec::new();
    for row in &fresh_ids {
        let id = id(row, 0)?;
        facts.learn_fresh_id(id);
        given.push(id);
    }
    Ok(given)
}

/// A row of collection, id, version, body and terms.
pub(super) fn document(row: &Row) -> Result<(DocumentKey, Document), PostgresError> {
    let key = DocumentKey {
        collection: column(row, 0)?,
        id: column(row, 1)?,
    };
    let content = Content {
        body: Bytes::copy_from_slice(column(row, 3)?),
        terms: column(row, 4)?,
    };
    let version = number(row, 2)?;
    Ok((key, Document { version, content }))
}

fn expect(found: usize, asked: usize, what: &'static str) -> Result<(), PostgresError> {
    if found == asked {
        Ok(())
    } else {
        Err(PostgresError::Malformed { what })
    }
}

/// Asks, unless there is nothing to ask for.
async fn ask(
    session: &Session,
    count: usize,
    doing: &'static str,
    sql: &'static str,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, PostgresError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    session.query(doing, sql, parameters).await
}

async fn names(session: &Session, names: &[StreamName]) -> Result<Vec<Row>, PostgresError> {
    let texts: Vec<&str> = names.iter().map(StreamName::as_str).collect();
    let sql = concat!(
        "SELECT ",
        stream_columns!(),
        " FROM holm.log_streams WHERE name = ANY($1)"
    );
    ask(
        session,
        names.len(),
        "read streams by their names",
        sql,
        &[&texts],
    )
    .await
}

async fn streams(session: &Session, ids: &[StreamId]) -> Result<Vec<Row>, PostgresError> {
    let numbers: Vec<i64> = ids.iter().map(|id| id.0.cast_signed()).collect();
    let sql = concat!(
        "SELECT ",
        stream_columns!(),
        " FROM holm.log_streams WHERE id = ANY($1)"
    );
    ask(
        session,
        ids.len(),
        "read streams by their ids",
        sql,
        &[&numbers],
    )
    .await
}

async fn producers(
    session: &Session,
    asked: &[(StreamId, ProducerId)],
) -> Result<Vec<Row>, PostgresError> {
    let streams: Vec<i64> = asked
        .iter()
        .map(|(stream, _)| stream.0.cast_signed())
        .collect();
    let producers: Vec<&str> = asked
        .iter()
        .map(|(_, producer)| producer.as_str())
        .collect();
    let sql = "SELECT p.stream, p.producer, p.epoch, p.last_seq
               FROM unnest($1::bigint[], $2::text[]) AS asked (stream, producer)
               JOIN holm.log_producers p ON p.stream = asked.stream AND p.producer = asked.producer";
    ask(
        session,
        asked.len(),
        "read producers",
        sql,
        &[&streams, &producers],
    )
    .await
}

async fn keys(
    session: &Session,
    asked: &[(StreamId, Vec<EntryKey>)],
) -> Result<Vec<Row>, PostgresError> {
    let pairs = asked
        .iter()
        .flat_map(|(stream, keys)| keys.iter().map(|key| (*stream, key)));
    let (streams, keys): (Vec<i64>, Vec<&str>) = pairs
        .map(|(stream, key)| (stream.0.cast_signed(), key.as_str()))
        .unzip();
    let sql = "SELECT k.stream, k.key
               FROM (SELECT DISTINCT stream, key FROM unnest($1::bigint[], $2::text[]) AS a (stream, key)) AS asked
               JOIN holm.log_entry_keys k ON k.stream = asked.stream AND k.key = asked.key";
    ask(
        session,
        keys.len(),
        "read keys of entries",
        sql,
        &[&streams, &keys],
    )
    .await
}

async fn entries(session: &Session, asked: &[(StreamId, u64)]) -> Result<Vec<Row>, PostgresError> {
    let (streams, positions): (Vec<i64>, Vec<i64>) = asked
        .iter()
        .map(|(stream, position)| (stream.0.cast_signed(), position.cast_signed()))
        .unzip();
    let sql = "SELECT e.stream, e.position, e.data
               FROM unnest($1::bigint[], $2::bigint[]) AS asked (stream, position)
               JOIN holm.log_entries e ON e.stream = asked.stream AND e.position = asked.position";
    ask(
        session,
        asked.len(),
        "read entries",
        sql,
        &[&streams, &positions],
    )
    .await
}

async fn documents(session: &Session, asked: &[DocumentKey]) -> Result<Vec<Row>, PostgresError> {
    let (collections, ids): (Vec<&str>, Vec<&str>) = asked
        .iter()
        .map(|key| (key.collection.as_str(), key.id.as_str()))
        .unzip();
    let sql = "SELECT d.collection, d.id, d.version, d.body, d.terms
               FROM unnest($1::text[], $2::text[]) AS asked (collection, id)
               JOIN holm.log_documents d ON d.collection = asked.collection AND d.id = asked.id";
    ask(
        session,
        asked.len(),
        "read documents",
        sql,
        &[&collections, &ids],
    )
    .await
}

async fn fresh_ids(session: &Session, count: i64) -> Result<Vec<Row>, PostgresError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let sql = "SELECT nextval('holm.log_stream_ids') FROM generate_series(1, $1::bigint)";
    session
        .query("get ids for new streams", sql, &[&count])
        .await
}
