//! Cursors, which keep caches from answering a waiting reader with the same empty answer for ever.

use crate::expiry::Timestamp;

/// 9 October 2024, from which the protocol counts.
const EPOCH_MILLISECONDS: i64 = 1_728_432_000_000;
const INTERVAL_MILLISECONDS: i64 = 20_000;

/// The most seconds that a cursor jumps ahead.
pub const JITTER_SECONDS_MAX: u64 = 3600;

/// The cursor of an answer: the interval of now, or one after the client's if that is not behind.
///
/// `jitter_seconds` is a random number from 1 to [`JITTER_SECONDS_MAX`]; others are brought into these bounds.
pub fn cursor(now: Timestamp, client: Option<&str>, jitter_seconds: u64) -> u64 {
    let interval = (now.0 - EPOCH_MILLISECONDS).max(0) / INTERVAL_MILLISECONDS;
    let interval = interval.unsigned_abs();
    match client.and_then(|cursor| cursor.parse::<u64>().ok()) {
        Some(client) if client >= interval => {
            let jitter = jitter_seconds
                .clamp(1, JITTER_SECONDS_MAX)
                .div_ceil(INTERVAL_MILLISECONDS.unsigned_abs() / 1000);
            client.saturating_add(jitter)
        }
        Some(_) | None => interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(EPOCH_MILLISECONDS + 1000 * INTERVAL_MILLISECONDS + 5);

    #[test]
    fn cursors_never_go_back() {
        assert_eq!(cursor(NOW, None, 9), 1000);
        assert_eq!(cursor(NOW, Some("999"), 9), 1000);
        assert_eq!(cursor(NOW, Some("nonsense"), 9), 1000);
        assert_eq!(cursor(NOW, Some("1000"), 1), 1001);
        assert_eq!(cursor(NOW, Some("1000"), 3600), 1180);
        assert_eq!(cursor(NOW, Some("5000"), 0), 5001);
        assert_eq!(cursor(Timestamp(0), None, 1), 0);
    }
}
