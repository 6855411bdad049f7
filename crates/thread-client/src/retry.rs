//! How long to wait before the next try: a decision over plain data, without a clock.

use std::time::Duration;

/// Pauses that double up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    pub first: Duration,
    pub most: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            most: Duration::from_secs(20),
        }
    }
}

/// A server that asks for more than this is not obeyed: somebody waits for us too.
const ASKED_MAX: Duration = Duration::from_secs(300);

impl BackOff {
    /// The pause after so many failures in a row, the last one included. `asked` is what the server wants.
    pub(crate) fn pause(self, failures: u32, asked: Option<Duration>, jitter: Jitter) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(doublings));
        let own = jitter.spread(doubled.min(self.most));
        match asked {
            // Never before the time that the server names, and not all at once then.
            Some(asked) => asked.min(ASKED_MAX) + jitter.spread(self.first),
            None => own,
        }
    }
}

/// A random number, from 0 to all ones; equally likely all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jitter(pub(crate) u32);

impl Jitter {
    pub(crate) fn random() -> Self {
        let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
        // The upper bits hold the variant of the identifier, the lower ones are random.
        Self((low & u64::from(u32::MAX)).try_into().unwrap_or(u32::MAX))
    }

    /// Between a half and the whole of it, so that clients that failed together do not come back together.
    fn spread(self, pause: Duration) -> Duration {
        pause / 2 + (pause / 2).mul_f64(f64::from(self.0) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let back_off = BackOff {
            first: Duration::from_millis(100),
            most: Duration::from_secs(1),
        };
        let pauses: Vec<u128> = (1..=6)
            .map(|failures| {
                let pause = back_off.pause(failures, None, Jitter(u32::MAX));
                pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(
            back_off.pause(u32::MAX, None, Jitter(0)),
            Duration::from_millis(500)
        );
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it() {
        let back_off = BackOff::default();
        let asked = Duration::from_secs(7);
        assert!(back_off.pause(1, Some(asked), Jitter(0)) >= asked);
        let absurd = Duration::from_secs(1_000_000);
        let pause = back_off.pause(1, Some(absurd), Jitter::random());
        assert!(pause <= ASKED_MAX + back_off.first, "{pause:?}");
    }
}
