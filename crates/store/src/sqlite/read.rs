//! What readers ask for, each inside of one snapshot, and with what was in memory before it.

use holm_thread_log::{
    Document, DocumentKey, DocumentQuery, Offset, Order, Page, PageEntries, Presence, ReadFrom,
    ReadPlan, Seen, Segment, StreamName, StreamState, Timestamp, visible,
};
use rusqlite::types::ToSql;
use rusqlite::{Connection, Result, params_from_iter};

use super::bundle::Bundle;
use super::growth;
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

/// The page, if all of it is in memory: what followers ask for. A gap is left to [`page`].
pub(super) fn page_in_memory(
    recent: &RecentEntries,
    grown: &StreamState,
    wanted: &Wanted,
) -> Option<Seen<Page>> {
    let stream = visible(Some(grown.clone()), wanted.now).ok()?;
    let plan = ReadPlan::new(&stream, wanted.from).ok()?;
    let mut entries = PageEntries::new(&stream.content_type, wanted.bytes_max);
    for segment in plan.segments() {
        let (mut next, end) = (segment.after + 1, segment.through + 1);
        match push_recent(recent, *segment, &mut next, end, wanted, &mut entries) {
            Progress::Whole => {}
            Progress::Full => break,
            Progress::Missing => return None,
        }
    }
    Some(Ok(plan.page(stream, entries)))
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
    grown: Option<&StreamState>,
    wanted: &Wanted,
) -> Result<Option<Seen<Page>>> {
    let row = lookup::stream_by_name(connection, &wanted.name)?;
    let stream = row.map(|row| growth::longer(row, grown));
    let stream = match visible(stream, wanted.now) {
        Ok(stream) => stream,
        Err(unseen) => return Ok(Some(Err(unseen))),
    };
    let plan = match ReadPlan::new(&stream, wanted.from) {
        Ok(plan) => plan,
        Err(unseen) => return Ok(Some(Err(unseen))),
    };
    let mut entries = PageEntries::new(&stream.content_type, wanted.bytes_max);
    for segment in plan.segments() {
        match read_segment(connection, recent, *segment, wanted, &mut entries)? {
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
    wanted: &Wanted,
    entries: &mut PageEntries,
) -> Result<Progress> {
    let mut statement = connection.prepare_cached(
        "SELECT position, count, data FROM entries
         WHERE stream = ?1 AND position > ?2 AND position - ifnull(count, 1) < ?3 ORDER BY position",
    )?;
    let writer = segment.writer;
    let mut rows = statement.query([
        writer.0.cast_signed(),
        segment.after.cast_signed(),
        segment.through.cast_signed(),
    ])?;
    let (mut next, end) = (segment.after + 1, segment.through + 1);
    loop {
        let bundle = rows.next()?.map(Bundle::read).transpose()?;
        let until = bundle.map_or(end, |bundle| bundle.first.min(end));
        // What has not moved yet lies between.
        match push_recent(recent, segment, &mut next, until, wanted, entries) {
            Progress::Whole => {}
            progress @ (Progress::Full | Progress::Missing) => return Ok(progress),
        }
        let Some(bundle) = bundle else {
            return Ok(Progress::Whole);
        };
        for entry in bundle.entries_from(next) {
            let (position, data) = entry?;
            if position >= end {
                return Ok(Progress::Whole);
            }
            if !entries.push(data, Offset::new(writer, position)) {
                return Ok(Progress::Full);
            }
            next = position + 1;
        }
        if next >= end {
            return Ok(Progress::Whole);
        }
    }
}

/// Takes entries from memory, up to a position.
fn push_recent(
    recent: &RecentEntries,
    segment: Segment,
    next: &mut u64,
    until: u64,
    wanted: &Wanted,
    entries: &mut PageEntries,
) -> Progress {
    while *next < until {
        let held = recent.range(segment.writer, *next, until, wanted.bytes_max);
        if held.is_empty() {
            return Progress::Missing;
        }
        for data in held {
            if !entries.push(&data, Offset::new(segment.writer, *next)) {
                return Progress::Full;
            }
            *next += 1;
        }
    }
    Progress::Whole
}

/// `grown` was looked at before the snapshot.
pub(super) fn list(
    connection: &Connection,
    grown: &growth::States,
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
        let grown = grown.get(&stream.name).map(|grown| &**grown);
        let stream = growth::longer(stream, grown);
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
