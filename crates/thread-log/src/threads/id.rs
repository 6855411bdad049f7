//! Names of threads and of their streams.

use std::fmt;
use std::str::FromStr;

use crate::name::StreamName;

/// A thread, within its organisation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(String);

/// What the names of threads' streams begin with.
pub const STREAM_PREFIX: &str = "holm-thread-";

const LENGTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a thread is 1 to {LENGTH_MAX} letters, digits, `-` and `_`")]
pub struct ThreadIdError;

impl ThreadId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The thread whose stream has this name, as clients use it.
    pub fn of_stream(name: &StreamName) -> Option<Self> {
        name.as_str().strip_prefix(STREAM_PREFIX)?.parse().ok()
    }

    /// The organisation and the thread of a stream, as it is stored: `ORGANISATION/holm-thread-ID`.
    pub fn of_stored(name: &StreamName) -> Option<(&str, Self)> {
        let (organization, name) = name.as_str().split_once('/')?;
        let id = name.strip_prefix(STREAM_PREFIX)?.parse().ok()?;
        Some((organization, id))
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ThreadId {
    type Err = ThreadIdError;

    fn from_str(text: &str) -> Result<Self, ThreadIdError> {
        let is_good = (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        is_good.then(|| Self(text.to_owned())).ok_or(ThreadIdError)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}
