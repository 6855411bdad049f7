//! The store as its users meet it, on good days and bad ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use holm_store::{Document, Fault, FaultPoint, Kind, SqliteOptions, SqliteStreams, Store};
use holm_thread_log::{
    Append, Claim, Command, ContentType, Create, Lifetime, Message, Outcome, Payload, StoreError,
    StreamStore, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    NOW, add, append, count_numbered, create, entries, make, name, numbered, open,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// A committer that stops at each point until it is told to go on. Not where readers would wait for it, who are asked meanwhile.
struct Steps {
    reached: Receiver<FaultPoint>,
    go_on: Sender<()>,
}

fn stepping() -> (SqliteOptions, Steps) {
    let (tell, reached) = channel();
    let (go_on, wait) = channel();
    let both = Mutex::new((tell, wait));
    let options = SqliteOptions {
        faults: Some(Arc::new(move |point| {
            if point == FaultPoint::Visible {
                return Fault::None;
            }
            let both = both.lock().unwrap();
            // When the test is over, so is the stepping.
            let _ = both.0.send(point).is_ok() && both.1.recv().is_ok();
            Fault::None
        })),
        ..SqliteOptions::default()
    };
    (options, Steps { reached, go_on })
}

impl Steps {
    fn reach(&self, point: FaultPoint) {
        let patience = Duration::from_secs(20);
        assert_eq!(self.reached.recv_timeout(patience), Ok(point));
    }

    fn go_on(&self) {
        self.go_on.send(()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_then_visible_then_woken_then_acknowledged() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    make(&store, "a").await;
    drop(store);
    let (options, steps) = stepping();
    let store = Arc::new(SqliteStreams::open(&path, options).unwrap());
    let mut watch = store.watch(&name("a"));
    let writer = Arc::clone(&store);
    let writing = tokio::spawn(async move { add(&*writer, numbered("a", 0)).await });

    steps.reach(FaultPoint::Written);
    assert_eq!(count_numbered(&*store, "a").await, 0);
    steps.go_on();

    steps.reach(FaultPoint::Committed);
    assert_eq!(count_numbered(&*store, "a").await, 1);
    assert!(watch.changed().now_or_never().is_none());
    steps.go_on();

    steps.reach(FaultPoint::Woken);
    watch.changed().await;
    assert!(!writing.is_finished());
    steps.go_on();
    assert!(matches!(writing.await.unwrap(), Ok(Outcome::Appended(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_together_are_stored_together() {
    let folder = folder();
    let (options, steps) = stepping();
    let store = Arc::new(SqliteStreams::open(&folder.path().join("holm.db"), options).unwrap());
    let writer = Arc::clone(&store);
    let first = tokio::spawn(async move { make(&*writer, "a").await });
    steps.reach(FaultPoint::Written);
    // While the first is on its way, a hundred more arrive.
    let sent = (0..100).map(|seq| add(&*store, numbered("a", seq)));
    let mut sent = Box::pin(join_all(sent));
    assert!(sent.as_mut().now_or_never().is_none());
    for _ in [FaultPoint::Committed, FaultPoint::Woken] {
        steps.go_on();
        steps.reached.recv().unwrap();
    }
    steps.go_on();
    first.await.unwrap();
    for point in [
        FaultPoint::Written,
        FaultPoint::Committed,
        FaultPoint::Woken,
    ] {
        steps.reach(point);
        steps.go_on();
    }
    // One more commit would have stopped at its first point.
    for outcome in sent.await {
        assert!(matches!(outcome, Ok(Outcome::Appended(_))), "{outcome:?}");
    }
    assert_eq!(count_numbered(&*store, "a").await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_busy_and_nothing_has_happened() {
    let folder = folder();
    let (options, steps) = stepping();
    let options = SqliteOptions {
        queue_bytes_max: 4096,
        patience: Duration::from_millis(50),
        ..options
    };
    let store = Arc::new(SqliteStreams::open(&folder.path().join("holm.db"), options).unwrap());
    let writer = Arc::clone(&store);
    let first = tokio::spawn(async move { make(&*writer, "a").await });
    steps.reach(FaultPoint::Written);
    let writer = Arc::clone(&store);
    // As big as the queue: it has a place of its own when the first is done.
    let big = tokio::spawn(async move { add(&*writer, append("a", vec![1; 8192])).await });
    let outcome = big.await.unwrap();
    assert!(matches!(outcome, Err(StoreError::Busy)), "{outcome:?}");
    drop(steps);
    first.await.unwrap();
    assert_eq!(entries(&*store, "a").await.len(), 0);
    add(&*store, append("a", vec![1; 8192])).await.unwrap();
    assert_eq!(entries(&*store, "a").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_everything_and_acknowledges_nothing() {
    for point in [FaultPoint::Written, FaultPoint::Committed] {
        let folder = folder();
        let path = folder.path().join("holm.db");
        let store = open(&path);
        make(&store, "a").await;
        drop(store);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&said);
        let options = SqliteOptions {
            fail_stop: Arc::new(move |reason| told.lock().unwrap().push(reason.to_string())),
            faults: Some(Arc::new(move |reached| {
                if reached == point {
                    Fault::SyncFails
                } else {
                    Fault::None
                }
            })),
            ..SqliteOptions::default()
        };
        let store = SqliteStreams::open(&path, options).unwrap();
        for _ in 0..2 {
            let answer = add(&store, numbered("a", 0)).await;
            assert!(matches!(answer, Err(StoreError::Stopped)), "{answer:?}");
        }
        drop(store);
        assert_eq!(
            *said.lock().unwrap(),
            ["could not commit streams: what was acknowledged is safe, the rest is unknown"]
        );
        // Whatever it was, the retry makes it one.
        let store = open(&path);
        add(&store, numbered("a", 0)).await.unwrap();
        assert_eq!(count_numbered(&store, "a").await, 1);
    }
}

#[tokio::test]
async fn streams_have_one_writer() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    let refused = SqliteStreams::open(&path, SqliteOptions::default()).unwrap_err();
    assert!(
        matches!(refused, holm_store::StoreError::InUse { .. }),
        "{refused:?}"
    );
    assert!(refused.hint().unwrap().contains("stop the other server"));
    drop(store);
    open(&path);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    drop(open(&path));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .pragma_update(None, "user_version", holm_store::SCHEMA_VERSION + 1)
        .unwrap();
    let refused = SqliteStreams::open(&path, SqliteOptions::default()).unwrap_err();
    assert!(
        matches!(refused, holm_store::StoreError::TooNew { .. }),
        "{refused:?}"
    );
    assert!(refused.hint().unwrap().contains("newer Holm"));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    id: String,
}

impl Document for Note {
    const KIND: Kind = Kind::Volume;

    fn id(&self) -> &str {
        &self.id
    }

    fn owner(&self) -> &'static str {
        "somebody"
    }

    fn name(&self) -> &str {
        &self.id
    }
}

/// The server's documents are in the same file, and neither waits for the other for long.
#[tokio::test(flavor = "multi_thread")]
async fn documents_are_written_while_streams_are() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    // As it was before there were streams.
    let documents = Store::open(&path).unwrap();
    let store = Arc::new(open(&path));
    make(&*store, "a").await;
    let written = Arc::new(AtomicUsize::new(0));
    let streaming = {
        let (store, written) = (Arc::clone(&store), Arc::clone(&written));
        tokio::spawn(async move {
            for seq in 0.. {
                add(&*store, numbered("a", seq)).await.unwrap();
                if written.load(Ordering::Relaxed) == 50 {
                    return seq + 1;
                }
            }
            0
        })
    };
    tokio::task::spawn_blocking(move || {
        for number in 0..50 {
            let id = number.to_string();
            documents.put(&Note { id }).unwrap();
            written.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(documents.all::<Note>().unwrap().len(), 50);
    })
    .await
    .unwrap();
    let appended = streaming.await.unwrap();
    assert_eq!(count_numbered(&*store, "a").await, appended);
}

#[tokio::test]
async fn an_entry_of_100_mib() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    make(&store, "a").await;
    let mut big = vec![0; 100 << 20];
    big[99 << 20] = 1;
    add(&store, append("a", "before")).await.unwrap();
    add(&store, append("a", big.clone())).await.unwrap();
    add(&store, append("a", "after")).await.unwrap();
    drop(store);
    let store = open(&path);
    let all = entries(&store, "a").await;
    assert_eq!(all.len(), 3);
    assert!(all[0] == "before" && all[1] == big && all[2] == "after");
    // What it took comes back.
    let gone = Command::Delete { name: name("a") };
    store.apply(gone, NOW).await.unwrap().unwrap();
    left_behind(&path, 0).await;
}

/// Waits until so many rows are left of removed streams.
async fn left_behind(path: &std::path::Path, rows: i64) {
    let connection = rusqlite::Connection::open(path).unwrap();
    loop {
        let sql = "SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM producers)
            + (SELECT count(*) FROM entry_keys) + (SELECT count(*) FROM removed_streams)";
        let left: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        if left == rows {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_removed_stream_leaves_nothing_even_if_the_server_dies_meanwhile() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let options = SqliteOptions {
        // Dies after a few more commits.
        faults: Some({
            let commits = AtomicUsize::new(0);
            Arc::new(move |point| {
                let is_late =
                    point == FaultPoint::Committed && commits.fetch_add(1, Ordering::Relaxed) == 12;
                if is_late { Fault::Crash } else { Fault::None }
            })
        }),
        ..SqliteOptions::default()
    };
    let store = SqliteStreams::open(&path, options).unwrap();
    let json = Some(ContentType::json());
    let made = Create {
        content_type: json.clone(),
        ..create("big")
    };
    store
        .apply(Command::Create(made), NOW)
        .await
        .unwrap()
        .unwrap();
    // More of everything than one transaction removes.
    let sent = (0..700).map(|number| {
        let message = Message {
            data: "1".into(),
            key: Some(format!("key-{number}").parse().unwrap()),
        };
        let append = Append {
            content_type: json.clone(),
            payload: Some(Payload::Messages(vec![message])),
            producer: Some(Claim {
                producer: format!("producer-{number}").parse().unwrap(),
                epoch: 0,
                seq: 0,
            }),
            ..append("big", "")
        };
        add(&store, append)
    });
    for outcome in join_all(sent).await {
        outcome.unwrap();
    }
    let gone = Command::Delete { name: name("big") };
    store.apply(gone, NOW).await.unwrap().unwrap();
    make(&store, "big").await;
    assert!(entries(&store, "big").await.is_empty());
    drop(store);
    let _store = open(&path);
    left_behind(&path, 0).await;
}

#[tokio::test]
async fn streams_whose_time_is_over_are_swept() {
    let folder = folder();
    let store = open(&folder.path().join("holm.db"));
    for (number, seconds) in [1, 1, 60].into_iter().enumerate() {
        let made = Create {
            lifetime: Some(Lifetime::Sliding { seconds }),
            ..create(&format!("s/{number}"))
        };
        store
            .apply(Command::Create(made), NOW)
            .await
            .unwrap()
            .unwrap();
    }
    make(&store, "forever").await;
    let later = Timestamp(NOW.0 + 5_000);
    assert_eq!(holm_store::expire_overdue(&store, later).await.unwrap(), 2);
    assert_eq!(holm_store::expire_overdue(&store, later).await.unwrap(), 0);
    let left = store.list("", None, 10, NOW).await.unwrap();
    let left: Vec<&str> = left.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(left, ["forever", "s/2"]);
}
