//! Entries of a thread, for those who do not speak the protocol of streams.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use holm_thread_log::threads::{Admitted, admit};
use holm_thread_log::{
    Append, Appended, Command, ContentType, Ending, Outcome, Payload, ReadFrom, Touch,
    sse::Freshness,
};
use serde_json::json as value;

use super::asking::{Asking, Subject};
use super::failure::{self, coded};
use super::threads_of::Threads;
use super::wire::{AppendedEntries, Entry, EntryPage, Failure};
use crate::api::Pairs;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::streams::access::Verb;
use crate::streams::pages;
use crate::tokens::Slot;

const PAGE_BYTES_DEFAULT: usize = 1024 * 1024;
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const READ_AT_ONCE_BYTES: usize = 256 * 1024;

/// Entries from an offset on. To wait for more, read the thread's stream.
#[utoipa::path(get, path = "/threads/{id}/entries", tag = "entries", security(("key" = []), ("token" = ["read"])), params(
    ("id" = String, Path),
    ("offset" = Option<String>, Query, description = "`nextOffset` of the page before; from the start if left out"),
    ("limitBytes" = Option<usize>, Query, description = "how large the page may be, 1 MiB if left out; one request's entries come together in any case"),
), responses(
    (status = 200, body = EntryPage),
    (status = 400, description = "the offset is none of this thread's", body = Failure),
    (status = 403, description = "a token for another thread, or without `read`", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn list_entries(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
    slot: Option<Extension<Slot>>,
    query: Pairs,
) -> Result<Response> {
    let subject = asking.thread(&id, Verb::Read)?;
    let from = match query.get("offset") {
        None => ReadFrom::Start,
        Some(text) => {
            let from: Result<ReadFrom, _> = text.parse();
            from.map_err(|error| ApiError::bad_request(error.to_string()))?
        }
    };
    let bytes_max = query.parsed("limitBytes")?.unwrap_or(PAGE_BYTES_DEFAULT);
    if bytes_max > PAGE_BYTES_MAX {
        let message = format!("`limitBytes` has to be at most {PAGE_BYTES_MAX}");
        return Err(ApiError::bad_request(message));
    }
    let share = slot.as_ref().and_then(|slot| slot.share());
    let read = pages::read(&state, share, &subject.stream, from, bytes_max).await;
    let read = read.map_err(failure::page)?;
    let (page, paid) = read.map_err(|unseen| failure::unseen(&id, unseen))?;
    subject.check(&page.stream)?;
    let about = value!({
        "nextOffset": page.next.to_string(),
        "upToDate": page.freshness == Freshness::UpToDate,
        "closed": page.ending() == Ending::Closed,
    });
    // Entries are passed on in their own bytes.
    let about = about.to_string();
    let mut body = Vec::from(&b"{\"entries\":"[..]);
    body.extend_from_slice(&page.body);
    body.push(b',');
    body.extend_from_slice(about.get(1..).unwrap_or("}").as_bytes());
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(paid.until_sent(response))
}

/// Adds one entry, or several at once: all of them or none. Entries whose ids are there already are not stored again.
#[utoipa::path(post, path = "/threads/{id}/entries", tag = "entries", security(("key" = []), ("token" = ["append"])),
    params(("id" = String, Path)), request_body(content = Vec<Entry>, description = "a list, or one entry"), responses(
    (status = 200, body = AppendedEntries),
    (status = 204, description = "only heartbeats, which are not stored"),
    (status = 400, description = "what is no entry", body = Failure),
    (status = 403, description = "a token for another thread or without `append`, or its run has ended", body = Failure),
    (status = 404, body = Failure),
    (status = 409, description = "the thread is closed, or another run works on it", body = Failure),
    (status = 507, description = "the thread is as large as a token may make it, or the disk is full", body = Failure),
))]
pub(super) async fn append_entries(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let whole = state.bodies.read(&parts, body).await;
    let whole = whole.map_err(|error| coded(error.status, error.code, error.message))?;
    if parts.headers.contains_key("producer-id") {
        return Err(ApiError::bad_request(
            "producers write to the thread's stream; here retries are known by the ids of entries",
        ));
    }
    let admitted = admitted(&id, whole.bytes.clone()).await?;
    let verb = match &admitted {
        Admitted::Entries(_) => Verb::Append,
        Admitted::Heartbeat => Verb::Heartbeat,
    };
    let subject = asking.thread(&id, verb)?;
    Ok(match append(&state.threads, &subject, admitted).await? {
        Some(appended) => Json(appended).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// What a body brings. A long one is taken apart beside the workers, which have others to serve.
async fn admitted(id: &str, body: Bytes) -> Result<Admitted> {
    let read = |body: &Bytes| match Payload::json(body) {
        Ok(Payload::Messages(messages)) => Ok(admit(messages)),
        Ok(Payload::Bytes(_)) => Ok(admit(Vec::new())),
        Err(error) => Err(error),
    };
    let read = if body.len() <= READ_AT_ONCE_BYTES {
        read(&body)
    } else {
        tokio::task::spawn_blocking(move || read(&body)).await?
    };
    read.map_err(|error| failure::refused(id, &error.into()))?
        .map_err(|error| failure::not_admitted(&error))
}

/// Says that the thread's run lives. Nothing is stored but the time.
#[utoipa::path(post, path = "/threads/{id}/heartbeat", tag = "entries", security(("key" = []), ("token" = ["heartbeat"])),
    params(("id" = String, Path)), responses(
    (status = 204, description = "noted"),
    (status = 403, description = "a token for another thread or without `heartbeat`, or its run has ended", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn heartbeat(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let subject = asking.thread(&id, Verb::Heartbeat)?;
    beat(&state.threads, &subject).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn beat(threads: &Threads, subject: &Subject) -> Result<()> {
    let touch = Touch::Heartbeat {
        writer: subject.writer.clone(),
    };
    let command = Command::Touch {
        name: subject.stream.clone(),
        touch,
    };
    threads.apply(&subject.id, command).await.map(drop)
}

/// Appends what was sent; `None` for heartbeats.
pub(super) async fn append(
    threads: &Threads,
    subject: &Subject,
    admitted: Admitted,
) -> Result<Option<AppendedEntries>> {
    let Admitted::Entries(messages) = admitted else {
        beat(threads, subject).await?;
        return Ok(None);
    };
    let command = Command::Append(Append {
        name: subject.stream.clone(),
        content_type: Some(ContentType::json()),
        payload: Some(Payload::Messages(messages)),
        producer: None,
        stream_seq: None,
        ending: Ending::Open,
        writer: subject.writer.clone(),
        documents: Vec::new(),
    });
    let done = |appended: Appended, duplicate| AppendedEntries {
        next_offset: appended.tail.to_string(),
        duplicate,
    };
    match threads.apply(&subject.id, command).await? {
        Outcome::Appended(appended) => Ok(Some(done(appended, false))),
        Outcome::Duplicate(appended) | Outcome::Closed(appended) => Ok(Some(done(appended, true))),
        Outcome::Created(_)
        | Outcome::Exists(_)
        | Outcome::Deleted
        | Outcome::Touched
        | Outcome::Expired(_)
        | Outcome::Written => Ok(None),
    }
}
