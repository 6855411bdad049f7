//! `GET` with `live=sse`: events for as long as the reader wants them, or about a minute; then it comes again.
//!
//! ```text
//!     read ──▶ write its events ──▶ read …
//!       │ nothing new
//!       └──▶ wait for the stream's wake-up, a sign of life, or the end
//! ```
//!
//! - The next page is read when the connection has taken the last: a reader that is stuck holds one small page and its socket.
//! - Each event has an id, so that a browser's `EventSource` resumes by itself; for one that came with a ticket, the id holds
//!   the next one. Where the stream has ended and the reader knows all of it,
//!   the answer is 204, which is how an `EventSource` learns to stay away.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_daytona_wire::Hidden;
use holm_thread_log::sse::{self, Control, Encoding, EventId, Freshness};
use holm_thread_log::{Ending, Page, ReadFrom, StreamId, StreamName, Watch};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::access::Access;
use super::error::{Result, StreamError};
use super::pages::{self, Paid};
use super::query::ReadQuery;
use super::{headers, read, touch};
use crate::accept::{Stop, reached};
use crate::state::AppState;
use crate::tokens::Slot;

/// A reader holds no more than this, unless an entry is larger.
const PAGE_BYTES: usize = 64 * 1024;
/// What an entry takes besides its data, and the event that follows it.
const EVENT_BYTES: usize = 512;
/// How long an answer lasts, and by how much it differs: readers that came together do not all come again together.
const LASTING: Duration = Duration::from_secs(55);
const LASTING_SPREAD_MILLISECONDS: u64 = 10_000;
/// How often a silent connection says that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

pub(super) async fn follow(
    state: &AppState,
    access: &Access,
    name: StreamName,
    query: ReadQuery,
    parts: &Parts,
) -> Result<Response> {
    let (slot, request) = (parts.extensions.get::<Slot>(), &parts.headers);
    let share = slot.and_then(Slot::share);
    let last_seen = headers::text(request, &headers::LAST_EVENT_ID)?.filter(|id| !id.is_empty());
    let from = match (last_seen, query.from) {
        // A browser repeats its address: what it has seen is in the header.
        (Some(id), _) => {
            let id = EventId::parse(id).map_err(|_| {
                StreamError::bad_request(
                    "offset_invalid",
                    "`Last-Event-ID` is none of the ids that this stream sent",
                )
            })?;
            ReadFrom::At(id.at)
        }
        (None, Some(from)) => from,
        (None, None) => return Err(read::offset_missing()),
    };
    let watch = state.streams.watch(&name);
    let (page, paid) = pages::read(state, share, &name, from, PAGE_BYTES).await??;
    access.check_stream(&page.stream)?;
    touch(state, &page.stream).await;
    if last_seen.is_some() && page.entries.is_empty() && page.ending() == Ending::Closed {
        return Ok((StatusCode::NO_CONTENT, [(headers::CLOSED, headers::TRUE)]).into_response());
    }
    let encoding = Encoding::of(&page.stream.content_type);
    let mut found = HeaderMap::new();
    found.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    found.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Some proxies would keep the events until there are many.
    found.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if encoding == Encoding::Base64 {
        found.insert(headers::DATA_ENCODING, HeaderValue::from_static("base64"));
    }
    let random = u64::from_str_radix(&holm_sandbox_linux::random_hex(), 16).unwrap_or_default();
    let spread = Duration::from_millis(random % LASTING_SPREAD_MILLISECONDS);
    let follower = Follower {
        state: Arc::clone(state),
        stopping: state.stopping.clone(),
        name,
        stream: page.stream.id,
        next: ReadFrom::At(page.next),
        watch,
        encoding,
        cursor: query.cursor,
        until: Instant::now() + LASTING + spread,
        first: Some(page),
        slot: slot.cloned(),
        paid,
        ticket: access.to_return.clone(),
    };
    let chunks = stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        let (chunk, is_last) = match follower.chunk().await? {
            Chunk::More(chunk) => (chunk, false),
            Chunk::Last(chunk) => (chunk, true),
        };
        let rest = (!is_last).then_some(follower);
        Some((Ok::<_, Infallible>(chunk), rest))
    });
    Ok((found, Body::from_stream(chunks)).into_response())
}

/// A reader of events.
struct Follower {
    state: AppState,
    stopping: watch::Receiver<Stop>,
    name: StreamName,
    /// Another one of the same name is not followed into.
    stream: StreamId,
    next: ReadFrom,
    watch: Watch,
    encoding: Encoding,
    cursor: Option<String>,
    until: Instant,
    /// What was read before the answer began.
    first: Option<Page>,
    /// Where the share of who reads is.
    slot: Option<Slot>,
    /// The memory of the events that are being sent.
    paid: Paid,
    /// With what the reader can come back, if it has nothing else.
    ticket: Option<Hidden>,
}

enum Chunk {
    More(Bytes),
    /// The stream has ended.
    Last(Bytes),
}

impl Follower {
    /// The next events, or none when the answer is over.
    async fn chunk(&mut self) -> Option<Chunk> {
        if let Some(page) = self.first.take() {
            return Some(self.events(&page));
        }
        // What was sent last has been taken.
        self.paid = Paid::default();
        loop {
            let (page, paid) = self.page().await?;
            if !page.entries.is_empty() || page.ending() == Ending::Closed {
                self.paid = paid;
                return Some(self.events(&page));
            }
            match self.wait().await {
                Waited::Woken => {}
                Waited::Silence => {
                    let mut chunk = Vec::new();
                    sse::write_comment(&mut chunk);
                    return Some(Chunk::More(chunk.into()));
                }
                Waited::Over => return None,
            }
        }
    }

    async fn page(&self) -> Option<(Page, Paid)> {
        let share = self.slot.as_ref().and_then(Slot::share);
        let read = pages::read(&self.state, share, &self.name, self.next, PAGE_BYTES).await;
        let (page, paid) = match read {
            Ok(Ok(found)) if found.0.stream.id == self.stream => found,
            // Deleted, or expired, and perhaps made again: the reader hears of it when it comes again.
            Ok(Ok(_) | Err(_)) => return None,
            Err(error) => {
                tracing::error!(error = %crate::error::chain(&error), "could not read on");
                return None;
            }
        };
        touch(&self.state, &page.stream).await;
        Some((page, paid))
    }

    async fn wait(&mut self) -> Waited {
        let sign_of_life = Instant::now() + SIGN_OF_LIFE;
        let (watch, stopping) = (&mut self.watch, &mut self.stopping);
        let woken = async {
            tokio::select! {
                () = watch.changed() => Waited::Woken,
                () = reached(stopping, Stop::Drain) => Waited::Over,
            }
        };
        match timeout_at(sign_of_life.min(self.until), woken).await {
            Ok(waited) => waited,
            Err(_) if Instant::now() >= self.until => Waited::Over,
            Err(_) => Waited::Silence,
        }
    }

    /// Each entry, and after it where the reader is then.
    fn events(&mut self, page: &Page) -> Chunk {
        // Of the right size at once: a stuck reader holds it for long.
        let sizes = page
            .entries
            .iter()
            .map(|entry| entry.data.len() + EVENT_BYTES);
        let mut chunk = Vec::with_capacity(sizes.sum::<usize>() + EVENT_BYTES);
        let cursor = read::cursor(self.cursor.as_deref());
        let mut control = Control {
            next: page.next,
            cursor,
            freshness: Freshness::MoreToRead,
            ending: Ending::Open,
        };
        let ticket = self.ticket.as_ref().map(Hidden::expose);
        let (last, before) = match page.entries.split_last() {
            Some((last, before)) => (Some(last), before),
            None => (None, page.entries.as_slice()),
        };
        for entry in before {
            let id = EventId {
                at: entry.next,
                ticket,
            };
            sse::write_data(&mut chunk, self.encoding, &entry.data, id);
            control.next = entry.next;
            sse::write_control(&mut chunk, control, ticket);
        }
        if let Some(entry) = last {
            let id = EventId {
                at: entry.next,
                ticket,
            };
            sse::write_data(&mut chunk, self.encoding, &entry.data, id);
        }
        let ending = page.ending();
        let control = Control {
            next: page.next,
            cursor,
            freshness: page.freshness,
            ending,
        };
        sse::write_control(&mut chunk, control, ticket);
        self.next = ReadFrom::At(page.next);
        match ending {
            Ending::Open => Chunk::More(chunk.into()),
            Ending::Closed => Chunk::Last(chunk.into()),
        }
    }
}

enum Waited {
    Woken,
    /// Nothing for a while.
    Silence,
    Over,
}
