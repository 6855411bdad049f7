//! Whether to try again, and when: decisions over plain data, without a clock.

use std::time::Duration;

use crate::ClientError;

/// How often and how patiently a call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is made at most, the first time included.
    pub attempts_max: u32,
    /// The pause after the first failure; it doubles each time.
    pub pause_first: Duration,
    pub pause_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Every failure is told at once.
    pub const NEVER: Self = Self {
        attempts_max: 1,
        pause_first: Duration::ZERO,
        pause_max: Duration::ZERO,
    };
}

/// Whether a call may be made twice without doing anything twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Reading, or setting something to a value.
    Harmless,
    /// Only when it is certain that nothing has happened.
    Harmful,
    /// Its content was a stream, and that is spent.
    Impossible,
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
    pub(crate) fn spread(self, pause: Duration) -> Duration {
        pause / 2 + (pause / 2).mul_f64(f64::from(self.0) / f64::from(u32::MAX))
    }
}

/// The pause before the next try; `None` gives up. `attempt` counts from 1, `left` is what remains of the deadline.
pub(crate) fn pause_before_next(
    policy: RetryPolicy,
    repeat: Repeat,
    attempt: u32,
    error: &ClientError,
    left: Duration,
    jitter: Jitter,
) -> Option<Duration> {
    if attempt >= policy.attempts_max || !is_worth_it(repeat, error) {
        return None;
    }
    let doubled = policy
        .pause_first
        .saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)))
        .min(policy.pause_max);
    let pause = match error.api().and_then(|error| error.retry_after) {
        // Never before the time that the server names, and not all at once then.
        Some(asked) => asked + jitter.spread(policy.pause_first),
        None => jitter.spread(doubled),
    };
    // A pause that ends after the deadline only hides why.
    (pause < left).then_some(pause)
}

fn is_worth_it(repeat: Repeat, error: &ClientError) -> bool {
    let (is_harmless, is_repeatable) = match repeat {
        Repeat::Harmless => (true, true),
        Repeat::Harmful => (false, true),
        Repeat::Impossible => (false, false),
    };
    match error {
        ClientError::Connect { .. } => is_repeatable,
        ClientError::Interrupted { .. } => is_harmless,
        ClientError::Api(error) => match error.status {
            429 => is_repeatable,
            500 | 502 | 503 | 504 => is_harmless,
            _ => false,
        },
        ClientError::Invalid { .. }
        | ClientError::Deadline { .. }
        | ClientError::Refused { .. }
        | ClientError::Protocol { .. }
        | ClientError::TooLarge { .. }
        | ClientError::Local { .. }
        | ClientError::SandboxState { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiError;

    const LONG: Duration = Duration::from_secs(600);

    fn answer(status: u16, retry_after: Option<Duration>) -> ClientError {
        ClientError::Api(Box::new(ApiError {
            action: "test".to_owned(),
            status,
            origin: None,
            code: None,
            message: String::new(),
            retry_after,
        }))
    }

    fn pause(
        repeat: Repeat,
        attempt: u32,
        error: &ClientError,
        left: Duration,
    ) -> Option<Duration> {
        let policy = RetryPolicy::default();
        pause_before_next(policy, repeat, attempt, error, left, Jitter(u32::MAX))
    }

    #[test]
    fn only_what_cannot_have_happened_is_repeated_when_it_matters() {
        let connect = ClientError::Connect {
            action: String::new(),
            source: "refused".into(),
        };
        let interrupted = ClientError::Interrupted {
            action: String::new(),
            source: "reset".into(),
        };
        let deadline = ClientError::Deadline {
            action: String::new(),
            after: LONG,
        };
        for (error, harmless, harmful, impossible) in [
            (connect, true, true, false),
            (interrupted, true, false, false),
            (deadline, false, false, false),
            (answer(429, None), true, true, false),
            (answer(500, None), true, false, false),
            (answer(502, None), true, false, false),
            (answer(503, None), true, false, false),
            (answer(504, None), true, false, false),
            (answer(501, None), false, false, false),
            (answer(404, None), false, false, false),
            (answer(409, None), false, false, false),
        ] {
            let is_repeated = |repeat| pause(repeat, 1, &error, LONG).is_some();
            assert_eq!(is_repeated(Repeat::Harmless), harmless, "{error:?}");
            assert_eq!(is_repeated(Repeat::Harmful), harmful, "{error:?}");
            assert_eq!(is_repeated(Repeat::Impossible), impossible, "{error:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let policy = RetryPolicy {
            attempts_max: 10,
            ..RetryPolicy::default()
        };
        let pauses: Vec<u128> = (1..=10)
            .map_while(|attempt| {
                let error = answer(503, None);
                let (repeat, jitter) = (Repeat::Harmless, Jitter(u32::MAX));
                pause_before_next(policy, repeat, attempt, &error, LONG, jitter)
            })
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn the_server_says_how_long_and_the_deadline_whether() {
        let asked = Duration::from_secs(7);
        let error = answer(429, Some(asked));
        assert!(pause(Repeat::Harmful, 1, &error, LONG).unwrap() >= asked);
        assert_eq!(pause(Repeat::Harmful, 1, &error, asked), None);
    }

    #[test]
    fn jitter_stays_within_half() {
        let pause = Duration::from_millis(100);
        assert_eq!(Jitter(0).spread(pause), pause / 2);
        assert_eq!(Jitter(u32::MAX).spread(pause), pause);
        let random = Jitter::random().spread(pause);
        assert!(random >= pause / 2 && random <= pause, "{random:?}");
    }
}
