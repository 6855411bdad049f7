//! What threads add to the protocol of streams.

use async_trait::async_trait;
use axum::http::StatusCode;
use holm_thread_log::threads::{self, STREAM_PREFIX, ThreadId};
use holm_thread_log::{Message, StreamName, Timestamp};

use super::failure::status_of_rule;
use super::threads_of::Threads;
use crate::error::chain;
use crate::streams::access::{Access, Admitted, Denied, Gate, Scope, ThreadScope, Verb};
use crate::tokens::{Claims, Invalid, Operation, Taken, looks_like_token, verify};

#[async_trait]
impl Gate for Threads {
    async fn token(&self, token: &str, now: Timestamp) -> Result<Option<Access>, Denied> {
        if !looks_like_token(token) {
            return Ok(None);
        }
        let claims = verify(&self.keys, token, now).await.map_err(invalid)?;
        Ok(Some(opened_by_token(claims)?))
    }

    async fn ticket(&self, ticket: &str, now: Timestamp) -> Result<Option<Access>, Denied> {
        let taken = self.tickets.take(ticket, now).await;
        let taken = taken.map_err(|error| failed(&error))?;
        taken.map(opened_by_ticket).transpose()
    }

    fn status_of(&self, code: &str) -> StatusCode {
        status_of_rule(code)
    }

    fn admit(
        &self,
        name: &StreamName,
        _access: &Access,
        messages: Vec<Message>,
    ) -> Result<Admitted, Denied> {
        if ThreadId::of_stream(name).is_none() {
            return Ok(Admitted::Append(messages));
        }
        match threads::admit(messages) {
            Ok(threads::Admitted::Entries(messages)) => Ok(Admitted::Append(messages)),
            Ok(threads::Admitted::Heartbeat) => Ok(Admitted::Heartbeat),
            Err(error) => {
                let code = threads::code::ENTRY_INVALID;
                Err(Denied::bad_request(code, chain(&error)))
            }
        }
    }
}

fn opened_by_token(claims: Claims) -> Result<Access, Denied> {
    let verbs = claims.ops.iter().map(|operation| match operation {
        Operation::Append => Verb::Append,
        Operation::Heartbeat => Verb::Heartbeat,
        Operation::Read => Verb::Read,
    });
    let producer = claims.pid.parse().map_err(|_| invalid(Invalid::Unknown))?;
    Ok(Access {
        organization: claims.org,
        scope: Scope::Thread(ThreadScope {
            name: stream_name(&claims.thr)?,
            stream: claims.sid,
            verbs: verbs.collect(),
            producer: Some(producer),
            run: Some(claims.sub.to_string()),
        }),
        to_return: None,
    })
}

fn opened_by_ticket(taken: Taken) -> Result<Access, Denied> {
    let Taken { ticket, to_return } = taken;
    Ok(Access {
        organization: ticket.organization,
        scope: Scope::Thread(ThreadScope {
            name: stream_name(&ticket.thread)?,
            stream: ticket.stream,
            verbs: vec![Verb::Read],
            producer: None,
            run: None,
        }),
        to_return: Some(to_return),
    })
}

fn stream_name(thread: &ThreadId) -> Result<StreamName, Denied> {
    let name = format!("{STREAM_PREFIX}{thread}").parse();
    name.map_err(|_| invalid(Invalid::Unknown))
}

pub(super) fn invalid(invalid: Invalid) -> Denied {
    let code = match &invalid {
        Invalid::Unknown => "token_invalid",
        Invalid::Expired => "token_expired",
        Invalid::NotYet => "token_not_yet_valid",
        Invalid::Keys(error) => return failed(error),
    };
    Denied::unauthorized(code, invalid.to_string())
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Denied {
    tracing::error!(error = chain(error), "could not check a token");
    Denied {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "internal",
        message: "the server could not find out who asks; its log says why".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use bytes::Bytes;
    use holm_thread_log::{MemoryStore, StreamId};

    use super::*;
    use crate::config::ServerLimits;
    use crate::tokens::{Grant, MintedFor, TTL_SECONDS_MAX, Ticket, mint_stream_write_jwt};

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn threads() -> Threads {
        Threads::new(Arc::new(MemoryStore::default()), PathBuf::new())
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp(NOW.0 + seconds * 1000)
    }

    async fn minted(threads: &Threads, operations: &[Operation]) -> String {
        let grant = Grant {
            run: "run-1".parse().unwrap(),
            producer: "box-1".parse().unwrap(),
            operations: operations.to_vec(),
            ttl_seconds: TTL_SECONDS_MAX,
        };
        let id = "t1".parse().unwrap();
        let thread = MintedFor {
            id: &id,
            stream: StreamId(7),
        };
        let minted = mint_stream_write_jwt(&threads.keys, "house", thread, grant, NOW).await;
        minted.unwrap().jwt.into_inner()
    }

    #[tokio::test]
    async fn a_token_is_an_access_to_one_stream() {
        let threads = threads();
        let token = minted(&threads, &[Operation::Append]).await;
        let access = threads.token(&token, NOW).await.unwrap().unwrap();
        assert_eq!(access.organization, "house");
        let own = "holm-thread-t1".parse().unwrap();
        assert_eq!(access.check(&own, Verb::Append), Ok(()));
        for verb in [Verb::Read, Verb::Heartbeat, Verb::Manage] {
            assert_eq!(
                access.check(&own, verb).unwrap_err().status,
                StatusCode::FORBIDDEN
            );
        }
        let foreign = "holm-thread-t2".parse().unwrap();
        assert!(access.check(&foreign, Verb::Append).is_err());
        let writer = access.writer(&ServerLimits::default()).unwrap();
        assert_eq!(
            (writer.run.as_str(), writer.stream),
            ("run-1", Some(StreamId(7)))
        );
        assert!(
            access
                .check_producer(Some(&"box-2".parse().unwrap()))
                .is_err()
        );
        // What is no token may be a key.
        assert_eq!(threads.token("holm_0123456789abcdef", NOW).await, Ok(None));
    }

    #[tokio::test]
    async fn the_reason_is_for_machines() {
        let threads = threads();
        let token = minted(&threads, &Operation::OF_A_RUN).await;
        let refused = async |token: &str, now: Timestamp| {
            let denied = threads.token(token, now).await.unwrap_err();
            assert_eq!(denied.status, StatusCode::UNAUTHORIZED);
            denied.code
        };
        assert_eq!(refused(&token, after(7_260)).await, "token_expired");
        assert_eq!(refused(&token, after(-61)).await, "token_not_yet_valid");
        assert_eq!(refused("eyJ.eyJ.x", NOW).await, "token_invalid");
        assert!(threads.token(&token, after(7_259)).await.is_ok());
    }

    #[tokio::test]
    async fn a_ticket_is_an_access_for_one_reading() {
        let threads = threads();
        let ticket = Ticket {
            organization: "house".to_owned(),
            thread: "t1".parse().unwrap(),
            stream: StreamId(7),
            until: after(7_200).0,
        };
        let (text, _) = threads.tickets.issue(&ticket, NOW).await.unwrap();
        let access = threads.ticket(text.expose(), NOW).await.unwrap().unwrap();
        let own = "holm-thread-t1".parse().unwrap();
        assert_eq!(access.check(&own, Verb::Read), Ok(()));
        for verb in [Verb::Append, Verb::Heartbeat, Verb::Manage] {
            assert!(access.check(&own, verb).is_err());
        }
        assert_eq!(threads.ticket(text.expose(), NOW).await, Ok(None));
        // The next one opens as much, once.
        let next = access.to_return.unwrap();
        let again = threads.ticket(next.expose(), NOW).await.unwrap().unwrap();
        assert_eq!(again.scope, access.scope);
        assert_eq!(threads.ticket(next.expose(), NOW).await, Ok(None));
    }

    #[test]
    fn streams_that_are_no_threads_take_anything() {
        let access = Access {
            organization: "house".to_owned(),
            scope: Scope::Whole,
            to_return: None,
        };
        let messages = || vec![Message::from(Bytes::from_static(b"1"))];
        let admit = |name: &str| threads().admit(&name.parse().unwrap(), &access, messages());
        assert_eq!(admit("events"), Ok(Admitted::Append(messages())));
        assert_eq!(admit("holm-thread-a").unwrap_err().code, "entry_invalid");
    }
}
