//! Entries of a stream that follow each other, in one row of `entries`: what has moved together is found and read together.
//!
//! A row has the position of its last entry, so that the first row behind a position is the one to read from there. `count` says how
//! many entries it has: then `data` begins with their lengths. Without it there is one, and `data` is that.

use bytes::Bytes;
use holm_thread_log::StreamId;
use rusqlite::types::Type;
use rusqlite::{Connection, Result, Row, params};

use super::row;

/// What is read for the sake of one entry, about.
const BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = size_of::<u32>();

/// Entries on their way into rows. They come in the order of their positions, with gaps.
#[derive(Debug)]
pub(super) struct Packer<'a> {
    connection: &'a Connection,
    stream: StreamId,
    last: u64,
    bytes: usize,
    entries: Vec<Bytes>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(connection: &'a Connection, stream: StreamId) -> Self {
        Self {
            connection,
            stream,
            last: 0,
            bytes: 0,
            entries: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, position: u64, data: Bytes) -> Result<()> {
        let follows = position == self.last + 1 && self.bytes + data.len() <= BYTES_MAX;
        if !follows {
            self.write()?;
        }
        self.last = position;
        self.bytes += data.len();
        self.entries.push(data);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        match self.entries.as_slice() {
            [] => return Ok(()),
            [one] => insert(self.connection, self.stream, self.last, None, one)?,
            several => {
                let count = several.len();
                let mut packed = Vec::with_capacity(self.bytes + count * LENGTH_BYTES);
                for entry in several {
                    let length = u32::try_from(entry.len()).map_err(|_| too_big())?;
                    packed.extend_from_slice(&length.to_le_bytes());
                }
                for entry in several {
                    packed.extend_from_slice(entry);
                }
                let count = u32::try_from(count).map_err(|_| too_big())?;
                let (connection, stream) = (self.connection, self.stream);
                insert(connection, stream, self.last, Some(count), &packed)?;
            }
        }
        self.entries.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Writes one row.
pub(super) fn insert(
    connection: &Connection,
    stream: StreamId,
    position: u64,
    count: Option<u32>,
    data: &[u8],
) -> Result<()> {
    let sql = "INSERT INTO entries (stream, position, count, data) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        stream.0.cast_signed(),
        position.cast_signed(),
        count,
        data
    ])?;
    Ok(())
}

/// A row that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bundle<'a> {
    /// The position of the first entry.
    pub(super) first: u64,
    /// `None`: it is one entry, as it is.
    lengths: Option<&'a [u8]>,
    data: &'a [u8],
}

impl<'a> Bundle<'a> {
    /// Reads `position, count, data`.
    pub(super) fn read(row: &'a Row<'_>) -> Result<Self> {
        let last = row::unsigned(row, 0)?;
        let count: Option<u32> = row.get(1)?;
        let data = row.get_ref(2)?.as_blob()?;
        let Some(count) = count else {
            return Ok(Self {
                first: last,
                lengths: None,
                data,
            });
        };
        let lengths_bytes = usize::try_from(count).ok();
        let lengths_bytes = lengths_bytes.and_then(|count| count.checked_mul(LENGTH_BYTES));
        let split = lengths_bytes.and_then(|bytes| data.split_at_checked(bytes));
        let first = (last + 1).checked_sub(u64::from(count));
        let (Some((lengths, data)), Some(first)) = (split, first) else {
            return Err(damaged());
        };
        Ok(Self {
            first,
            lengths: Some(lengths),
            data,
        })
    }

    /// Its entries from a position on, each with its position.
    pub(super) fn entries_from(self, from: u64) -> impl Iterator<Item = Result<(u64, &'a [u8])>> {
        let whole = self.data.len();
        let mut lengths = self.lengths.map(<[u8]>::iter);
        let (mut position, mut rest) = (self.first, self.data);
        let mut is_over = false;
        let next = move || {
            if is_over {
                return None;
            }
            let length = match &mut lengths {
                None => {
                    is_over = true;
                    whole
                }
                Some(lengths) => {
                    let bytes = lengths.as_slice().first_chunk::<LENGTH_BYTES>()?;
                    let length = u32::from_le_bytes(*bytes);
                    lengths.nth(LENGTH_BYTES - 1);
                    usize::try_from(length).unwrap_or(usize::MAX)
                }
            };
            let Some((entry, others)) = rest.split_at_checked(length) else {
                is_over = true;
                return Some(Err(damaged()));
            };
            rest = others;
            position += 1;
            Some(Ok((position - 1, entry)))
        };
        std::iter::from_fn(next).filter(move |entry| match entry {
            Ok((position, _)) => *position >= from,
            Err(_) => true,
        })
    }
}

fn damaged() -> rusqlite::Error {
    let what = "a row of entries is not as it was written";
    rusqlite::Error::FromSqlConversionFailure(2, Type::Blob, what.into())
}

/// Entries that come here have been small enough for much less.
fn too_big() -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure("an entry is too big for a row".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(7);

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE entries (stream, position, count, data)";
        connection.execute_batch(tables).unwrap();
        connection
    }

    type Entries = Vec<(u64, Vec<u8>)>;

    /// All rows, each with the entries that it has from a position on.
    fn found(connection: &Connection, from: u64) -> Result<Vec<Entries>> {
        let sql = "SELECT position, count, data FROM entries ORDER BY position";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let entries = Bundle::read(row)?.entries_from(from);
            let owned = entries.map(|entry| entry.map(|(at, data)| (at, data.to_vec())));
            owned.collect()
        })?;
        rows.collect()
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let connection = database();
        let mut packer = Packer::new(&connection, STREAM);
        let big = vec![b'x'; BYTES_MAX];
        let entries: [(u64, &[u8]); 7] = [
            (3, b"a"),
            (4, b""),
            (5, b"ccc"),
            // Alone, because one is missing before it, and the next does not fit.
            (7, b"d"),
            (8, &big),
            (9, b"e"),
            (10, b"f"),
        ];
        for (position, data) in entries {
            packer.push(position, Bytes::copy_from_slice(data)).unwrap();
        }
        packer.finish().unwrap();
        let rows = found(&connection, 0).unwrap();
        let counts: Vec<usize> = rows.iter().map(Vec::len).collect();
        assert_eq!(counts, [3, 1, 1, 2]);
        let all = rows.concat();
        let expected = entries.map(|(position, data)| (position, data.to_vec()));
        assert_eq!(all, expected);
        let later: Vec<u64> = found(&connection, 5)
            .unwrap()
            .concat()
            .iter()
            .map(|(position, _)| *position)
            .collect();
        assert_eq!(later, [5, 7, 8, 9, 10]);
    }

    #[test]
    fn a_damaged_row_is_an_error() {
        let damaged: [(i64, i64, &[u8]); 4] = [
            // Shorter than the lengths that it should begin with.
            (9, 2, b"\x01\0\0\0"),
            (9, i64::from(u32::MAX), b""),
            // Entries that end behind the end.
            (9, 2, b"\x01\0\0\0\xff\xff\xff\xffa"),
            // More than there can be before it.
            (1, 3, &[0; 12]),
        ];
        for (position, count, data) in damaged {
            let connection = database();
            connection
                .execute(
                    "INSERT INTO entries VALUES (7, ?1, ?2, ?3)",
                    params![position, count, data],
                )
                .unwrap();
            assert!(found(&connection, 0).is_err(), "{position} {count}");
        }
    }
}
