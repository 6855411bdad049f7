//! Streams as rows of a table.
//!
//! Numbers without sign are kept by their bits: all that are compared in the database are far below the sign.

use holm_thread_log::{
    Ending, Existence, Lifetime, Offset, Origin, Segment, StreamId, StreamName, StreamState,
    Timestamp,
};
use tokio_postgres::Row;

use super::error::{Doing, PostgresError};

/// What a query names, for [`stream`].
macro_rules! stream_columns {
    () => {
        "id, name, content_type, lifetime_kind, lifetime_value, created_at, last_access, last_seen, closed, deleted, \
         origin_source, origin_name, origin_at, origin_sub_offset, inherited, tail_position, size_bytes, forks, stream_seq"
    };
}
pub(super) use stream_columns;

pub(super) const FOREVER: i16 = 0;
pub(super) const SLIDING: i16 = 1;
pub(super) const UNTIL: i16 = 2;

pub(super) fn lifetime_columns(lifetime: Lifetime) -> (i16, i64) {
    match lifetime {
        Lifetime::Forever => (FOREVER, 0),
        Lifetime::Sliding { seconds } => (SLIDING, seconds.cast_signed()),
        Lifetime::Until(time) => (UNTIL, time.0),
    }
}

fn lifetime(kind: i16, value: i64) -> Result<Lifetime, PostgresError> {
    match kind {
        FOREVER => Ok(Lifetime::Forever),
        SLIDING => Ok(Lifetime::Sliding {
            seconds: value.cast_unsigned(),
        }),
        UNTIL => Ok(Lifetime::Until(Timestamp(value))),
        _ => Err(PostgresError::Malformed {
            what: "the lifetime of a stream",
        }),
    }
}

/// One column, by its number.
pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, PostgresError> {
    row.try_get(index).doing("read a row")
}

pub(super) fn number(row: &Row, index: usize) -> Result<u64, PostgresError> {
    column::<i64>(row, index).map(i64::cast_unsigned)
}

pub(super) fn id(row: &Row, index: usize) -> Result<StreamId, PostgresError> {
    number(row, index).map(StreamId)
}

pub(super) fn name(row: &Row, index: usize) -> Result<StreamName, PostgresError> {
    let what = "the name of a stream";
    column::<&str>(row, index)?
        .parse()
        .map_err(|_| PostgresError::Malformed { what })
}

/// A row that begins with the columns of [`stream_columns`].
pub(super) fn stream(row: &Row) -> Result<StreamState, PostgresError> {
    let malformed = |what: &'static str| PostgresError::Malformed { what };
    let content_type = column::<&str>(row, 2)?;
    let inherited: Vec<Segment> = serde_json::from_str(column::<&str>(row, 14)?)
        .map_err(|_| malformed("what a fork has inherited"))?;
    Ok(StreamState {
        id: id(row, 0)?,
        name: name(row, 1)?,
        content_type: content_type
            .parse()
            .map_err(|_| malformed("the type of a stream"))?,
        lifetime: lifetime(column(row, 3)?, column(row, 4)?)?,
        created_at: Timestamp(column(row, 5)?),
        last_access: Timestamp(column(row, 6)?),
        last_seen: column::<Option<i64>>(row, 7)?.map(Timestamp),
        ending: if column(row, 8)? {
            Ending::Closed
        } else {
            Ending::Open
        },
        existence: if column(row, 9)? {
            Existence::Deleted
        } else {
            Existence::Live
        },
        origin: origin(row)?,
        inherited,
        tail_position: number(row, 15)?,
        size_bytes: number(row, 16)?,
        forks: number(row, 17)?,
        last_stream_seq: column(row, 18)?,
    })
}

fn origin(row: &Row) -> Result<Option<Origin>, PostgresError> {
    if column::<Option<i64>>(row, 10)?.is_none() {
        return Ok(None);
    }
    let what = "where a fork begins";
    let at: Offset = column::<&str>(row, 12)?
        .parse()
        .map_err(|_| PostgresError::Malformed { what })?;
    Ok(Some(Origin {
        source: id(row, 10)?,
        source_name: name(row, 11)?,
        at,
        sub_offset: number(row, 13)?,
    }))
}
