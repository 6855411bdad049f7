//! What every request passes through: an id for it, a span in the log, and the figures.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tracing::Instrument;

use crate::metrics::{OpenGuard, Part};
use crate::state::AppState;

const REQUEST_ID: &str = "x-request-id";
/// A client's own id may be this long.
const ID_LENGTH_MAX: usize = 64;

/// A request failed because of the database: left in its answer for the figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreFailed;

/// Which part of the server answered: left in the answer where the path does not say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredBy(pub(crate) Part);

/// Gives a request its id, and watches it until the answer has ended.
///
/// Only the path is logged: queries carry tokens.
pub(crate) async fn watch(
    state: &AppState,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let id = id_of(&request);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("request", id, %method, path);
    let open = state.metrics.request_opened();
    let began = Instant::now();
    let mut response = next(request).instrument(span.clone()).await;
    let duration = began.elapsed();
    let status = response.status();
    let by = response.extensions().get::<AnsweredBy>().copied();
    let part = by.map_or_else(|| part_of(&path), |by| by.0);
    state
        .metrics
        .request_answered(part, status.as_u16(), duration);
    if method == Method::POST && path == "/api/sandbox" && status == StatusCode::OK {
        state.metrics.sandbox_created_in(duration);
    }
    if response.extensions().get::<StoreFailed>().is_some() {
        state.metrics.store_failed();
    }
    span.in_scope(|| {
        tracing::debug!(status = status.as_u16(), milliseconds = %duration.as_millis(), "answered");
    });
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response.map(|body| Body::new(Watched { body, _open: open }))
}

/// The id that the client gave, if it can stand in a log, or a new one.
fn id_of(request: &Request) -> String {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let given = request.headers().get(REQUEST_ID);
    let given = given.and_then(|id| id.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= ID_LENGTH_MAX && id.bytes().all(is_fine) => {
            id.to_owned()
        }
        Some(_) | None => new_id(),
    }
}

/// One that no other request of any server has, as good as certainly: asking the kernel for each would cost more than the rest of it.
fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let number = HASHER.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    format!("{number:016x}")
}

fn part_of(path: &str) -> Part {
    if path.starts_with("/toolbox/") || path.starts_with("/api/toolbox/") {
        Part::Toolbox
    } else if path.starts_with("/api/") {
        Part::Control
    } else {
        Part::Other
    }
}

/// A body that counts as an open request until it has ended.
#[derive(Debug)]
struct Watched {
    body: Body,
    _open: OpenGuard,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
