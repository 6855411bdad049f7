//! What readers ask for, each inside of one snapshot.

use holm_thread_log::{
    Document, DocumentKey, DocumentQuery, Offset, Order, Page, PageEntries, Presence, ReadFrom,
    ReadPlan, Seen, Segment, StreamName, StreamState, Timestamp, visible,
};
use rusqlite::types::ToSql;
use rusqlite::{Connection, Result, params_from_iter};

use super::lookup;
use super::recent::RecentEntries;
use super::row::{self, STREAM_COLUMNS};

pub(super) fn head(
    connection: &Connection,
    name: &StreamName,
    now: Timestamp,
) -> Result<Seen<StreamState>> {
    Ok(visible(lookup::stream_by_name(connection, name)?, now))
}

/// What a reader wants.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) name: StreamName,
    pub(super) from: ReadFrom,
    pub(super) bytes_max: usize,
    pub(super) now: Timestamp,
}

/// `None` when entries have moved since the snapshot, and are out of memory by now: the next snapshot has them.
pub(super) fn page(
    connection: &Connection,
    recent: &RecentEntries,
    wanted: &Wanted,
) -> Result<Option<Seen<Page>>> {
    let stream = match head(connection, &wanted.name, wanted.now)? {
        Ok(stream) => stream,
        Err(unseen) => return Ok(Some(Err(unseen))),
    };
    let plan = match ReadPlan::new(&stream, wanted.from) {
        Ok(plan) => plan,
        Err(unseen) => return Ok(Some(Err(unseen))),
    };
    let mut entries = PageEntries::new(&stream.content_type, wanted.bytes_max);
    for segment in plan.segments() {
        match read_segment(connection, recent, *segment, wanted.bytes_max, &mut entries)? {
            Progress::Whole => {}
            Progress::Full => break,
            Progress::Missing => return Ok(None),
        }
    }
    Ok(Some(Ok(plan.page(stream, entries))))
}

/// How far a segment was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Whole,
    /// The page has no room for more.
    Full,
    Missing,
}

fn read_segment(
    connection: &Connection,
    recent: &RecentEntries,
    segment: Segment,
    bytes_max: usize,
    entries: &mut PageEntries,
) -> Result<Progress> {
    let mut statement = connection.prepare_cached(
        "SELECT position, data FROM entries WHERE stream = ?1 AND position > ?2 AND position <= ?3 ORDER BY position",
    )?;
    let writer = segment.writer;
    let mut rows = statement.query([
        writer.0.cast_signed(),
        segment.after.cast_signed(),
        segment.through.cast_signed(),
    ])?;
    let mut next = segment.after + 1;
    loop {
        let found = rows.next()?;
        let until = match found {
            Some(found) => row::unsigned(found, 0)?,
            None => segment.through + 1,
        };
        // What has not moved yet lies between.
        while next < until {
            let held = recent.range(writer, next, until, bytes_max);
            if held.is_empty() {
                return Ok(Progress::Missing);
            }
            for data in held {
                if !entries.push(&data, Offset::new(writer, next)) {
                    return Ok(Progress::Full);
                }
                next += 1;
            }
        }
        let Some(found) = found else {
            return Ok(Progress::Whole);
        };
        if !entries.push(found.get_ref(1)?.as_blob()?, Offset::new(writer, next)) {
            return Ok(Progress::Full);
        }
        next += 1;
    }
}

pub(super) fn list(
    connection: &Connection,
    prefix: &str,
    after: Option<&StreamName>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<StreamState>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {STREAM_COLUMNS} FROM streams WHERE name >= ?1 AND name > ?2 ORDER BY name"
    ))?;
    let after = after.map_or("", StreamName::as_str);
    let mut rows = statement.query([prefix, after])?;
    let mut streams = Vec::new();
    while streams.len() < limit
        && let Some(found) = rows.next()?
    {
        let stream = row::stream(found)?;
        if !stream.name.as_str().starts_with(prefix) {
            break;
        }
        if stream.presence(now) == Presence::Live {
            streams.push(stream);
        }
    }
    Ok(streams)
}

pub(super) fn overdue(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<StreamName>> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM streams WHERE deadline <= ?1 ORDER BY deadline, name LIMIT ?2",
    )?;
    let names = statement.query_map((now.0, limit_of(limit)), |found| row::parsed(found, 0))?;
    names.collect()
}

pub(super) fn documents(
    connection: &Connection,
    query: &DocumentQuery,
) -> Result<Vec<(DocumentKey, Document)>> {
    let limit = limit_of(query.limit);
    let mut parameters: Vec<&dyn ToSql> = vec![&query.collection];
    let mut sql =
        "SELECT id, version, terms, body FROM log_documents AS document WHERE collection = ?"
            .to_owned();
    let (comparison, direction) = match query.order {
        Order::Ascending => (">", "ASC"),
        Order::Descending => ("<", "DESC"),
    };
    if let Some(after) = &query.after {
        sql.push_str(&format!(" AND id {comparison} ?"));
        parameters.push(after);
    }
    for term in &query.terms {
        sql.push_str(" AND id IN (SELECT id FROM log_terms WHERE collection = document.collection AND term = ?)");
        parameters.push(term);
    }
    sql.push_str(&format!(" ORDER BY id {direction} LIMIT ?"));
    parameters.push(&limit);
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(params_from_iter(parameters), |found| {
        let key = DocumentKey {
            collection: query.collection.clone(),
            id: found.get(0)?,
        };
        Ok((key, row::document(found, 1)?))
    })?;
    found.collect()
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
