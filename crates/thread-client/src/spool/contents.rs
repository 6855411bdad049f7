//! Reading a spool's file: what is in it, and whether it is what was written.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;

use super::record::{HEAD_LENGTH, Head, Record};
use super::{Header, SpoolError};

/// What a file holds. Where it is in the file is a matter of `first`: entries before that are confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    /// `next_seq` is of the sealed batch, if there is one, and otherwise of the next.
    pub(super) header: Header,
    pub(super) first: u64,
    pub(super) pending: Pending,
    /// How many entries the batch has that waits to be confirmed.
    pub(super) sealed: Option<u32>,
    /// How many entries in this file are confirmed.
    pub(super) acknowledged_here: u64,
}

/// Entries that are not confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) count: u64,
    /// With the heads of their records.
    pub(super) bytes: u64,
}

impl Pending {
    pub(super) fn add(&mut self, count: u64, bytes: u64) {
        self.count += count;
        self.bytes += bytes;
    }
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// In the middle of a record, whose writer died: it was never promised.
    Torn,
}

#[derive(Debug)]
pub(super) enum ReadError {
    Io(io::Error),
    Damaged { at: u64 },
}

impl ReadError {
    pub(super) fn into_spool_error(self, path: &Path) -> SpoolError {
        let path = path.to_path_buf();
        match self {
            Self::Io(source) => SpoolError::Io {
                doing: "read",
                path,
                source,
            },
            Self::Damaged { at } => SpoolError::Damaged { path, at },
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Records from a place on.
#[derive(Debug)]
struct Records<'file> {
    file: BufReader<ReadAt<'file>>,
    at: u64,
    end: u64,
}

/// Reads on from a place of its own: several of them do not disturb each other.
#[derive(Debug)]
struct ReadAt<'file> {
    file: &'file File,
    at: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}

/// A record and where it begins, or why there is none.
enum Next {
    Record(u64, Head, Record),
    End(End),
}

impl<'file> Records<'file> {
    fn new(file: &'file File, from: u64, end: u64) -> Self {
        Self {
            file: BufReader::new(ReadAt { file, at: from }),
            at: from,
            end,
        }
    }

    fn next(&mut self) -> Result<Next, ReadError> {
        let left = self.end.saturating_sub(self.at);
        if left == 0 {
            return Ok(Next::End(End::Whole));
        }
        let mut head = [0; HEAD_LENGTH];
        if left < u64::try_from(HEAD_LENGTH).unwrap_or(0) {
            return Ok(Next::End(End::Torn));
        }
        self.file.read_exact(&mut head)?;
        let damaged = ReadError::Damaged { at: self.at };
        let Some(head) = Head::read(&head) else {
            return if head == [0; HEAD_LENGTH] && self.is_zero_to_the_end()? {
                // Some file systems lengthen a file before they write to it.
                Ok(Next::End(End::Torn))
            } else {
                Err(damaged)
            };
        };
        if left < head.whole_length() {
            return Ok(Next::End(End::Torn));
        }
        let mut body = vec![0; usize::try_from(head.body_length).unwrap_or(0)];
        self.file.read_exact(&mut body)?;
        let record = head.record(&Bytes::from(body)).ok_or(damaged)?;
        let start = self.at;
        self.at += head.whole_length();
        Ok(Next::Record(start, head, record))
    }

    fn is_zero_to_the_end(&mut self) -> Result<bool, ReadError> {
        let mut buffer = [0; 4096];
        loop {
            let count = self.file.read(&mut buffer)?;
            let read = buffer.get(..count).unwrap_or_default();
            if read.is_empty() {
                return Ok(true);
            }
            if read.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
    }
}

/// What a file of this length holds, and how much of it is whole.
pub(super) fn scan(file: &File, length: u64) -> Result<(Contents, u64, End), ReadError> {
    let mut records = Records::new(file, 0, length);
    let header = match records.next()? {
        Next::Record(_, _, Record::Header(text)) => text,
        // A file gets its name when its header is on the disk: no crash leaves it without.
        Next::Record(..) | Next::End(_) => return Err(ReadError::Damaged { at: 0 }),
    };
    let header = serde_json::from_slice(&header).map_err(|_| ReadError::Damaged { at: 0 })?;
    let mut contents = Contents {
        header,
        first: records.at,
        pending: Pending::default(),
        sealed: None,
        acknowledged_here: 0,
    };
    loop {
        let (at, head, record) = match records.next()? {
            Next::Record(at, head, record) => (at, head, record),
            Next::End(end) => return Ok((contents, records.at, end)),
        };
        let is_next = |seq: u64| seq == contents.header.next_seq;
        match record {
            Record::Entry(_) => contents.pending.add(1, head.whole_length()),
            Record::Sealed { seq, count }
                if contents.sealed.is_none()
                    && is_next(seq)
                    && (1..=contents.pending.count).contains(&u64::from(count)) =>
            {
                contents.sealed = Some(count);
            }
            Record::Acknowledged { seq } if contents.sealed.is_some() && is_next(seq) => {
                contents.pass_batch(file, at)?;
            }
            Record::Epoch { epoch }
                if contents.sealed.is_none() && epoch > contents.header.epoch =>
            {
                contents.header.epoch = epoch;
                contents.header.next_seq = 0;
            }
            Record::Header(_)
            | Record::Sealed { .. }
            | Record::Acknowledged { .. }
            | Record::Epoch { .. } => {
                return Err(ReadError::Damaged { at });
            }
        }
    }
}

impl Contents {
    pub(super) fn acknowledged(&self) -> u64 {
        self.header.entries_before + self.acknowledged_here
    }

    /// The sealed batch is confirmed.
    pub(super) fn pass_batch(&mut self, file: &File, end: u64) -> Result<(), ReadError> {
        let Some(count) = self.sealed.take() else {
            return Ok(());
        };
        let mut records = Records::new(file, self.first, end);
        let mut left = count;
        while left > 0 {
            match records.next()? {
                Next::Record(_, head, Record::Entry(_)) => {
                    self.pending.bytes -= head.whole_length();
                    left -= 1;
                }
                Next::Record(..) => {}
                Next::End(_) => return Err(ReadError::Damaged { at: records.at }),
            }
        }
        self.first = records.at;
        self.pending.count -= u64::from(count);
        self.acknowledged_here += u64::from(count);
        self.header.next_seq += 1;
        Ok(())
    }
}

/// What was taken of a batch so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) count: u32,
    pub(super) bytes: usize,
}

/// Entries from a place on, as long as the caller wants one more.
pub(super) fn read_entries(
    file: &File,
    from: u64,
    end: u64,
    wants_more: impl Fn(Taken) -> bool,
) -> Result<Vec<Bytes>, ReadError> {
    let mut records = Records::new(file, from, end);
    let mut taken = Taken { count: 0, bytes: 0 };
    let mut entries = Vec::new();
    while wants_more(taken) {
        match records.next()? {
            Next::Record(_, _, Record::Entry(entry)) => {
                taken.count += 1;
                taken.bytes += entry.len();
                entries.push(entry);
            }
            Next::Record(..) => {}
            Next::End(End::Whole) => break,
            Next::End(End::Torn) => return Err(ReadError::Damaged { at: records.at }),
        }
    }
    Ok(entries)
}

/// Writes all entries from a place on to another file.
pub(super) fn copy_entries(
    file: &File,
    from: u64,
    end: u64,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut records = Records::new(file, from, end);
    let mut bytes = Vec::new();
    loop {
        match records.next()? {
            Next::Record(_, _, record @ Record::Entry(_)) => {
                bytes.clear();
                super::record::write(&mut bytes, &record);
                out.write_all(&bytes)?;
            }
            Next::Record(..) => {}
            Next::End(End::Whole) => return Ok(()),
            Next::End(End::Torn) => return Err(ReadError::Damaged { at: records.at }),
        }
    }
}
