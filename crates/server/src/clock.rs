//! Time as this server writes it.

use jiff::{SignedDuration, Timestamp};

/// Milliseconds since 1970.
pub(crate) type Millis = i64;

pub(crate) fn now() -> Millis {
    Timestamp::now().as_millisecond()
}

/// RFC 3339 with milliseconds and `Z`, as Daytona writes it.
pub(crate) fn rfc3339(time: Millis) -> String {
    let time = Timestamp::from_millisecond(time).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

/// A time some minutes later.
pub(crate) fn minutes_after(time: Millis, minutes: i64) -> Millis {
    let minutes = SignedDuration::from_mins(minutes).as_millis();
    time.saturating_add(i64::try_from(minutes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_daytonas() {
        assert_eq!(rfc3339(1_794_771_988_471), "2026-11-15T19:46:28.471Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(minutes_after(1_000, 2), 121_000);
    }
}
