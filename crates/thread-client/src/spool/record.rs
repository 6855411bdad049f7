//! Records: `length of the body | checksum of the body | checksum of these two | body`, little-endian.
//!
//! The head has a checksum of its own: a length that was changed on the disk would otherwise look like the torn end of a file,
//! and everything after it would be thrown away.

use bytes::Bytes;

pub(super) const HEAD_LENGTH: usize = 12;
/// Longer bodies are never written.
pub(super) const BODY_LENGTH_MAX: u32 = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Header(Bytes),
    Entry(Bytes),
    /// The next `count` entries that are not confirmed are the batch `seq`.
    Sealed {
        seq: u64,
        count: u32,
    },
    Acknowledged {
        seq: u64,
    },
    /// Batches count from 0 again.
    Epoch {
        epoch: u64,
    },
}

/// How a body begins.
mod kind {
    pub(super) const HEADER: u8 = 1;
    pub(super) const ENTRY: u8 = 2;
    pub(super) const SEALED: u8 = 3;
    pub(super) const ACKNOWLEDGED: u8 = 4;
    pub(super) const EPOCH: u8 = 5;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) body_length: u32,
    body_checksum: u32,
}

impl Head {
    /// `None`: not what was written.
    pub(super) fn read(bytes: &[u8; HEAD_LENGTH]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let head = Self {
            body_length: number(0)?,
            body_checksum: number(4)?,
        };
        let is_right = number(8)? == crc32fast::hash(bytes.get(..8)?);
        (is_right && (1..=BODY_LENGTH_MAX).contains(&head.body_length)).then_some(head)
    }

    /// How much of the file the record takes.
    pub(super) fn whole_length(self) -> u64 {
        u64::from(self.body_length) + u64::try_from(HEAD_LENGTH).unwrap_or(0)
    }

    /// `None`: not what was written.
    pub(super) fn record(self, body: &Bytes) -> Option<Record> {
        if crc32fast::hash(body) != self.body_checksum {
            return None;
        }
        let rest = body.slice(1..);
        let number = |at: usize| {
            let bytes = rest.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match *body.first()? {
            kind::HEADER => Some(Record::Header(rest)),
            kind::ENTRY => Some(Record::Entry(rest)),
            kind::SEALED if rest.len() == 12 => Some(Record::Sealed {
                seq: number(0)?,
                count: u32::from_le_bytes(rest.get(8..)?.try_into().ok()?),
            }),
            kind::ACKNOWLEDGED if rest.len() == 8 => Some(Record::Acknowledged { seq: number(0)? }),
            kind::EPOCH if rest.len() == 8 => Some(Record::Epoch { epoch: number(0)? }),
            _ => None,
        }
    }
}

/// Adds a record to `out`. Bodies are far below [`BODY_LENGTH_MAX`]: limits of entries come before.
pub(super) fn write(out: &mut Vec<u8>, record: &Record) {
    let mut body = Vec::new();
    match record {
        Record::Header(text) => {
            body.push(kind::HEADER);
            body.extend_from_slice(text);
        }
        Record::Entry(entry) => {
            body.push(kind::ENTRY);
            body.extend_from_slice(entry);
        }
        Record::Sealed { seq, count } => {
            body.push(kind::SEALED);
            body.extend_from_slice(&seq.to_le_bytes());
            body.extend_from_slice(&count.to_le_bytes());
        }
        Record::Acknowledged { seq } => {
            body.push(kind::ACKNOWLEDGED);
            body.extend_from_slice(&seq.to_le_bytes());
        }
        Record::Epoch { epoch } => {
            body.push(kind::EPOCH);
            body.extend_from_slice(&epoch.to_le_bytes());
        }
    }
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let start = out.len();
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    let checksum = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&body);
}
