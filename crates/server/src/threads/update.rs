//! Changing what a thread is for, and deleting it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bytes::Bytes;
use holm_thread_log::threads::admit;
use holm_thread_log::{Command, Message};
use serde_json::json as value;

use super::asking::Asking;
use super::entries::append;
use super::failure;
use super::threads_of::now;
use super::wire::{Failure, Thread, UpdateThread};
use crate::api::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;

/// Changes tags, environment or sandbox; an entry says so.
#[utoipa::path(patch, path = "/threads/{id}", tag = "threads", request_body = UpdateThread, security(("key" = [])),
    params(("id" = String, Path)), responses(
    (status = 200, body = Thread),
    (status = 400, body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn update_thread(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
    Body(request): Body<UpdateThread>,
) -> Result<Json<Thread>> {
    let subject = asking.thread_with_key(&id)?;
    let mut payload = serde_json::to_value(&request)
        .map_err(|error| ApiError::internal("could not write an entry", error))?;
    payload["type"] = value!("signal.thread.updated");
    let id = uuid::Uuid::now_v7().to_string();
    let entry = value!({ "id": id, "ts": now().to_string(), "payload": payload });
    let message = Message::from(Bytes::from(entry.to_string()));
    let admitted = admit(vec![message]).map_err(|error| failure::not_admitted(&error))?;
    append(&state.threads, &subject, admitted).await?;
    let (row, stream) = state.threads.find(&subject).await?;
    Ok(Json(Thread::new(&subject.id, row, &stream)))
}

/// Deletes a thread with its entries and blobs. Forks of it stay as they are.
#[utoipa::path(delete, path = "/threads/{id}", tag = "threads", security(("key" = [])),
    params(("id" = String, Path)), responses(
    (status = 204, description = "deleted"),
    (status = 404, body = Failure),
))]
pub(super) async fn delete_thread(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let subject = asking.thread_with_key(&id)?;
    let command = Command::Delete {
        name: subject.stream.clone(),
    };
    state.threads.apply(&subject.id, command).await?;
    state
        .threads
        .blobs
        .remove_all(&subject.organization, &subject.id)
        .await;
    Ok(StatusCode::NO_CONTENT)
}
