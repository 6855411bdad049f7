//! `POST`: adds to a stream, closes it, or both.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::json::JsonError;
use holm_thread_log::{
    Append, Appended, Command, Ending, Outcome, Payload, Refusal, StreamName, Touch,
};

use super::access::{Access, Admitted, Verb};
use super::error::{Result, StreamError};
use super::{apply, headers};
use crate::state::AppState;

/// A body of JSON that is longer is taken apart beside the workers, which have others to serve.
const PARSED_AT_ONCE_BYTES: usize = 256 * 1024;

pub(super) async fn append(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    parts: &Parts,
    body: Body,
) -> Result<Response> {
    let may_append = access.check(name, Verb::Append);
    if may_append.is_err() {
        access.check(name, Verb::Heartbeat)?;
    }
    let content_type = headers::content_type(&parts.headers)?;
    let producer = headers::claim(&parts.headers)?;
    let stream_seq = headers::stream_seq(&parts.headers)?;
    let ending = headers::ending(&parts.headers)?;
    access.check_producer(producer.as_ref().map(|claim| &claim.producer))?;
    if ending == Ending::Closed {
        access.check(name, Verb::Manage)?;
    }
    let stored = access.stored(name)?;
    let whole = state.bodies.read(parts, body).await?;
    let mut malformed = None;
    let payload = match &content_type {
        _ if whole.bytes.is_empty() => None,
        None => {
            return Err(StreamError::bad_request(
                "content_type_missing",
                "say in `Content-Type` what the body is",
            ));
        }
        Some(content_type) if content_type.is_json() => match parse(&whole.bytes).await? {
            Ok(Payload::Messages(messages)) => match state.gate.admit(name, access, messages)? {
                Admitted::Append(messages) => Some(Payload::Messages(messages)),
                Admitted::Heartbeat => {
                    if producer.is_some() || ending == Ending::Closed {
                        return Err(StreamError::bad_request(
                            "heartbeat_alone",
                            "a heartbeat is no entry: send it without `Producer-Seq` and `Stream-Closed`",
                        ));
                    }
                    access.check(name, Verb::Heartbeat)?;
                    return heartbeat(state, access, stored).await;
                }
            },
            Ok(payload @ Payload::Bytes(_)) => Some(payload),
            Err(error) => {
                // Whether the stream is there, open and of JSON at all comes first, and is known to the store only:
                // it gets something short that is as wrong as the body.
                malformed = Some(error);
                Some(Payload::Bytes(Bytes::from_static(b"!")))
            }
        },
        Some(_) => Some(Payload::Bytes(whole.bytes.clone())),
    };
    may_append?;
    let append = Append {
        name: stored,
        content_type,
        payload,
        producer,
        stream_seq,
        ending,
        writer: access.writer(&state.config.limits),
        documents: Vec::new(),
    };
    let decided = apply(state, Command::Append(append)).await;
    match (decided, malformed) {
        (Ok(outcome), _) => answer(&outcome),
        (Err(error), Some(json)) if error.code == "json_invalid" => {
            Err(StreamError::of(Refusal::Json(json), &*state.gate))
        }
        (Err(error), _) => Err(error),
    }
}

/// Takes a body of JSON apart.
pub(super) async fn parse(body: &Bytes) -> Result<std::result::Result<Payload, JsonError>> {
    if body.len() <= PARSED_AT_ONCE_BYTES {
        return Ok(Payload::json(body));
    }
    let body = body.clone();
    let parsed = tokio::task::spawn_blocking(move || Payload::json(&body)).await;
    parsed.map_err(|error| {
        tracing::error!(%error, "could not parse a body");
        let message = "the server could not read the body; its log says why";
        StreamError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })
}

/// Notes that a writer lives.
async fn heartbeat(state: &AppState, access: &Access, name: StreamName) -> Result<Response> {
    let touch = Touch::Heartbeat {
        writer: access.writer(&state.config.limits),
    };
    apply(state, Command::Touch { name, touch }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn answer(outcome: &Outcome) -> Result<Response> {
    let (status, appended) = match outcome {
        Outcome::Appended(appended) if appended.producer.is_some() => (StatusCode::OK, appended),
        Outcome::Appended(appended) | Outcome::Duplicate(appended) | Outcome::Closed(appended) => {
            (StatusCode::NO_CONTENT, appended)
        }
        Outcome::Created(_)
        | Outcome::Exists(_)
        | Outcome::Deleted
        | Outcome::Touched
        | Outcome::Expired(_)
        | Outcome::Written => return Err(super::unexpected(outcome)),
    };
    Ok((status, position(appended)).into_response())
}

/// Where a stream stands, as headers.
fn position(appended: &Appended) -> HeaderMap {
    let mut found = HeaderMap::new();
    found.insert(headers::NEXT_OFFSET, headers::value(appended.tail));
    if let Some(producer) = appended.producer {
        found.insert(headers::PRODUCER_EPOCH, headers::value(producer.epoch));
        found.insert(headers::PRODUCER_SEQ, headers::value(producer.last_seq));
    }
    if appended.ending == Ending::Closed {
        found.insert(headers::CLOSED, headers::TRUE);
    }
    found
}
