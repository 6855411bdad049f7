//! What a reader gets at once: entries in one piece of memory, in the form in which they are sent.
//!
//! Entries of JSON become an array where they are read: copying them once more for it would cost as much as reading them.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::content_type::ContentType;
use crate::offset::Offset;
use crate::sse::Freshness;
use crate::state::{Ending, StreamState};

/// What was read, and where the reader is then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// As it was at that moment.
    pub stream: StreamState,
    pub entries: Vec<Entry>,
    /// All of them: an array of JSON, or bytes in a row.
    pub body: Bytes,
    /// Where to read on.
    pub next: Offset,
    pub freshness: Freshness,
}

impl Page {
    /// Whether the reader has everything that there will ever be.
    pub fn ending(&self) -> Ending {
        match self.freshness {
            Freshness::UpToDate => self.stream.ending,
            Freshness::MoreToRead => Ending::Open,
        }
    }
}

/// What one request appended: bytes, or messages of JSON with commas between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub data: Bytes,
    /// Its end.
    pub next: Offset,
}

/// What is set aside for a page that may be longer still.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// Entries on their way into a page.
#[derive(Debug)]
pub struct PageEntries {
    body: BytesMut,
    /// Where each entry begins and ends in the body, and its end in the stream.
    places: Vec<(usize, usize, Offset)>,
    frame: Frame,
    /// Of entries, without what stands between them.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    None,
    Array,
}

impl PageEntries {
    pub fn new(content_type: &ContentType, bytes_max: usize) -> Self {
        Self {
            body: BytesMut::new(),
            places: Vec::new(),
            frame: if content_type.is_json() {
                Frame::Array
            } else {
                Frame::None
            },
            bytes: 0,
            bytes_max,
        }
    }

    /// Whether there was room for it. There is for the first, however big.
    pub fn push(&mut self, data: &[u8], next: Offset) -> bool {
        let bytes = self.bytes + data.len();
        match self.places.len() {
            0 => self.body.reserve(data.len() + 2),
            _ if bytes > self.bytes_max => return false,
            // There are several: so there may be many.
            1 => {
                let left = self.bytes_max - self.bytes;
                self.body.reserve(left.min(RESERVED_BYTES_MAX) + 2);
            }
            _ => {}
        }
        match (self.frame, self.places.is_empty()) {
            (Frame::Array, true) => self.body.put_u8(b'['),
            (Frame::Array, false) => self.body.put_u8(b','),
            (Frame::None, _) => {}
        }
        let start = self.body.len();
        self.body.extend_from_slice(data);
        self.places.push((start, self.body.len(), next));
        self.bytes = bytes;
        true
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Of the entries so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn finish(mut self) -> (Vec<Entry>, Bytes) {
        match (self.frame, self.is_empty()) {
            (Frame::Array, true) => return (Vec::new(), Bytes::from_static(b"[]")),
            (Frame::Array, false) => self.body.put_u8(b']'),
            (Frame::None, _) => {}
        }
        let body = self.body.freeze();
        let entries = self.places.into_iter().map(|(start, end, next)| Entry {
            data: body.slice(start..end),
            next,
        });
        (entries.collect(), body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::StreamId;

    fn page(kind: &str, bytes_max: usize, entries: &[&str]) -> (Vec<String>, String) {
        let mut page = PageEntries::new(&kind.parse().unwrap(), bytes_max);
        for (position, entry) in (1..).zip(entries) {
            if !page.push(entry.as_bytes(), Offset::new(StreamId(1), position)) {
                break;
            }
        }
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let (entries, body) = page.finish();
        let entries = entries.iter().map(|entry| text(&entry.data));
        (entries.collect(), text(&body))
    }

    #[test]
    fn json_is_an_array_and_bytes_are_in_a_row() {
        let all = ["1", "2,3", "4"];
        let entries: Vec<String> = all.map(str::to_owned).into();
        let json = page("application/json", 100, &all);
        assert_eq!(json, (entries.clone(), "[1,2,3,4]".to_owned()));
        let bytes = page("application/octet-stream", 100, &all);
        assert_eq!(bytes, (entries, "12,34".to_owned()));
        assert_eq!(page("application/json", 100, &[]).1, "[]");
        assert_eq!(page("text/plain", 100, &[]).1, "");
    }

    #[test]
    fn a_page_has_its_bytes_or_one_entry() {
        assert_eq!(page("application/json", 4, &["11", "22", "3"]).1, "[11,22]");
        assert_eq!(page("application/json", 1, &["11", "22"]).1, "[11]");
        assert_eq!(page("text/plain", 0, &["11", "22"]).1, "11");
        assert_eq!(page("text/plain", usize::MAX, &["11", "22"]).1, "1122");
    }
}
