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
use holm_thread_log::{Message, NameError, ProducerId, StreamName, Timestamp};

use super::headers;
use crate::auth;
use crate::clock;
use crate::state::AppState;

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
                return Ok(access);
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
            return access.ok_or_else(|| {
                Denied::unauthorized("ticket_invalid", "the ticket is unknown or was used before")
            });
        }
        Err(Denied::unauthorized(
            "key_missing",
            "a key or a token is needed: send `Authorization: Bearer KEY`",
        ))
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

    /// Who writes, for the rules.
    pub(crate) fn writer(&self) -> Option<String> {
        match &self.scope {
            Scope::Whole => None,
            Scope::Thread(thread) => thread.run.clone(),
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
        assert_eq!(access.writer().as_deref(), Some("run-7"));
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
