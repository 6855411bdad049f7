//! Times, and how long a stream lives.

use std::fmt;

/// Milliseconds since 1970. Given by callers: nothing here reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn parse_rfc3339(text: &str) -> Result<Self, ExpiryError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| ExpiryError::Time)?;
        Ok(Self(time.as_millisecond()))
    }

    fn plus_seconds(self, seconds: u64) -> Self {
        let milliseconds = i64::try_from(seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        Self(self.0.saturating_add(milliseconds))
    }
}

/// As RFC 3339, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(formatter, "{time:.3}"),
            Err(_) => self.0.fmt(formatter),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpiryError {
    #[error("a time to live is a whole number of seconds, without sign, leading zeros or point")]
    Ttl,
    #[error("an expiry time is written like 2026-11-16T04:30:00Z")]
    Time,
}

/// How long a stream lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lifetime {
    Forever,
    /// For so long after the last read or write.
    Sliding {
        seconds: u64,
    },
    Until(Timestamp),
}

impl Lifetime {
    /// Reads the value of `Stream-TTL`.
    pub fn parse_ttl(text: &str) -> Result<Self, ExpiryError> {
        let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = text.len() > 1 && text.starts_with('0');
        if !is_digits || has_leading_zero {
            return Err(ExpiryError::Ttl);
        }
        let seconds = text.parse().map_err(|_| ExpiryError::Ttl)?;
        Ok(Self::Sliding { seconds })
    }

    /// When it ends, if nobody uses the stream before.
    pub fn deadline(self, last_access: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Forever => None,
            Self::Sliding { seconds } => Some(last_access.plus_seconds(seconds)),
            Self::Until(time) => Some(time),
        }
    }

    /// Whether a read has to be told to the store ([`Command::Touch`](crate::Command::Touch)). Reads that follow each other
    /// within a tenth of the lifetime are not: the stream lives at most that much shorter.
    pub fn needs_touch(self, last_access: Timestamp, now: Timestamp) -> bool {
        match self {
            Self::Forever | Self::Until(_) => false,
            Self::Sliding { seconds } => {
                let grain = i64::try_from(seconds)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(100);
                now.0.saturating_sub(last_access.0) >= grain.min(60_000)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_794_830_400_000);

    #[test]
    fn times_are_read_and_written() {
        assert_eq!(Timestamp::parse_rfc3339("2026-11-16T12:00:00Z"), Ok(NOON));
        assert_eq!(
            Timestamp::parse_rfc3339("2026-11-16T14:00:00.000+02:00"),
            Ok(NOON)
        );
        assert_eq!(NOON.to_string(), "2026-11-16T12:00:00.000Z");
        for wrong in ["", "not-a-timestamp", "2026-11-16", "1794830400"] {
            assert_eq!(
                Timestamp::parse_rfc3339(wrong),
                Err(ExpiryError::Time),
                "{wrong}"
            );
        }
    }

    #[test]
    fn lifetimes_in_seconds() {
        assert_eq!(
            Lifetime::parse_ttl("0"),
            Ok(Lifetime::Sliding { seconds: 0 })
        );
        assert_eq!(
            Lifetime::parse_ttl("3600"),
            Ok(Lifetime::Sliding { seconds: 3600 })
        );
        for wrong in [
            "",
            "+1",
            "-1",
            "03",
            "00",
            "1.0",
            "1e3",
            " 1",
            "abc",
            "99999999999999999999999",
        ] {
            assert_eq!(
                Lifetime::parse_ttl(wrong),
                Err(ExpiryError::Ttl),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn ends() {
        assert_eq!(Lifetime::Forever.deadline(NOON), None);
        let sliding = Lifetime::Sliding { seconds: 2 };
        assert_eq!(sliding.deadline(NOON), Some(Timestamp(NOON.0 + 2000)));
        let endless = Lifetime::Sliding { seconds: u64::MAX };
        assert_eq!(endless.deadline(NOON), Some(Timestamp(i64::MAX)));
        assert_eq!(Lifetime::Until(NOON).deadline(Timestamp(0)), Some(NOON));
    }

    #[test]
    fn reads_in_a_row_are_one_write() {
        let sliding = Lifetime::Sliding { seconds: 10 };
        assert!(!sliding.needs_touch(NOON, Timestamp(NOON.0 + 999)));
        assert!(sliding.needs_touch(NOON, Timestamp(NOON.0 + 1000)));
        assert!(!Lifetime::Forever.needs_touch(NOON, Timestamp(i64::MAX)));
    }
}
