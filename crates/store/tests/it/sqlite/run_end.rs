//! The end of a run: its signal, the thread's status, and whether a box is still needed are one change.

use std::sync::Arc;

use holm_store::{Fault, FaultPoint, Faults, SqliteOptions, SqliteStreams};
use holm_thread_log::threads::{Row, Status, Term, ThreadRules, row_key};
use holm_thread_log::{
    Append, Command, ContentType, Create, DocumentQuery, Message, Order, Outcome, Payload, Result,
    StoreError, StreamStore,
};
use serde_json::{Value, json};

use crate::support::{NOW, append, create, entries};

const STREAM: &str = "house/holm-thread-t";

fn open(path: &std::path::Path, faults: Option<Faults>) -> SqliteStreams {
    let options = SqliteOptions {
        rules: Arc::new(ThreadRules),
        faults,
        ..SqliteOptions::default()
    };
    SqliteStreams::open(path, options).unwrap()
}

fn entry(id: &str, payload: &Value) -> Option<Payload> {
    let text = json!({ "id": id, "ts": 0, "payload": payload }).to_string();
    Some(Payload::Messages(vec![Message {
        data: text.into(),
        key: Some(id.parse().unwrap()),
    }]))
}

async fn say(store: &SqliteStreams, id: &str, payload: Value) -> Result<Outcome> {
    let append = Append {
        content_type: Some(ContentType::json()),
        payload: entry(id, &payload),
        ..append(STREAM, "")
    };
    Ok(store.apply(Command::Append(append), NOW).await?.unwrap())
}

fn status(status: &str) -> Value {
    json!({ "type": "signal.thread.status_changed", "status": status, "runId": "r1" })
}

/// What each of the three says of whether the run has ended.
async fn has_ended(store: &SqliteStreams) -> [bool; 3] {
    let signal = entries(store, STREAM).await.len() == 3;
    let key = row_key("house", &"t".parse().unwrap());
    let row = store.document(&key).await.unwrap().unwrap();
    let row = Row::from_content(&row.content).unwrap();
    let needed = DocumentQuery {
        collection: key.collection,
        terms: [Term::Sandbox("box-1"), Term::Status(Status::Running)]
            .map(|term| term.to_text("house"))
            .into(),
        order: Order::Ascending,
        after: None,
        limit: 10,
    };
    let needed = store.documents(&needed).await.unwrap();
    [signal, row.status == Status::Completed, needed.is_empty()]
}

#[tokio::test]
async fn a_finished_signal_the_status_and_the_need_of_a_box_are_one_change() {
    for (point, happens) in [
        (FaultPoint::Written, false),
        (FaultPoint::Committed, true),
        (FaultPoint::Woken, true),
    ] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("holm.db");
        let store = open(&path, None);
        let made = Create {
            content_type: Some(ContentType::json()),
            payload: entry(
                "made",
                &json!({ "type": "signal.thread.created", "sandboxId": "box-1" }),
            ),
            ..create(STREAM)
        };
        let made = store.apply(Command::Create(made), NOW).await.unwrap();
        made.unwrap();
        say(&store, "begin", status("running")).await.unwrap();
        assert_eq!(has_ended(&store).await, [false; 3]);
        drop(store);
        let dying: Faults = Arc::new(move |reached| match reached == point {
            true => Fault::Crash,
            false => Fault::None,
        });
        let store = open(&path, Some(dying));
        let unanswered = say(&store, "end", status("completed")).await;
        assert!(
            matches!(unanswered, Err(StoreError::Stopped)),
            "{unanswered:?}"
        );
        drop(store);
        let store = open(&path, None);
        assert_eq!(has_ended(&store).await, [happens; 3], "{point:?}");
        // Said again, it is there once.
        say(&store, "end", status("completed")).await.unwrap();
        assert_eq!(has_ended(&store).await, [true; 3]);
    }
}
