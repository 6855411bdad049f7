//! Places in a stream, as clients see them.
//!
//! An offset is the end of an entry: which stream wrote it, and how many entries lie before it and with it. A stream that is made
//! again under an old name has a new id, so that an offset is never given out twice and one from another stream is found out.
//! A fork has a higher id than its source, so offsets rise over inherited and own entries alike.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A stream, for as long as there is a database: a name can be used again, an id cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The end of an entry, or the start of a stream. As text, which it is in JSON, it sorts as it does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Offset {
    /// Who wrote the entry; 0 at the start.
    segment: u64,
    /// How many entries end here or before.
    position: u64,
}

/// Digits of either half. Sixteen of them are more than any stream will see, and fit a JavaScript string comparison.
const DIGITS: usize = 16;

impl Offset {
    /// Before the first entry.
    pub const START: Self = Self {
        segment: 0,
        position: 0,
    };

    pub fn new(writer: StreamId, position: u64) -> Self {
        Self {
            segment: writer.0,
            position,
        }
    }

    /// The stream that wrote the entry which ends here.
    pub fn writer(self) -> StreamId {
        StreamId(self.segment)
    }

    pub fn position(self) -> u64 {
        self.position
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016}_{:016}", self.segment, self.position)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no offset: use one from `Stream-Next-Offset`, or `-1` for the start, or `now`")]
pub struct OffsetError;

impl From<Offset> for String {
    fn from(offset: Offset) -> Self {
        offset.to_string()
    }
}

impl TryFrom<String> for Offset {
    type Error = OffsetError;

    fn try_from(text: String) -> Result<Self, OffsetError> {
        text.parse()
    }
}

impl FromStr for Offset {
    type Err = OffsetError;

    fn from_str(text: &str) -> Result<Self, OffsetError> {
        let (segment, position) = text.split_once('_').ok_or(OffsetError)?;
        Ok(Self {
            segment: number(segment)?,
            position: number(position)?,
        })
    }
}

/// Exactly as many digits as are written: two spellings of one offset would not compare as text.
fn number(digits: &str) -> Result<u64, OffsetError> {
    if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OffsetError);
    }
    digits.parse().map_err(|_| OffsetError)
}

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// `-1`, or its alias `0`.
    Start,
    /// `now`: what is there already is not wanted.
    Now,
    At(Offset),
}

impl FromStr for ReadFrom {
    type Err = OffsetError;

    fn from_str(text: &str) -> Result<Self, OffsetError> {
        match text {
            "-1" | "0" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            other => other.parse().map(Self::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u64 = 9_999_999_999_999_999;

    proptest! {
        #[test]
        fn text_sorts_as_offsets_do(a in (0..=MOST, 0..=MOST), b in (0..=MOST, 0..=MOST)) {
            let (a, b) = (Offset::new(StreamId(a.0), a.1), Offset::new(StreamId(b.0), b.1));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.to_string().parse(), Ok(a));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(text in "\\PC{0,40}") {
            if let Ok(offset) = text.parse::<Offset>() {
                prop_assert_eq!(offset.to_string(), text);
            }
        }
    }

    #[test]
    fn the_start_is_the_zero_that_clients_know() {
        assert_eq!(
            Offset::START.to_string(),
            "0000000000000000_0000000000000000"
        );
    }

    #[test]
    fn places_to_begin() {
        assert_eq!("-1".parse(), Ok(ReadFrom::Start));
        assert_eq!("0".parse(), Ok(ReadFrom::Start));
        assert_eq!("now".parse(), Ok(ReadFrom::Now));
        for wrong in [
            "",
            "1",
            "-2",
            "NOW",
            "0,1",
            "0 1",
            "0_0",
            "../x",
            "000000000000000\u{0661}_0000000000000000",
        ] {
            assert_eq!(wrong.parse::<ReadFrom>(), Err(OffsetError), "{wrong}");
        }
    }
}
