//! Lists of threads.

use axum::Json;
use axum::extract::{Path, State};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holm_thread_log::threads::{COLLECTION, Row, Status, Term, ThreadId, row_key};
use holm_thread_log::{DocumentQuery, Order};

use super::asking::Asking;
use super::failure::{self, no_such_thread};
use super::threads_of::{Threads, now};
use super::wire::{Failure, Thread, ThreadList};
use crate::api::Pairs;
use crate::error::{ApiError, Result};
use crate::state::AppState;

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 200;

/// Threads of the organisation that are all that is asked for, the last id first.
#[utoipa::path(get, path = "/threads", tag = "threads", security(("key" = [])), params(
    ("status" = Option<String>, Query, description = "open, idle, running, completed, failed or cancelled"),
    ("tag" = Option<Vec<String>>, Query, description = "may be given several times: all have to be there"),
    ("parent" = Option<String>, Query, description = "the thread that they were delegated from"),
    ("environmentId" = Option<String>, Query),
    ("sandboxId" = Option<String>, Query),
    ("limit" = Option<usize>, Query, description = "1 to 200; 50 if left out"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
), responses(
    (status = 200, body = ThreadList),
    (status = 400, description = "a parameter is wrong", body = Failure),
))]
pub(super) async fn list_threads(
    State(state): State<AppState>,
    asking: Asking,
    query: Pairs,
) -> Result<Json<ThreadList>> {
    asking.with_key()?;
    let mut terms = Vec::new();
    if let Some(status) = query.get("status") {
        terms.push(Term::Status(parse_status(status)?));
    }
    terms.extend(
        query
            .all("tag")
            .filter(|tag| !tag.is_empty())
            .map(Term::Tag),
    );
    terms.extend(query.get("parent").map(Term::Parent));
    terms.extend(query.get("environmentId").map(Term::Environment));
    terms.extend(query.get("sandboxId").map(Term::Sandbox));
    list(&state.threads, asking.with_key()?, &terms, &query).await
}

/// Threads that were delegated from this one.
#[utoipa::path(get, path = "/threads/{id}/children", tag = "threads", security(("key" = [])), params(
    ("id" = String, Path),
    ("limit" = Option<usize>, Query, description = "1 to 200; 50 if left out"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
), responses(
    (status = 200, body = ThreadList),
    (status = 404, body = Failure),
))]
pub(super) async fn list_children(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
    query: Pairs,
) -> Result<Json<ThreadList>> {
    let subject = asking.thread_with_key(&id)?;
    state.threads.find(&subject).await?;
    let terms = [Term::Parent(subject.id.as_str())];
    list(&state.threads, &subject.organization, &terms, &query).await
}

async fn list(
    threads: &Threads,
    organization: &str,
    terms: &[Term<'_>],
    query: &Pairs,
) -> Result<Json<ThreadList>> {
    let limit = query.parsed("limit")?.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let message = format!("`limit` has to be between 1 and {LIMIT_MAX}");
        return Err(ApiError::bad_request(message));
    }
    let after = query.get("cursor").map(parse_cursor).transpose()?;
    let terms: Vec<String> = if terms.is_empty() {
        vec![Term::All.to_text(organization)]
    } else {
        terms
            .iter()
            .map(|term| term.to_text(organization))
            .collect()
    };
    let wanted = DocumentQuery {
        collection: COLLECTION.to_owned(),
        terms,
        order: Order::Descending,
        after: after.map(|id| row_key(organization, &id).id),
        // One more, to know whether there is another page.
        limit: limit + 1,
    };
    let found = threads.streams.documents(&wanted).await;
    let mut found = found.map_err(failure::store)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let mut items = Vec::with_capacity(found.len());
    let mut last = None;
    for (key, document) in found {
        let id = key.id.rsplit_once('/').map_or("", |(_, id)| id);
        let id: ThreadId = id.parse().map_err(|_| no_such_thread(id))?;
        let row = Row::from_content(&document.content).map_err(|error| {
            ApiError::internal(format!("the row of `{id}` cannot be read"), error)
        })?;
        let stream = format!(
            "{organization}/{}{id}",
            holm_thread_log::threads::STREAM_PREFIX
        );
        let stream = stream.parse().map_err(|_| no_such_thread(id.as_str()))?;
        let seen = threads.streams.head(&stream, now()).await;
        // One that has just been deleted is not shown.
        if let Ok(stream) = seen.map_err(failure::store)? {
            items.push(Thread::new(&id, row, &stream));
        }
        last = Some(id);
    }
    let next_cursor = last
        .filter(|_| has_more)
        .map(|id| URL_SAFE_NO_PAD.encode(id.as_str()));
    Ok(Json(ThreadList { items, next_cursor }))
}

fn parse_status(text: &str) -> Result<Status> {
    let known = Status::ALL
        .into_iter()
        .find(|status| status.as_str() == text);
    known.ok_or_else(|| {
        ApiError::bad_request(
            "`status` is one of open, idle, running, completed, failed and cancelled",
        )
    })
}

fn parse_cursor(text: &str) -> Result<ThreadId> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok();
    let id = decoded.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok());
    id.ok_or_else(|| ApiError::bad_request("`cursor` is not one that this server gave"))
}
