//! How far a reader is, finer than offsets: one offset can stand behind several messages.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A place to go on from: so many messages after an offset of the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub offset: String,
    /// Messages after the offset that are known already.
    #[serde(default)]
    pub skip: u64,
}

impl Position {
    pub fn start() -> Self {
        Self::at("-1")
    }

    /// What comes from now on.
    pub fn now() -> Self {
        Self::at("now")
    }

    pub fn at(offset: impl Into<String>) -> Self {
        Self {
            offset: offset.into(),
            skip: 0,
        }
    }
}

/// An entry, and where the reader is when it has dealt with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub data: Bytes,
    pub after: Position,
}

/// Counts messages, and leaves out what is known.
#[derive(Debug)]
pub(super) struct Counter {
    /// What was received, whether or not somebody has taken it yet.
    received: Position,
    /// How many of the next messages are known.
    known: u64,
}

impl Counter {
    pub(super) fn new(from: Position) -> Self {
        let known = from.skip;
        Self {
            received: from,
            known,
        }
    }

    /// Where to ask from. What comes then begins right after the offset.
    pub(super) fn ask_from(&mut self) -> &str {
        self.known = self.received.skip;
        &self.received.offset
    }

    /// A message; `None` if it is known.
    pub(super) fn message(&mut self, data: Bytes) -> Option<Entry> {
        if self.known > 0 {
            self.known -= 1;
            return None;
        }
        self.received.skip += 1;
        Some(Entry {
            data,
            after: self.received.clone(),
        })
    }

    /// All messages before this offset have come.
    pub(super) fn reached(&mut self, offset: &str) -> Position {
        self.received = Position {
            offset: offset.to_owned(),
            skip: self.known,
        };
        self.received.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(counter: &mut Counter, messages: &[&'static str]) -> Vec<Entry> {
        let messages = messages
            .iter()
            .map(|text| Bytes::from_static(text.as_bytes()));
        messages.filter_map(|data| counter.message(data)).collect()
    }

    #[test]
    fn a_reader_that_was_cut_off_between_two_offsets_repeats_nothing() {
        let mut counter = Counter::new(Position::start());
        assert_eq!(counter.ask_from(), "-1");
        let entries = take(&mut counter, &["a", "b"]);
        assert_eq!(entries[1].after.skip, 2);
        // Cut off before the server said where that is. Then all comes again, and more.
        assert_eq!(counter.ask_from(), "-1");
        let entries = take(&mut counter, &["a", "b", "c"]);
        assert_eq!(entries.len(), 1);
        assert_eq!(
            entries[0].after,
            Position {
                offset: "-1".into(),
                skip: 3
            }
        );
        assert_eq!(counter.reached("5"), Position::at("5"));
        assert_eq!(counter.ask_from(), "5");
    }

    #[test]
    fn pages_may_end_before_what_is_known() {
        let mut counter = Counter::new(Position {
            offset: "-1".into(),
            skip: 3,
        });
        counter.ask_from();
        assert_eq!(take(&mut counter, &["a", "b"]), []);
        assert_eq!(counter.reached("2").skip, 1);
        counter.ask_from();
        assert_eq!(take(&mut counter, &["c", "d"])[0].data, "d");
    }
}
