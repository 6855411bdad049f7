//! Durable streams over HTTP, at `/v1/stream/{name}` and its alias `/api/stream/{name}`.
//!
//! ```text
//! request ──▶ access (who asks, what may they) ──▶ one file for each operation ──▶ StreamStore
//! ```
//!
//! - `access` finds out who asks. The name of a stream is stored below its organisation's id, so nobody can name another's.
//! - `create`, `append`, `show`, `read` and `follow` are the operations. What streams mean is decided in `thread-log`: here requests
//!   become commands, and decisions become answers.
//! - `subscriptions` is what lies below the protocol's own name, `__ds`.
//! - `body` and `pages` keep what is received and sent in bounds; a reader that takes nothing is cut off by the connection (`accept`).

pub(crate) mod access;
mod address;
mod append;
pub(crate) mod body;
mod create;
mod error;
mod follow;
mod headers;
pub(crate) mod pages;
pub(crate) mod place;
mod query;
mod read;
mod show;
pub(crate) mod subscriptions;

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::{Command, Outcome, StreamName, StreamState, Timestamp, Touch};

use crate::accept::WritePatience;
use crate::clock;
use crate::state::AppState;
use crate::tokens::keep_place;
use access::{Access, Verb};
use address::Target;
use error::{Result, StreamError};

const METHODS: &str = "GET, HEAD, POST, PUT, DELETE, OPTIONS";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether a path is one of a stream, or could only be one.
pub(crate) fn are_below(path: &str) -> bool {
    let below = |root: &str| {
        let rest = path.strip_prefix(root.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    address::ROOTS.into_iter().any(below)
}

pub(crate) async fn answer(state: &AppState, request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        let mut response = StatusCode::NO_CONTENT.into_response();
        for_browsers(response.headers_mut(), Answer::Preflight);
        return response;
    }
    // Nobody keeps the answer to a change for others: who is no browser need not have what browsers ask for.
    let is_for_all = matches!(*request.method(), Method::GET | Method::HEAD);
    let kind = if is_for_all || request.headers().contains_key(ORIGIN) {
        Answer::ToBrowser
    } else {
        Answer::ToOthers
    };
    let handle = async |request| {
        handle(state, request)
            .await
            .unwrap_or_else(IntoResponse::into_response)
    };
    let mut response = keep_place(request, handle).await;
    for_browsers(response.headers_mut(), kind);
    response
}

/// Who an answer is for, and to what: whether they may ask, or what they want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Preflight,
    ToBrowser,
    ToOthers,
}

async fn handle(state: &AppState, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    if let Some(patience) = parts.extensions.get::<WritePatience>() {
        patience.limit();
    }
    let name = match address::target(parts.uri.path())? {
        Target::Stream(name) => name,
        Target::Control(path) => return subscriptions::handle(state, &parts, body, path).await,
    };
    let access = Access::find(state, &parts).await?;
    match parts.method {
        Method::GET => read::read(state, &access, &name, &parts).await,
        Method::HEAD => show::show(state, &access, &name).await,
        Method::POST => append::append(state, &access, &name, &parts, body).await,
        Method::PUT => create::create(state, &access, &name, &parts, body).await,
        Method::DELETE => delete(state, &access, &name).await,
        _ => Err(StreamError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method",
            format!("a stream takes {METHODS}"),
        )
        .with(ALLOW, METHODS)),
    }
}

async fn delete(state: &AppState, access: &Access, name: &StreamName) -> Result<Response> {
    access.check(name, Verb::Manage)?;
    let name = access.stored(name)?;
    apply(state, Command::Delete { name }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn now() -> Timestamp {
    Timestamp(clock::now())
}

/// Has the store do something.
async fn apply(state: &AppState, command: Command) -> Result<Outcome> {
    let decision = state.streams.apply(command, now()).await?;
    decision.map_err(|refusal| StreamError::of(refusal, &*state.gate))
}

/// Renews the lifetime of a stream that was read.
async fn touch(state: &AppState, stream: &StreamState) {
    if !stream.lifetime.needs_touch(stream.last_access, now()) {
        return;
    }
    let command = Command::Touch {
        name: stream.name.clone(),
        touch: Touch::Read,
    };
    // What was read is good all the same.
    if let Err(error) = apply(state, command).await {
        tracing::debug!(message = error.message, "a read did not renew its stream");
    }
}

/// The store answered a question that was not asked.
fn unexpected(outcome: &Outcome) -> StreamError {
    tracing::error!(?outcome, "the store answered something else");
    let message = "the server misunderstood itself; its log says how";
    StreamError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
}

/// What browsers need. There are no cookies here, so any page may ask that has a key.
fn for_browsers(headers: &mut HeaderMap, kind: Answer) {
    let mut insert = |name: HeaderName, text: &'static str| {
        headers.insert(name, HeaderValue::from_static(text));
    };
    insert(X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(RESOURCE_POLICY, "cross-origin");
    if kind == Answer::ToOthers {
        return;
    }
    insert(ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    insert(ACCESS_CONTROL_EXPOSE_HEADERS, headers::EXPOSED);
    if kind == Answer::Preflight {
        insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        insert(ACCESS_CONTROL_ALLOW_HEADERS, headers::ALLOWED);
        insert(ACCESS_CONTROL_MAX_AGE, "86400");
    }
}
