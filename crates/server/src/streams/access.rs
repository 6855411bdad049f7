//! Who asks about streams, and what they may do.
//!
//! An API key reaches all streams of its organisation. A token reaches one stream, in the ways that it says. Another organisation's
//! stream cannot be named, so it is missing; a stream that a token was not made for is forbidden.

use std::fmt;

use async_trait::async_trait;
use axum::http::StatusCode;
use axum::http::request::Parts;
use holm_daytona_wire::Hidden;
use holm_thread_log::sse::EventId;
use holm_thread_log::{
    Message, NameError, ProducerId, Refusal, StreamId, StreamName, StreamState, Timestamp, Writer,
};

use super::headers;
use crate::auth;
use crate::clock;
use crate::config::ServerLimits;
use crate::state::AppState;
use crate::tokens::{Holder, Slot};

/// What one request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    /// The organisation's id.
    pub(crate) organization: String,
    pub(crate) scope: Scope,
    /// The next ticket, for a reader that came with one.
    pub(crate) to_return: Option<Hidden>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything of the organisation.
    Whole,
    Thread(ThreadScope),
}

/// One stream, as a token has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadScope {
    /// As clients name it.
    pub(crate) name: StreamName,
    /// Which one of that name: after a deletion, another may have it.
    pub(crate) stream: StreamId,
    pub(crate) verbs: Vec<Verb>,
    /// What `Producer-Id` has to be, so that a box cannot fence another's writer.
    pub(crate) producer: Option<ProducerId>,
    /// The run that the token was made for: told to the rules as the writer, which know whether it has ended.
    pub(crate) run: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Append,
    Heartbeat,
    /// Makes, closes, deletes and forks.
    Manage,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Heartbeat => "heartbeat",
            Self::Manage => "manage",
        }
    }
}

/// Why a request is not let in. The code is for machines, the message for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Denied {
    pub(crate) fn unauthorized(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code,
            message: message.into(),
        }
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            code: "forbidden",
            message: message.into(),
        }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code,
            message: message.into(),
        }
    }

    /// For who was let in to a stream that is no more, at the one that has its name now.
    pub(crate) fn replaced() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            code: "thread_replaced",
            message: Refusal::Replaced.to_string(),
        }
    }

    fn internal() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal",
            message: "the server could not find out who asks; its log says why".to_owned(),
        }
    }
}

/// What threads add to streams: their tokens, and what their entries look like.
#[async_trait]
pub(crate) trait Gate: fmt::Debug + Send + Sync {
    /// What a bearer token opens. `None`: it is none of ours, and may be an API key.
    async fn token(&self, token: &str, now: Timestamp) -> Result<Option<Access>, Denied>;

    /// What a ticket from a query string opens, for `EventSource`, which cannot send headers. It opens once.
    async fn ticket(&self, ticket: &str, now: Timestamp) -> Result<Option<Access>, Denied>;

    /// Checks messages for a stream, as clients name it, and gives them their keys.
    fn admit(
        &self,
        name: &StreamName,
        access: &Access,
        messages: Vec<Message>,
    ) -> Result<Admitted, Denied>;

    /// What a refusal by the rules is over HTTP, by its code.
    fn status_of(&self, code: &str) -> StatusCode;
}

/// What becomes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admitted {
    Append(Vec<Message>),
    /// They only say that their writer lives: nothing is added to the stream.
    Heartbeat,
}

/// The query parameter with a ticket.
const TICKET_PARAMETER: &str = "ticket";

impl Access {
    /// Who asks, by the request's `Authorization` or its ticket.
    pub(crate) async fn find(state: &AppState, parts: &Parts) -> Result<Self, Denied> {
        let now = Timestamp(clock::now());
        if let Some(token) = auth::bearer(parts) {
            if let Some(access) = state.gate.token(token, now).await? {
                return access.enter(state, parts, Holder::Token);
            }
            let caller = auth::caller(state, token).map_err(|error| {
                tracing::error!(error = error.message, "could not look an API key up");
                Denied::internal()
            })?;
            let wrong = || Denied::unauthorized("key_invalid", "the API key is not valid");
            return caller.map_or_else(
                || Err(wrong()),
                |caller| {
                    Ok(Self {
                        organization: caller.organization,
                        scope: Scope::Whole,
                        to_return: None,
                    })
                },
            );
        }
        // A browser that comes back repeats its address: the ticket there is used up, and the next one is in the header.
        let in_header = headers::text(&parts.headers, &headers::LAST_EVENT_ID);
        let in_header = in_header.ok().flatten().and_then(|id| {
            let ticket = EventId::parse(id).ok()?.ticket?;
            Some(ticket.to_owned())
        });
        let in_query = || auth::query_parameter(parts.uri.query(), TICKET_PARAMETER);
        if let Some(ticket) = in_header.or_else(in_query) {
            let access = state.gate.ticket(&ticket, now).await?;
            let access = access.ok_or_else(|| {
                Denied::unauthorized("ticket_invalid", "the ticket is unknown or was used before")
            })?;
            return access.enter(state, parts, Holder::Ticket);
        }
        Err(Denied::unauthorized(
            "key_missing",
            "a key or a token is needed: send `Authorization: Bearer KEY`",
        ))
    }

    /// Takes a place among the requests of its thread, until the request is answered.
    fn enter(self, state: &AppState, parts: &Parts, holder: Holder) -> Result<Self, Denied> {
        let (Scope::Thread(thread), Some(slot)) = (&self.scope, parts.extensions.get::<Slot>())
        else {
            return Err(Denied::internal());
        };
        let place = state.shares.enter(thread.stream, holder);
        let is_full = place.is_none();
        slot.fill(place);
        if is_full {
            return Err(Denied {
                status: StatusCode::TOO_MANY_REQUESTS,
                code: "too_many_requests",
                message: "as many requests of this thread are in flight as may be at once: wait for one to end".to_owned(),
            });
        }
        Ok(self)
    }

    /// Whether it may do this with the stream of this name.
    pub(crate) fn check(&self, name: &StreamName, verb: Verb) -> Result<(), Denied> {
        let Scope::Thread(thread) = &self.scope else {
            return Ok(());
        };
        if thread.name != *name {
            return Err(Denied::forbidden("the token is for another thread"));
        }
        if !thread.verbs.contains(&verb) {
            return Err(Denied::forbidden(format!(
                "the token does not allow `{}`",
                verb.as_str()
            )));
        }
        Ok(())
    }

    /// Whether it may write as this producer, or as none.
    pub(crate) fn check_producer(&self, producer: Option<&ProducerId>) -> Result<(), Denied> {
        let Scope::Thread(thread) = &self.scope else {
            return Ok(());
        };
        match (&thread.producer, producer) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(Denied::forbidden(format!(
                "the token writes as the producer `{ours}` only"
            ))),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Whether it was let in to this stream, and not only to one that had the same name.
    pub(crate) fn check_stream(&self, stream: &StreamState) -> Result<(), Denied> {
        match &self.scope {
            Scope::Thread(thread) if thread.stream != stream.id => Err(Denied::replaced()),
            Scope::Thread(_) | Scope::Whole => Ok(()),
        }
    }

    /// Who writes, if it is not the owner.
    pub(crate) fn writer(&self, limits: &ServerLimits) -> Option<Writer> {
        match &self.scope {
            Scope::Whole => None,
            Scope::Thread(thread) => Some(Writer {
                run: thread.run.clone().unwrap_or_default(),
                stream: Some(thread.stream),
                stream_bytes_max: limits.thread_bytes_max,
            }),
        }
    }

    /// Under which name a stream is stored.
    pub(crate) fn stored(&self, name: &StreamName) -> Result<StreamName, NameError> {
        stored_name(&self.organization, name)
    }
}

/// Under which name an organisation's stream is stored.
pub(crate) fn stored_name(organization: &str, name: &StreamName) -> Result<StreamName, NameError> {
    format!("{organization}/{name}").parse()
}

/// Whose stream it is, and how its owner names it.
pub(crate) fn shown_name(stored: &StreamName) -> Option<(&str, StreamName)> {
    let (organization, name) = stored.as_str().split_once('/')?;
    Some((organization, name.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StreamName {
        text.parse().unwrap()
    }

    fn of_thread(verbs: Vec<Verb>, producer: Option<&str>) -> Access {
        Access {
            organization: "one".to_owned(),
            scope: Scope::Thread(ThreadScope {
                name: name("holm-thread-1"),
                stream: StreamId(1),
                verbs,
                producer: producer.map(|id| id.parse().unwrap()),
                run: Some("run-7".to_owned()),
            }),
            to_return: None,
        }
    }

    #[test]
    fn a_token_opens_one_thread_in_the_ways_that_it_says() {
        let access = of_thread(vec![Verb::Append], None);
        assert_eq!(access.check(&name("holm-thread-1"), Verb::Append), Ok(()));
        let writer = access.writer(&ServerLimits::default()).unwrap();
        assert_eq!(
            (writer.run.as_str(), writer.stream),
            ("run-7", Some(StreamId(1)))
        );
        let foreign = access.check(&name("holm-thread-2"), Verb::Append);
        assert_eq!(foreign.unwrap_err().status, StatusCode::FORBIDDEN);
        let refused = access.check(&name("holm-thread-1"), Verb::Read);
        assert_eq!(
            refused.unwrap_err().message,
            "the token does not allow `read`"
        );
    }

    #[test]
    fn a_token_writes_as_its_own_producer() {
        let id = |text: &str| text.parse::<ProducerId>().unwrap();
        let access = of_thread(vec![Verb::Append], Some("box-1"));
        assert_eq!(access.check_producer(Some(&id("box-1"))), Ok(()));
        assert!(access.check_producer(Some(&id("box-2"))).is_err());
        let whole = Access {
            scope: Scope::Whole,
            ..access
        };
        assert_eq!(whole.check_producer(Some(&id("box-2"))), Ok(()));
    }

    #[test]
    fn names_lie_below_their_organisation() {
        let stored = stored_name("one", &name("a/b")).unwrap();
        assert_eq!(stored.as_str(), "one/a/b");
        assert_eq!(shown_name(&stored), Some(("one", name("a/b"))));
        assert_eq!(shown_name(&name("one")), None);
    }
}
