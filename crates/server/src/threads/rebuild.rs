//! A thread's row, made again from its entries.

use axum::Json;
use axum::extract::{Path, State};
use holm_thread_log::sse::Freshness;
use holm_thread_log::threads::{Rebuilding, Row, row_key};
use holm_thread_log::{Command, DocumentWrite, Expect, Outcome, ReadFrom};

use super::asking::{Asking, Subject};
use super::failure;
use super::threads_of::{Threads, now};
use super::wire::{Failure, RebuiltThread, Thread};
use crate::error::{ApiError, Result};
use crate::state::AppState;

const PAGE_BYTES: usize = 1024 * 1024;
/// How often somebody else may change the row meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// Reads all entries and makes the row from them. It was the same before, unless something outside of the server has changed it.
#[utoipa::path(post, path = "/threads/{id}/rebuild", tag = "threads", security(("key" = [])),
    params(("id" = String, Path)), responses(
    (status = 200, body = RebuiltThread),
    (status = 404, body = Failure),
))]
pub(super) async fn rebuild_thread(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<Json<RebuiltThread>> {
    let subject = asking.thread_with_key(&id)?;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(changed) = rebuild(&state.threads, &subject).await? {
            let (row, stream) = state.threads.find(&subject).await?;
            let thread = Thread::new(&subject.id, row, &stream);
            return Ok(Json(RebuiltThread { changed, thread }));
        }
    }
    Err(ApiError::conflict(
        "the thread changed again and again: try once more",
    ))
}

/// Whether the row was another; nothing if it changed meanwhile.
async fn rebuild(threads: &Threads, subject: &Subject) -> Result<Option<bool>> {
    let key = row_key(&subject.organization, &subject.id);
    // The row first: whatever changes it after this changes its version.
    let stored = threads.streams.document(&key).await;
    let stored = stored.map_err(failure::store)?;
    let row = fold(threads, subject).await?;
    let is_same = stored.as_ref().is_some_and(|document| {
        Row::from_content(&document.content).is_ok_and(|stored| stored == row)
    });
    if is_same {
        return Ok(Some(false));
    }
    let expect = stored.map_or(Expect::Absent, |document| Expect::Version(document.version));
    let content = row.to_content(&subject.organization);
    let command = Command::Write {
        documents: vec![DocumentWrite {
            key,
            expect,
            content: Some(content.map_err(failure::of_rule)?),
        }],
    };
    let written = threads.streams.apply(command, now()).await;
    let is_written = written.map_err(failure::store)? == Ok(Outcome::Written);
    Ok(is_written.then_some(true))
}

async fn fold(threads: &Threads, subject: &Subject) -> Result<Row> {
    let mut from = ReadFrom::Start;
    let mut rebuilding: Option<Rebuilding> = None;
    loop {
        let read = threads
            .streams
            .read(&subject.stream, from, PAGE_BYTES, now())
            .await
            .map_err(failure::store)?;
        let page = read.map_err(|unseen| failure::unseen(subject.id.as_str(), unseen))?;
        let row = rebuilding.get_or_insert_with(|| Rebuilding::new(&page.stream));
        for entry in &page.entries {
            row.add(entry).map_err(|error| {
                ApiError::internal("an entry of this thread cannot be read", error)
            })?;
        }
        if page.freshness == Freshness::UpToDate {
            return Ok(row.clone().finish());
        }
        from = ReadFrom::At(page.next);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use holm_thread_log::threads::{RunState, Status, ThreadRules};
    use holm_thread_log::{
        Append, Content, ContentType, Create, Ending, MemoryStore, Message, Payload,
    };

    use super::*;

    fn entries(count: usize) -> Payload {
        let running = r#"{"id":"1","ts":1,"payload":{"type":"signal.thread.status_changed","status":"running","runId":"r"}}"#;
        let failed = r#"{"id":"2","ts":2,"payload":{"type":"signal.thread.codex_failed"}}"#;
        let text = "x".repeat(1024);
        let rest = (0..count).map(|number| {
            format!(r#"{{"id":"n{number}","ts":3,"payload":{{"type":"chat","text":"{text}"}}}}"#)
        });
        let all = [running.to_owned(), failed.to_owned()]
            .into_iter()
            .chain(rest);
        Payload::Messages(all.map(|entry| Message::from(Bytes::from(entry))).collect())
    }

    async fn world() -> (Threads, Subject) {
        let store = MemoryStore::new(Arc::new(ThreadRules));
        let threads = Threads::new(Arc::new(store), std::path::PathBuf::new());
        let subject = Subject {
            organization: "o".to_owned(),
            id: "t".parse().unwrap(),
            stream: "o/holm-thread-t".parse().unwrap(),
            writer: None,
        };
        let create = Create {
            name: subject.stream.clone(),
            content_type: Some(ContentType::json()),
            lifetime: None,
            ending: Ending::Open,
            payload: None,
            fork: None,
            writer: None,
            documents: Vec::new(),
        };
        threads
            .apply(&subject.id, Command::Create(create))
            .await
            .unwrap();
        // More than one page.
        for payload in [entries(1_500), entries(0)] {
            let append = Append {
                name: subject.stream.clone(),
                content_type: Some(ContentType::json()),
                payload: Some(payload),
                producer: None,
                stream_seq: None,
                ending: Ending::Open,
                writer: None,
                documents: Vec::new(),
            };
            // The second one repeats a run that has ended, and is refused.
            drop(threads.apply(&subject.id, Command::Append(append)).await);
        }
        (threads, subject)
    }

    #[tokio::test]
    async fn a_row_that_was_lost_or_changed_is_made_again() {
        let (threads, subject) = world().await;
        let before = threads.row("o", &subject.id).await.unwrap().unwrap();
        assert_eq!(before.status, Status::Failed);
        assert_eq!(rebuild(&threads, &subject).await.unwrap(), Some(false));
        let mut other = before.clone();
        other.status = Status::Running;
        other.run.as_mut().unwrap().state = RunState::Running;
        let unreadable = Content {
            body: Bytes::from_static(b"{"),
            terms: Vec::new(),
        };
        for content in [None, Some(unreadable), Some(other.to_content("o").unwrap())] {
            let damage = Command::Write {
                documents: vec![DocumentWrite {
                    key: row_key("o", &subject.id),
                    expect: Expect::Anything,
                    content,
                }],
            };
            threads.apply(&subject.id, damage).await.unwrap();
            assert_eq!(rebuild(&threads, &subject).await.unwrap(), Some(true));
            let row = threads.row("o", &subject.id).await.unwrap();
            assert_eq!(row.as_ref(), Some(&before));
        }
    }
}
