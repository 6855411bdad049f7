//! Making threads.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use holm_thread_log::threads::{Admitted, ThreadId, admit};
use holm_thread_log::{
    Command, ContentType, Create, Ending, Message, Outcome, Payload, ReadFrom, json,
};
use serde_json::{Value, json as value};

use super::asking::{Asking, Subject};
use super::failure;
use super::threads_of::{Threads, now};
use super::wire::{CreateThread, Failure, Thread, ThreadParent};
use crate::api::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;

/// The id of the first entry.
const CREATED: &str = "thread-created";

/// Makes a thread, or finds the one that the same request made before.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = CreateThread, security(("key" = [])), responses(
    (status = 201, description = "made", body = Thread),
    (status = 200, description = "made before, by the same request", body = Thread),
    (status = 400, description = "malformed, or the parent does not exist", body = Failure),
    (status = 409, description = "the id belongs to a thread that was made otherwise", body = Failure),
))]
pub(super) async fn create_thread(
    State(state): State<AppState>,
    asking: Asking,
    Body(request): Body<CreateThread>,
) -> Result<(StatusCode, Json<Thread>)> {
    asking.with_key()?;
    let threads = &state.threads;
    let id = match &request.id {
        Some(id) => {
            let id: Result<ThreadId, _> = id.parse();
            id.map_err(|error| ApiError::bad_request(error.to_string()))?
                .to_string()
        }
        None => uuid::Uuid::now_v7().to_string(),
    };
    let subject = asking.thread_with_key(&id)?;
    if let Some(ThreadParent::Thread { id }) = &request.parent {
        check_parent(threads, &asking, id).await?;
    }
    let mut payload = serde_json::to_value(&request)
        .map_err(|error| ApiError::internal("could not write the first entry", error))?;
    payload["type"] = value!("signal.thread.created");
    let entry = value!({ "id": CREATED, "ts": now().to_string(), "payload": payload });
    let message = Message::from(Bytes::from(entry.to_string()));
    let admitted = admit(vec![message]).map_err(|error| failure::not_admitted(&error))?;
    let Admitted::Entries(messages) = admitted else {
        return Err(ApiError::bad_request("the first entry is no heartbeat"));
    };
    let command = Command::Create(Create {
        name: subject.stream.clone(),
        content_type: Some(ContentType::json()),
        lifetime: None,
        ending: Ending::Open,
        payload: Some(Payload::Messages(messages)),
        fork: None,
        writer: None,
        documents: Vec::new(),
    });
    let status = match threads.apply(&subject.id, command).await? {
        Outcome::Exists(_) => {
            check_same(threads, &subject, &payload).await?;
            StatusCode::OK
        }
        Outcome::Created(_)
        | Outcome::Appended(_)
        | Outcome::Duplicate(_)
        | Outcome::Closed(_)
        | Outcome::Deleted
        | Outcome::Touched
        | Outcome::Expired(_)
        | Outcome::Written => StatusCode::CREATED,
    };
    let (row, stream) = threads.find(&subject).await?;
    Ok((status, Json(Thread::new(&subject.id, row, &stream))))
}

async fn check_parent(threads: &Threads, asking: &Asking, id: &str) -> Result<()> {
    let missing = || ApiError::bad_request(format!("there is no thread `{id}` to be the parent"));
    let parent = asking.thread_with_key(id).map_err(|_| missing())?;
    let found = threads.row(&parent.organization, &parent.id).await?;
    found.map(drop).ok_or_else(missing)
}

/// Whether the thread that is there began as this one should.
async fn check_same(threads: &Threads, subject: &Subject, payload: &Value) -> Result<()> {
    let read = threads
        .streams
        .read(&subject.stream, ReadFrom::Start, 1, now())
        .await;
    let page = read
        .map_err(failure::store)?
        .map_err(|unseen| failure::unseen(subject.id.as_str(), unseen))?;
    let first = page.entries.first().and_then(|entry| {
        let message = json::split(&entry.data).ok()?.into_iter().next()?;
        serde_json::from_slice::<Value>(&message).ok()
    });
    if first.is_some_and(|first| first["payload"] == *payload) {
        return Ok(());
    }
    Err(ApiError::conflict(format!(
        "the thread `{}` exists, and was made otherwise",
        subject.id
    )))
}
