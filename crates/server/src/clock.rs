//! Time as this server writes it.

use std::time::Duration;

use jiff::Timestamp;

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

/// A time some minutes later, where a minute is as long as the server's settings say.
pub(crate) fn minutes_after(time: Millis, minutes: impl Into<i64>, minute: Duration) -> Millis {
    let minute = Millis::try_from(minute.as_millis()).unwrap_or(Millis::MAX);
    time.saturating_add(minute.saturating_mul(minutes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_daytonas() {
        assert_eq!(rfc3339(1_794_771_988_471), "2026-11-15T19:46:28.471Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        let minute = Duration::from_secs(60);
        assert_eq!(minutes_after(1_000, 2, minute), 121_000);
        assert_eq!(minutes_after(i64::MAX, 2, minute), i64::MAX);
    }
}
