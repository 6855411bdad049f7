//! One thread.

use axum::Json;
use axum::extract::{Path, State};

use super::asking::Asking;
use super::wire::{Failure, Thread};
use crate::error::Result;
use crate::state::AppState;
use crate::streams::access::Verb;

/// A thread as it is now: what became of its run is found out first.
#[utoipa::path(get, path = "/threads/{id}", tag = "threads", security(("key" = []), ("token" = ["read"])),
    params(("id" = String, Path)), responses(
    (status = 200, body = Thread),
    (status = 403, description = "a token for another thread", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn get_thread(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<Json<Thread>> {
    let subject = asking.thread(&id, Verb::Read)?;
    state.threads.find_reconciled(&subject).await.map(Json)
}
