//! `GET`: what a stream holds, at once or as soon as there is something.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::sse::Freshness;
use holm_thread_log::{Ending, JITTER_SECONDS_MAX, Page, ReadFrom, StreamName, etag, json};
use tokio::time::{Instant, timeout_at};

use super::access::{Access, Verb};
use super::error::{Result, StreamError};
use super::pages::{self, Paid};
use super::query::{Form, Live, ReadQuery};
use super::{follow, headers, now, touch};
use crate::accept::{Stop, reached};
use crate::state::AppState;
use crate::tokens::Slot;

/// How much one answer holds, unless its first entry is larger.
const PAGE_BYTES: usize = 1024 * 1024;

pub(super) async fn read(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    parts: &Parts,
) -> Result<Response> {
    access.check(name, Verb::Read)?;
    let query = ReadQuery::parse(parts.uri.query())?;
    let stored = access.stored(name)?;
    match query.live {
        Live::No => catch_up(state, access, &stored, &query, parts).await,
        Live::LongPoll => long_poll(state, access, &stored, &query, parts).await,
        Live::Events => follow::follow(state, access, stored, query, parts).await,
    }
}

async fn catch_up(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    query: &ReadQuery,
    parts: &Parts,
) -> Result<Response> {
    let (share, request) = (Slot::share_of(parts), &parts.headers);
    let from = query.from.unwrap_or(ReadFrom::Start);
    let (page, paid) = pages::read(state, share, name, from, PAGE_BYTES).await??;
    access.check_stream(&page.stream)?;
    touch(state, &page.stream).await;
    if from == ReadFrom::Now {
        let (mut found, body) = content(&page, Form::of(request)?)?;
        found.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok((found, body).into_response());
    }
    answer(&page, paid, from, request, HeaderMap::new())
}

/// Waits until there is something, the stream has ended, or it took too long.
async fn long_poll(
    state: &AppState,
    access: &Access,
    name: &StreamName,
    query: &ReadQuery,
    parts: &Parts,
) -> Result<Response> {
    let (share, request) = (Slot::share_of(parts), &parts.headers);
    let Some(mut from) = query.from else {
        return Err(offset_missing());
    };
    let until = Instant::now() + state.config.long_poll_timeout;
    let mut stopping = state.stopping.clone();
    let mut watch = state.streams.watch(name);
    let (page, paid) = loop {
        let (page, paid) = pages::read(state, share, name, from, PAGE_BYTES).await??;
        access.check_stream(&page.stream)?;
        touch(state, &page.stream).await;
        if !page.entries.is_empty() || page.ending() == Ending::Closed {
            break (page, paid);
        }
        from = ReadFrom::At(page.next);
        let woken = async {
            tokio::select! {
                () = watch.changed() => Some(()),
                () = reached(&mut stopping, Stop::Drain) => None,
            }
        };
        if timeout_at(until, woken).await.ok().flatten().is_none() {
            break (page, paid);
        }
    };
    let mut found = HeaderMap::new();
    let cursor = cursor(query.cursor.as_deref());
    found.insert(headers::CURSOR, headers::value(cursor));
    if page.entries.is_empty() {
        position(&mut found, &page);
        found.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok((StatusCode::NO_CONTENT, found).into_response());
    }
    answer(&page, paid, from, request, found)
}

pub(super) fn offset_missing() -> StreamError {
    StreamError::bad_request(
        "offset_missing",
        "say with `offset` from where to read: `-1` is the start, `now` the end",
    )
}

/// The cursor of an answer to a reader that waits.
pub(super) fn cursor(client: Option<&str>) -> u64 {
    let jitter_seconds = client.map_or(1, |_| {
        let random = holm_sandbox_linux::random_hex();
        let random = u64::from_str_radix(&random, 16).unwrap_or_default();
        1 + random % JITTER_SECONDS_MAX
    });
    holm_thread_log::cursor(now(), client, jitter_seconds)
}

/// A page that may be known to the reader already.
fn answer(
    page: &Page,
    paid: Paid,
    from: ReadFrom,
    request: &HeaderMap,
    mut found: HeaderMap,
) -> Result<Response> {
    let form = Form::of(request)?;
    let mut tag = etag::etag(page.stream.id, from, page.next, page.ending());
    if form == Form::Lines {
        // Another body of the same data.
        tag.insert_str(1, "n:");
    }
    let known = headers::text(request, &IF_NONE_MATCH)?;
    found.insert(ETAG, headers::value(&tag));
    // What lies before the end never changes; at the end one has to ask.
    let caching = match page.freshness {
        Freshness::MoreToRead => "private, max-age=60, stale-while-revalidate=300",
        Freshness::UpToDate => "private, no-cache",
    };
    found.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if known.is_some_and(|known| etag::is_known(known, &tag)) {
        position(&mut found, page);
        return Ok((StatusCode::NOT_MODIFIED, found).into_response());
    }
    let (more, body) = content(page, form)?;
    found.extend(more);
    Ok(paid.until_sent((found, body).into_response()))
}

/// Where the reader is then, as headers.
fn position(found: &mut HeaderMap, page: &Page) {
    found.insert(headers::NEXT_OFFSET, headers::value(page.next));
    if page.freshness == Freshness::UpToDate {
        found.insert(headers::UP_TO_DATE, headers::TRUE);
    }
    if page.ending() == Ending::Closed {
        found.insert(headers::CLOSED, headers::TRUE);
    }
}

fn content(page: &Page, form: Form) -> Result<(HeaderMap, Body)> {
    let mut found = HeaderMap::new();
    position(&mut found, page);
    let content_type = &page.stream.content_type;
    if !content_type.is_json() {
        found.insert(CONTENT_TYPE, headers::value(content_type));
        return Ok((found, Body::from(page.body.clone())));
    }
    found.insert(VARY, HeaderValue::from_static("accept"));
    let body = match form {
        Form::Array => {
            found.insert(CONTENT_TYPE, headers::value(content_type));
            page.body.clone()
        }
        Form::Lines => {
            let kind = HeaderValue::from_static("application/x-ndjson");
            found.insert(CONTENT_TYPE, kind);
            let entries = page.entries.iter().map(|entry| &entry.data);
            json::lines(entries).map_err(|error| {
                tracing::error!(%error, stream = %page.stream.name, "a stored entry is malformed");
                let message = "an entry of this stream cannot be read; the server's log says why";
                StreamError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
            })?
        }
    };
    Ok((found, Body::from(body)))
}
