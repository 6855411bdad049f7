//! What an answer to a batch means: a decision over plain data.

use std::time::Duration;

use crate::ClientError;
use crate::error::Prospect;
use crate::streams::Accepted;

use super::Stopped;

#[derive(Debug)]
pub(super) enum Verdict {
    /// The server has it, since now or before.
    Acknowledged,
    TryAgain {
        asked: Option<Duration>,
        why: ClientError,
    },
    /// The server lost what it had confirmed before, and has not this batch either.
    Forgotten(Stopped),
    Stop(Stopped),
}

/// The numbers of a batch that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) epoch: u64,
    pub(super) seq: u64,
}

pub(super) fn judge(sent: Sent, result: Result<Accepted, ClientError>) -> Verdict {
    match result {
        Ok(accepted) => {
            let answer = accepted.producer;
            // We have one batch under way: nothing after it can be known to the server.
            let is_ours = answer.epoch.is_none_or(|epoch| epoch == sent.epoch)
                && answer.last_seq.is_none_or(|seq| seq == sent.seq);
            if is_ours {
                Verdict::Acknowledged
            } else {
                Verdict::Stop(Stopped::Diverged { seq: sent.seq })
            }
        }
        Err(error) => refused(sent, error),
    }
}

fn refused(sent: Sent, error: ClientError) -> Verdict {
    if error.prospect() == Prospect::MayPass {
        let asked = error.api().and_then(|error| error.retry_after);
        return Verdict::TryAgain { asked, why: error };
    }
    let ClientError::Api(api) = error else {
        return Verdict::Stop(Stopped::Failed {
            source: std::sync::Arc::new(error),
        });
    };
    let answer = api.producer;
    match (api.status, answer.epoch, answer.expected_seq) {
        (403, Some(current), _) if current > sent.epoch => Verdict::Stop(Stopped::Fenced {
            ours: sent.epoch,
            current,
        }),
        (409, _, Some(expected)) if !answer.is_closed => Verdict::Forgotten(Stopped::Forgotten {
            expected,
            next: sent.seq,
        }),
        (409, _, _) if answer.is_closed => Verdict::Stop(Stopped::Closed),
        _ => Verdict::Stop(Stopped::Refused(*api)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ApiError, ProducerAnswer};
    use crate::streams::Made;

    const SENT: Sent = Sent { epoch: 5, seq: 7 };

    fn accepted(epoch: Option<u64>, last_seq: Option<u64>) -> Result<Accepted, ClientError> {
        Ok(Accepted {
            stored: Made::Now,
            producer: ProducerAnswer {
                epoch,
                last_seq,
                ..ProducerAnswer::default()
            },
        })
    }

    fn answer(status: u16, producer: ProducerAnswer) -> Result<Accepted, ClientError> {
        Err(ClientError::Api(Box::new(ApiError {
            action: "append".into(),
            status,
            code: None,
            message: String::new(),
            retry_after: Some(Duration::from_secs(3)),
            producer,
        })))
    }

    #[test]
    fn confirmations_have_to_be_ours() {
        for (epoch, last_seq, is_ours) in [
            (Some(5), Some(7), true),
            (None, None, true),
            (Some(5), Some(8), false),
            (Some(5), Some(6), false),
            (Some(6), Some(7), false),
        ] {
            let verdict = judge(SENT, accepted(epoch, last_seq));
            assert_eq!(
                matches!(verdict, Verdict::Acknowledged),
                is_ours,
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn what_passes_is_tried_again_and_when_the_server_says() {
        for status in [408, 429, 500, 502, 503, 504, 507] {
            let verdict = judge(SENT, answer(status, ProducerAnswer::default()));
            let Verdict::TryAgain { asked, .. } = verdict else {
                panic!("{status}: {verdict:?}");
            };
            assert_eq!(asked, Some(Duration::from_secs(3)));
        }
    }

    #[test]
    fn what_stands_has_a_name() {
        let with = |change: fn(&mut ProducerAnswer)| {
            let mut producer = ProducerAnswer::default();
            change(&mut producer);
            producer
        };
        let stop = |status, producer| match judge(SENT, answer(status, producer)) {
            Verdict::Stop(stopped) | Verdict::Forgotten(stopped) => stopped,
            other @ (Verdict::Acknowledged | Verdict::TryAgain { .. }) => panic!("{other:?}"),
        };
        let fenced = stop(403, with(|answer| answer.epoch = Some(9)));
        assert!(matches!(
            fenced,
            Stopped::Fenced {
                ours: 5,
                current: 9
            }
        ));
        let gap = stop(409, with(|answer| answer.expected_seq = Some(0)));
        assert!(matches!(
            gap,
            Stopped::Forgotten {
                expected: 0,
                next: 7
            }
        ));
        let closed = stop(409, with(|answer| answer.is_closed = true));
        assert!(matches!(closed, Stopped::Closed));
        for status in [400, 401, 403, 404, 409, 410, 413] {
            let refused = stop(status, ProducerAnswer::default());
            assert!(matches!(refused, Stopped::Refused(_)), "{status}");
        }
    }
}
