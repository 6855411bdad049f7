//! What threads add to the protocol of streams.

use async_trait::async_trait;
use axum::http::StatusCode;
use holm_thread_log::threads::{self, STREAM_PREFIX, ThreadId};
use holm_thread_log::{Message, StreamName, Timestamp};

use super::failure::status_of_rule;
use super::threads_of::Threads;
use crate::error::chain;
use crate::streams::access::{Access, Admitted, Denied, Gate, Scope, ThreadScope, Verb};
use crate::tokens::{Claims, Invalid, Operation, Ticket, looks_like_token, verify};

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
        let ticket = taken.map_err(|error| failed(&error))?;
        ticket.map(opened_by_ticket).transpose()
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
            verbs: verbs.collect(),
            producer: Some(producer),
            run: Some(claims.sub.to_string()),
        }),
    })
}

fn opened_by_ticket(ticket: Ticket) -> Result<Access, Denied> {
    Ok(Access {
        organization: ticket.organization,
        scope: Scope::Thread(ThreadScope {
            name: stream_name(&ticket.thread)?,
            verbs: vec![Verb::Read],
            producer: None,
            run: None,
        }),
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
