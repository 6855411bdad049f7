//! Who asks about threads.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holm_daytona_wire::Hidden;
use holm_thread_log::threads::{STREAM_PREFIX, ThreadId};
use holm_thread_log::{StreamName, StreamState, Writer};

use super::failure::{coded, denied, no_such_thread};
use crate::auth;
use crate::config::ServerLimits;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::streams::access::{Access, Denied, Scope, Verb, stored_name};

/// A key or a token. Tickets are for streams only.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    access: Access,
    bearer: Hidden,
    limits: ServerLimits,
}

/// A thread that somebody may use in the way that was asked for. Whether it exists is not known yet.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) organization: String,
    pub(super) id: ThreadId,
    /// Its stream, as it is stored.
    pub(super) stream: StreamName,
    /// Who writes, if it is not the owner.
    pub(super) writer: Option<Writer>,
}

impl Subject {
    /// Whether the thread that was found is the one that was meant: a token is not for a later one of the same id.
    pub(super) fn check(&self, stream: &StreamState) -> Result<()> {
        let meant = self.writer.as_ref().and_then(|writer| writer.stream);
        match meant {
            Some(id) if id != stream.id => Err(denied(Denied::replaced())),
            Some(_) | None => Ok(()),
        }
    }
}

impl FromRequestParts<AppState> for Asking {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        let Some(bearer) = auth::bearer(parts).map(Hidden::from) else {
            return Err(denied(Denied::unauthorized(
                "key_missing",
                "a key or a token is needed: send `Authorization: Bearer KEY`",
            )));
        };
        let access = Access::find(state, parts).await.map_err(denied)?;
        Ok(Self {
            access,
            bearer,
            limits: state.config.limits,
        })
    }
}

impl Asking {
    /// The organisation, for those who may do everything in it.
    pub(super) fn with_key(&self) -> Result<&str> {
        match &self.access.scope {
            Scope::Whole => Ok(&self.access.organization),
            Scope::Thread(_) => Err(coded(
                axum::http::StatusCode::FORBIDDEN,
                "key_needed",
                "a token cannot do this: use an API key",
            )),
        }
    }

    /// The thread of a path, for those who may do everything with it.
    pub(super) fn thread_with_key(&self, id: &str) -> Result<Subject> {
        self.with_key()?;
        self.subject(id)
    }

    /// The thread of a path, if it may be used so.
    pub(super) fn thread(&self, id: &str, verb: Verb) -> Result<Subject> {
        let subject = self.subject(id)?;
        let name = shown_name(&subject.id)?;
        self.access.check(&name, verb).map_err(denied)?;
        Ok(subject)
    }

    /// The thread of a path, if it is the token's, whatever it may do there.
    pub(super) fn thread_of_token(&self, id: &str) -> Result<Subject> {
        let verb = match &self.access.scope {
            Scope::Whole => None,
            Scope::Thread(thread) => thread.verbs.first().copied(),
        };
        self.thread(id, verb.unwrap_or(Verb::Manage))
    }

    /// What was shown, for who reads it again.
    pub(super) fn bearer(&self) -> &str {
        self.bearer.expose()
    }

    fn subject(&self, id: &str) -> Result<Subject> {
        // What cannot be a thread's id is none, and not more.
        let id: ThreadId = id.parse().map_err(|_| no_such_thread(id))?;
        let organization = self.access.organization.clone();
        let name = shown_name(&id)?;
        let stream = stored_name(&organization, &name).map_err(|_| no_such_thread(id.as_str()))?;
        Ok(Subject {
            organization,
            id,
            stream,
            writer: self.access.writer(&self.limits),
        })
    }
}

/// The thread's stream, as clients name it.
fn shown_name(id: &ThreadId) -> Result<StreamName> {
    let name = format!("{STREAM_PREFIX}{id}").parse();
    name.map_err(|_| no_such_thread(id.as_str()))
}
