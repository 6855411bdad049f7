//! Writers whose retries are stored once.
//!
//! A producer numbers its requests. What was accepted last is kept beside the data, in the same transaction; so a request that
//! comes again is known, also after a crash, and a writer that was replaced (its epoch is lower) is kept out.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Integers that JavaScript can count to.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(Arc<str>);

const ID_LENGTH_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    #[error("a producer's id is 1 to {ID_LENGTH_MAX} bytes of visible ASCII")]
    Id,
    #[error("a producer's epoch and sequence are whole numbers from 0 to {NUMBER_MAX}")]
    Number,
}

impl ProducerId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ProducerId {
    type Err = ProducerError;

    fn from_str(text: &str) -> Result<Self, ProducerError> {
        let is_good = (1..=ID_LENGTH_MAX).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte == b' ' || byte.is_ascii_graphic());
        is_good.then(|| Self(text.into())).ok_or(ProducerError::Id)
    }
}

/// Reads an epoch or a sequence: digits and nothing else.
pub fn parse_producer_number(text: &str) -> Result<u64, ProducerError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ProducerError::Number);
    }
    let number: u64 = text.parse().map_err(|_| ProducerError::Number)?;
    (number <= NUMBER_MAX)
        .then_some(number)
        .ok_or(ProducerError::Number)
}

/// What a request says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub producer: ProducerId,
    pub epoch: u64,
    pub seq: u64,
}

/// What was accepted last from one producer on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    pub epoch: u64,
    pub last_seq: u64,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Store it, together with this state.
    Accept(ProducerState),
    /// Stored before; this is the state.
    Duplicate(ProducerState),
    /// A later incarnation of the producer has written.
    StaleEpoch { current: u64 },
    /// A new epoch counts from 0.
    EpochMustStartAtZero,
    /// What lies between has not arrived.
    Gap { expected: u64, received: u64 },
}

pub fn judge(state: Option<ProducerState>, claim: &Claim) -> Verdict {
    let first = ProducerState {
        epoch: claim.epoch,
        last_seq: 0,
    };
    let Some(state) = state else {
        return match claim.seq {
            0 => Verdict::Accept(first),
            received => Verdict::Gap {
                expected: 0,
                received,
            },
        };
    };
    if claim.epoch < state.epoch {
        return Verdict::StaleEpoch {
            current: state.epoch,
        };
    }
    if claim.epoch > state.epoch {
        return match claim.seq {
            0 => Verdict::Accept(first),
            _ => Verdict::EpochMustStartAtZero,
        };
    }
    if claim.seq <= state.last_seq {
        return Verdict::Duplicate(state);
    }
    let expected = state.last_seq + 1;
    if claim.seq == expected {
        Verdict::Accept(ProducerState {
            last_seq: expected,
            ..state
        })
    } else {
        Verdict::Gap {
            expected,
            received: claim.seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(epoch: u64, seq: u64) -> Claim {
        Claim {
            producer: "p".parse().unwrap(),
            epoch,
            seq,
        }
    }

    #[test]
    fn verdicts() {
        let state = ProducerState {
            epoch: 3,
            last_seq: 7,
        };
        let next = ProducerState {
            epoch: 3,
            last_seq: 8,
        };
        let table = [
            (
                None,
                (5, 0),
                Verdict::Accept(ProducerState {
                    epoch: 5,
                    last_seq: 0,
                }),
            ),
            (
                None,
                (0, 2),
                Verdict::Gap {
                    expected: 0,
                    received: 2,
                },
            ),
            (Some(state), (3, 8), Verdict::Accept(next)),
            (Some(state), (3, 7), Verdict::Duplicate(state)),
            (Some(state), (3, 0), Verdict::Duplicate(state)),
            (
                Some(state),
                (3, 9),
                Verdict::Gap {
                    expected: 8,
                    received: 9,
                },
            ),
            (Some(state), (2, 8), Verdict::StaleEpoch { current: 3 }),
            (
                Some(state),
                (4, 0),
                Verdict::Accept(ProducerState {
                    epoch: 4,
                    last_seq: 0,
                }),
            ),
            (Some(state), (4, 1), Verdict::EpochMustStartAtZero),
        ];
        for (state, (epoch, seq), verdict) in table {
            assert_eq!(
                judge(state, &claim(epoch, seq)),
                verdict,
                "{state:?} {epoch}/{seq}"
            );
        }
    }

    proptest! {
        /// However requests are repeated and mixed up, each (epoch, seq) is accepted at most once, in order.
        #[test]
        fn nothing_is_accepted_twice(claims in prop::collection::vec((0_u64..4, 0_u64..6), 0..60)) {
            let mut state = None;
            let mut accepted = Vec::new();
            for (epoch, seq) in claims {
                if let Verdict::Accept(next) = judge(state, &claim(epoch, seq)) {
                    prop_assert_eq!((next.epoch, next.last_seq), (epoch, seq));
                    accepted.push((epoch, seq));
                    state = Some(next);
                }
            }
            prop_assert!(accepted.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(parse_producer_number("9007199254740991"), Ok(NUMBER_MAX));
        for wrong in [
            "",
            "-1",
            "+1",
            "1.0",
            "1e3",
            " 1",
            "abc",
            "9007199254740992",
            "99999999999999999999",
        ] {
            assert_eq!(
                parse_producer_number(wrong),
                Err(ProducerError::Number),
                "{wrong:?}"
            );
        }
        for wrong in ["", "a\nb", "\u{e9}"] {
            assert_eq!(
                wrong.parse::<ProducerId>(),
                Err(ProducerError::Id),
                "{wrong:?}"
            );
        }
    }
}
