//! Streams and documents as rows, and back.
//!
//! SQLite's integers have a sign and ours often have none. Their bits are kept as they are: nothing that is compared inside of the
//! database reaches the half where that matters.

use bytes::Bytes;
use holm_thread_log::{
    Content, ContentType, Document, Ending, Existence, Lifetime, Offset, Origin, Segment, StreamId,
    StreamName, StreamState, Timestamp,
};
use rusqlite::Row;
use rusqlite::types::Type;

/// The columns of a stream, in the order in which [`stream`] reads them.
pub(super) const STREAM_COLUMNS: &str = "id, name, content_type, lifetime_kind, lifetime_value, created_at, last_access, last_seen, \
     closed, deleted, origin_source, origin_name, origin_at, origin_sub_offset, inherited, tail_position, size_bytes, forks, \
     stream_seq";

const FOREVER: i64 = 0;
const SLIDING: i64 = 1;
const UNTIL: i64 = 2;

/// How a lifetime is written: its kind, and its value.
pub(super) fn lifetime(lifetime: Lifetime) -> (i64, i64) {
    match lifetime {
        Lifetime::Forever => (FOREVER, 0),
        Lifetime::Sliding { seconds } => (SLIDING, seconds.cast_signed()),
        Lifetime::Until(time) => (UNTIL, time.0),
    }
}

pub(super) fn stream(row: &Row<'_>) -> rusqlite::Result<StreamState> {
    let lifetime = match row.get(3)? {
        FOREVER => Lifetime::Forever,
        SLIDING => Lifetime::Sliding {
            seconds: row.get::<_, i64>(4)?.cast_unsigned(),
        },
        UNTIL => Lifetime::Until(Timestamp(row.get(4)?)),
        unknown => return Err(rusqlite::Error::IntegralValueOutOfRange(3, unknown)),
    };
    let origin = match row.get::<_, Option<i64>>(10)? {
        None => None,
        Some(source) => Some(Origin {
            source: StreamId(source.cast_unsigned()),
            source_name: parsed::<StreamName>(row, 11)?,
            at: parsed::<Offset>(row, 12)?,
            sub_offset: unsigned(row, 13)?,
        }),
    };
    let inherited = match row.get_ref(14)?.as_str_or_null()? {
        None => Vec::new(),
        Some(text) => {
            serde_json::from_str::<Vec<Segment>>(text).map_err(|source| wrong(14, source))?
        }
    };
    Ok(StreamState {
        id: StreamId(unsigned(row, 0)?),
        name: parsed(row, 1)?,
        content_type: parsed::<ContentType>(row, 2)?,
        lifetime,
        created_at: Timestamp(row.get(5)?),
        last_access: Timestamp(row.get(6)?),
        last_seen: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        ending: if row.get(8)? {
            Ending::Closed
        } else {
            Ending::Open
        },
        existence: if row.get(9)? {
            Existence::Deleted
        } else {
            Existence::Live
        },
        origin,
        inherited,
        tail_position: unsigned(row, 15)?,
        size_bytes: unsigned(row, 16)?,
        forks: unsigned(row, 17)?,
        last_stream_seq: row.get(18)?,
    })
}

/// Reads `version, terms, body`, beginning at a column.
pub(super) fn document(row: &Row<'_>, first: usize) -> rusqlite::Result<Document> {
    let terms = row.get_ref(first + 1)?.as_str()?;
    Ok(Document {
        version: unsigned(row, first)?,
        content: Content {
            terms: serde_json::from_str(terms).map_err(|source| wrong(first + 1, source))?,
            body: Bytes::from(row.get::<_, Vec<u8>>(first + 2)?),
        },
    })
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|source| wrong(column, source))
}

/// Somebody else has written here, or the file is damaged.
fn wrong(column: usize, source: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(source))
}
