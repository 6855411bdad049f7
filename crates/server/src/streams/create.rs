//! `PUT`: makes a stream, or a fork of one.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::{
    Command, ContentType, Create, Ending, Fork, Outcome, Payload, Refusal, StreamName,
};

use super::access::{Access, Admitted, Verb};
use super::append::parse;
use super::error::{Result, StreamError};
use super::{address, apply, headers, now};
use crate::state::AppState;

pub(super) async fn create(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    parts: &Parts,
    body: Body,
) -> Result<Response> {
    access.check(name, Verb::Manage)?;
    let content_type = headers::content_type(&parts.headers)?;
    let lifetime = headers::lifetime(&parts.headers)?;
    let ending = headers::ending(&parts.headers)?;
    let fork = fork(access, &parts.headers)?;
    let stored = access.stored(name)?;
    let whole = state.bodies.read(parts, body).await?;
    let payload = if whole.bytes.is_empty() {
        None
    } else {
        // What the body is, is known from its source if the request does not say it.
        let kind = match (&content_type, &fork) {
            (Some(content_type), _) => Some(content_type.clone()),
            (None, Some(fork)) => source_type(state, fork).await?,
            (None, None) => None,
        };
        if kind.is_some_and(|kind| kind.is_json()) {
            let parsed = parse(&whole.bytes).await?;
            let payload =
                parsed.map_err(|error| StreamError::of(Refusal::Json(error), &*state.gate))?;
            Some(admit(state, access, name, payload)?)
        } else {
            Some(Payload::Bytes(whole.bytes.clone()))
        }
    };
    let create = Create {
        name: stored,
        content_type,
        lifetime,
        ending,
        payload,
        fork,
        writer: access.writer(&state.config.limits),
        documents: Vec::new(),
    };
    let outcome = apply(state, Command::Create(create)).await?;
    let (status, stream) = match &outcome {
        Outcome::Created(stream) => (StatusCode::CREATED, stream),
        Outcome::Exists(stream) => (StatusCode::OK, stream),
        Outcome::Appended(_)
        | Outcome::Duplicate(_)
        | Outcome::Closed(_)
        | Outcome::Deleted
        | Outcome::Touched
        | Outcome::Expired(_)
        | Outcome::Written => return Err(super::unexpected(&outcome)),
    };
    let mut found = HeaderMap::new();
    found.insert(CONTENT_TYPE, headers::value(&stream.content_type));
    found.insert(headers::NEXT_OFFSET, headers::value(stream.tail()));
    if stream.ending == Ending::Closed {
        found.insert(headers::CLOSED, headers::TRUE);
    }
    if status == StatusCode::CREATED {
        let root = address::root(parts.uri.path());
        let place = format!("{}{root}{name}", state.public_url(&parts.headers));
        found.insert(LOCATION, headers::value(place));
    }
    Ok((status, found).into_response())
}

fn admit(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    payload: Payload,
) -> Result<Payload> {
    let messages = match payload {
        Payload::Messages(messages) if !messages.is_empty() => messages,
        empty @ Payload::Messages(_) => return Ok(empty),
        bytes @ Payload::Bytes(_) => return Ok(bytes),
    };
    match state.gate.admit(name, access, messages)? {
        Admitted::Append(messages) => Ok(Payload::Messages(messages)),
        Admitted::Heartbeat => Ok(Payload::Messages(Vec::new())),
    }
}

/// What a fork is to be made of.
fn fork(access: &Access, headers: &HeaderMap) -> Result<Option<Fork>> {
    let source = headers::text(headers, &headers::FORKED_FROM)?;
    let at = headers::text(headers, &headers::FORK_OFFSET)?;
    let sub_offset = headers::text(headers, &headers::FORK_SUB_OFFSET)?;
    let wrong = |message| StreamError::bad_request("fork_offset", message);
    let Some(source) = source else {
        return match (at, sub_offset) {
            (None, None) => Ok(None),
            (_, _) => Err(wrong(
                "`Stream-Fork-Offset` and `Stream-Fork-Sub-Offset` need `Stream-Forked-From`",
            )),
        };
    };
    let source = address::source(source)?;
    access.check(&source, Verb::Read)?;
    let at = match at {
        None => None,
        Some(text) => {
            let offset = text.parse();
            Some(offset.map_err(|_| {
                wrong("`Stream-Fork-Offset` is no offset: use one from `Stream-Next-Offset`")
            })?)
        }
    };
    let sub_offset = match sub_offset {
        None => 0,
        Some(text) => number(text).ok_or_else(|| {
            wrong("`Stream-Fork-Sub-Offset` is a whole number without leading zeros")
        })?,
    };
    Ok(Some(Fork {
        source: access.stored(&source)?,
        at,
        sub_offset,
    }))
}

fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    (is_digits && !has_leading_zero)
        .then(|| text.parse().ok())
        .flatten()
}

/// What the source of a fork holds; the store says what is wrong with a source that cannot be seen.
async fn source_type(state: &AppState, fork: &Fork) -> Result<Option<ContentType>> {
    let seen = state.streams.head(&fork.source, now()).await?;
    Ok(seen.ok().map(|stream| stream.content_type))
}
