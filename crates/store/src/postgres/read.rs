//! What readers ask for.

use holm_thread_log::{
    Document, DocumentKey, DocumentQuery, Offset, Order, Page, PageEntries, ReadFrom, ReadPlan,
    Seen, Segment, StreamName, StreamState, Timestamp, visible,
};

use super::error::PostgresError;
use super::facts;
use super::rows::{column, name, number, stream, stream_columns};
use super::session::Session;

/// Entries that one statement looks at.
const ENTRIES_MAX: i64 = 4096;

pub(super) async fn head(
    session: &Session,
    name: &StreamName,
    now: Timestamp,
) -> Result<Seen<StreamState>, PostgresError> {
    let sql = concat!(
        "SELECT ",
        stream_columns!(),
        " FROM holm.log_streams WHERE name = $1"
    );
    let rows = session
        .query("read a stream", sql, &[&name.as_str()])
        .await?;
    let stream = rows.first().map(stream).transpose()?;
    Ok(visible(stream, now))
}

/// The row is of one moment, and so are its entries: they never change, and are removed only after the row, which is looked at again.
pub(super) async fn page(
    session: &Session,
    name: &StreamName,
    from: ReadFrom,
    bytes_max: usize,
    now: Timestamp,
) -> Result<Seen<Page>, PostgresError> {
    let mut looked_at = None;
    loop {
        let stream = match head(session, name, now).await? {
            Ok(stream) => stream,
            Err(unseen) => return Ok(Err(unseen)),
        };
        let plan = match ReadPlan::new(&stream, from) {
            Ok(plan) => plan,
            Err(unseen) => return Ok(Err(unseen)),
        };
        let entries = entries(session, &stream, plan.segments(), bytes_max).await?;
        let is_removed = entries.is_empty() && !plan.segments().is_empty();
        if !is_removed {
            return Ok(Ok(plan.page(stream, entries)));
        }
        // A stream that was removed does not come back with its id.
        if looked_at.replace(stream.id) == Some(stream.id) {
            let what = "the entries of a stream are missing";
            return Err(PostgresError::Malformed { what });
        }
    }
}

async fn entries(
    session: &Session,
    stream: &StreamState,
    segments: &[Segment],
    bytes_max: usize,
) -> Result<PageEntries, PostgresError> {
    let mut entries = PageEntries::new(&stream.content_type, bytes_max);
    for segment in segments {
        let mut after = segment.after;
        while after < segment.through {
            let left = i64::try_from(bytes_max.saturating_sub(entries.bytes())).unwrap_or(i64::MAX);
            // At least one, however big.
            let at_least = if entries.is_empty() { after + 1 } else { 0 };
            let rows = session
                .query(
                    "read entries",
                    ENTRIES,
                    &[
                        &segment.writer.0.cast_signed(),
                        &after.cast_signed(),
                        &segment.through.cast_signed(),
                        &left,
                        &at_least.cast_signed(),
                        &stream.id.0.cast_signed(),
                        &ENTRIES_MAX,
                    ],
                )
                .await?;
            if rows.is_empty() {
                return Ok(entries);
            }
            for row in &rows {
                let position = number(row, 0)?;
                if position != after + 1 {
                    return Err(PostgresError::Malformed {
                        what: "an entry is missing",
                    });
                }
                after = position;
                let next = Offset::new(segment.writer, position);
                if !entries.push(column(row, 1)?, next) {
                    return Ok(entries);
                }
            }
            if entries.bytes() >= bytes_max {
                return Ok(entries);
            }
        }
    }
    Ok(entries)
}

/// Finds out by their lengths which entries fit, and reads only those.
const ENTRIES: &str = "
    SELECT position, data FROM holm.log_entries
    WHERE stream = $1 AND position > $2
      AND position <= (
          SELECT greatest(max(position) FILTER (WHERE total <= $4), $5)
          FROM (SELECT position, sum(octet_length(data)) OVER (ORDER BY position) AS total
                FROM (SELECT position, data FROM holm.log_entries
                      WHERE stream = $1 AND position > $2 AND position <= $3
                      ORDER BY position LIMIT $7) AS next) AS sized)
      AND EXISTS (SELECT 1 FROM holm.log_streams WHERE id = $6)
    ORDER BY position";

pub(super) async fn list(
    session: &Session,
    prefix: &str,
    after: Option<&StreamName>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<StreamState>, PostgresError> {
    // No name begins so, and the database would not take a NUL.
    if prefix.contains(|character: char| !character.is_ascii_graphic()) {
        return Ok(Vec::new());
    }
    // Above all names that begin with the prefix: names have no such character.
    let end = format!("{prefix}\u{7f}");
    let after = after.map_or("", StreamName::as_str);
    let sql = concat!(
        "SELECT ",
        stream_columns!(),
        " FROM holm.log_streams
          WHERE name >= $1 AND name < $2 AND name > $3 AND NOT deleted AND (deadline IS NULL OR deadline > $4)
          ORDER BY name LIMIT $5"
    );
    let rows = session
        .query(
            "list streams",
            sql,
            &[&prefix, &end, &after, &now.0, &limited(limit)],
        )
        .await?;
    rows.iter().map(stream).collect()
}

pub(super) async fn overdue(
    session: &Session,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<StreamName>, PostgresError> {
    let sql =
        "SELECT name FROM holm.log_streams WHERE deadline <= $1 ORDER BY deadline, name LIMIT $2";
    let rows = session
        .query(
            "look for streams whose time is over",
            sql,
            &[&now.0, &limited(limit)],
        )
        .await?;
    rows.iter().map(|row| name(row, 0)).collect()
}

pub(super) async fn document(
    session: &Session,
    key: &DocumentKey,
) -> Result<Option<Document>, PostgresError> {
    let sql = "SELECT collection, id, version, body, terms FROM holm.log_documents WHERE collection = $1 AND id = $2";
    let rows = session
        .query("read a document", sql, &[&key.collection, &key.id])
        .await?;
    let found = rows.first().map(facts::document).transpose()?;
    Ok(found.map(|(_, document)| document))
}

/// By the first term's index; the others are looked at in the document. So the most telling term comes first.
pub(super) async fn documents(
    session: &Session,
    query: &DocumentQuery,
) -> Result<Vec<(DocumentKey, Document)>, PostgresError> {
    let sql = match (query.terms.is_empty(), query.order) {
        (true, Order::Ascending) => ALL_ASCENDING,
        (true, Order::Descending) => ALL_DESCENDING,
        (false, Order::Ascending) => BY_TERM_ASCENDING,
        (false, Order::Descending) => BY_TERM_DESCENDING,
    };
    let after = query.after.as_deref();
    let rows = session
        .query(
            "list documents",
            sql,
            &[
                &query.collection,
                &query.terms,
                &after,
                &limited(query.limit),
            ],
        )
        .await?;
    rows.iter().map(facts::document).collect()
}

macro_rules! select_documents {
    ($from:literal, $id:literal, $after:literal, $order:literal) => {
        concat!(
            "SELECT d.collection, d.id, d.version, d.body, d.terms FROM ",
            $from,
            " AND d.terms @> $2::text[] AND ($3::text IS NULL OR ",
            $id,
            $after,
            " $3) ORDER BY ",
            $id,
            $order,
            " LIMIT $4"
        )
    };
}

const ALL_ASCENDING: &str = select_documents!(
    "holm.log_documents d WHERE d.collection = $1",
    "d.id",
    " >",
    " ASC"
);
const ALL_DESCENDING: &str = select_documents!(
    "holm.log_documents d WHERE d.collection = $1",
    "d.id",
    " <",
    " DESC"
);
const BY_TERM_ASCENDING: &str = select_documents!(
    "holm.log_terms t JOIN holm.log_documents d ON d.collection = t.collection AND d.id = t.id
     WHERE t.collection = $1 AND t.term = ($2::text[])[1]",
    "t.id",
    " >",
    " ASC"
);
const BY_TERM_DESCENDING: &str = select_documents!(
    "holm.log_terms t JOIN holm.log_documents d ON d.collection = t.collection AND d.id = t.id
     WHERE t.collection = $1 AND t.term = ($2::text[])[1]",
    "t.id",
    " <",
    " DESC"
);

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
