//! Streams that have only grown: their rows are behind, and nobody notices.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use holm_store::{Fault, FaultPoint, SqliteOptions, SqliteStreams};
use holm_thread_log::{
    Append, Claim, Command, Content, DocumentKey, DocumentWrite, Ending, Expect, Lifetime, Outcome,
    Refusal, StreamState, StreamStore, Touch,
};

use crate::support::{NOW, add, append, count_numbered, create, make, name, numbered, open};

const LATER: holm_thread_log::Timestamp = holm_thread_log::Timestamp(NOW.0 + 5);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

async fn head(store: &dyn StreamStore, stream: &str) -> StreamState {
    store.head(&name(stream), LATER).await.unwrap().unwrap()
}

/// What a process leaves that dies at this moment.
fn as_left_behind(path: &Path, to: &Path) -> PathBuf {
    let copy = to.join("holm.db");
    for end in ["", "-wal"] {
        let of = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        std::fs::copy(of(path), of(&copy)).unwrap();
    }
    copy
}

fn rows(path: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn grow(store: &SqliteStreams, stream: &str, count: u64) {
    make(store, stream).await;
    for seq in 0..count {
        let append = Append {
            stream_seq: Some(format!("{seq:04}")),
            ..numbered(stream, seq)
        };
        let decided = store.apply(Command::Append(append), LATER).await;
        decided.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_rows_do_not_know_survives_a_crash() {
    let (folder, other) = (folder(), folder());
    let path = folder.path().join("holm.db");
    let store = open(&path);
    grow(&store, "a", 5).await;
    let before = head(&store, "a").await;
    assert_eq!((before.tail_position, before.size_bytes), (5, 40));
    let copy = as_left_behind(&path, other.path());
    // It is the entries that say so, not the row of the stream or of the producer.
    let tails = "SELECT sum(tail_position) + (SELECT count(*) FROM producers) FROM streams";
    assert_eq!(rows(&path, tails), 0);
    let store = open(&copy);
    assert_eq!(head(&store, "a").await, before);
    assert_eq!(before.last_stream_seq.as_deref(), Some("0004"));
    assert_eq!(count_numbered(&store, "a").await, 5);
    // The producer is known, too.
    let again = add(&store, numbered("a", 4)).await.unwrap();
    assert!(matches!(again, Outcome::Duplicate(_)), "{again:?}");
    let gap = store.apply(Command::Append(numbered("a", 6)), NOW).await;
    assert!(matches!(
        gap.unwrap(),
        Err(Refusal::Gap { expected: 5, .. })
    ));
}

#[tokio::test]
async fn all_who_look_see_what_it_has_become() {
    let folder = folder();
    let store = open(&folder.path().join("holm.db"));
    grow(&store, "a", 3).await;
    grow(&store, "ab", 4).await;
    make(&store, "b").await;
    let listed = store.list("a", None, 10, NOW).await.unwrap();
    let tails = listed.iter().map(|stream| stream.tail_position);
    assert_eq!(tails.collect::<Vec<_>>(), [3, 4]);
    assert_eq!(head(&store, "a").await, listed[0]);
}

/// Whatever else changes of a stream finds it as it is, and brings its row up to date with it.
#[tokio::test]
async fn other_changes_take_growth_with_them() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    let touch = |stream: &str| Command::Touch {
        name: name(stream),
        touch: Touch::Heartbeat { writer: None },
    };
    let close = |stream: &str| {
        Command::Append(Append {
            payload: None,
            ending: Ending::Closed,
            ..append(stream, "")
        })
    };
    for (stream, change) in [("a", touch("a")), ("b", close("b"))] {
        grow(&store, stream, 3).await;
        store.apply(change, LATER).await.unwrap().unwrap();
        let sql = format!(
            "SELECT tail_position + (SELECT last_seq FROM producers WHERE stream = id) FROM streams WHERE name = '{stream}'"
        );
        assert_eq!(rows(&path, &sql), 5);
        assert_eq!(head(&store, stream).await.tail_position, 3);
    }
    assert_eq!(head(&store, "b").await.ending, Ending::Closed);
    // A stream that is made again under the name of one that had grown begins anew.
    grow(&store, "c", 3).await;
    let gone = Command::Delete { name: name("c") };
    store.apply(gone, NOW).await.unwrap().unwrap();
    assert!(store.head(&name("c"), NOW).await.unwrap().is_err());
    make(&store, "c").await;
    assert_eq!(head(&store, "c").await.tail_position, 0);
}

/// Who looks for streams whose time is over looks at rows.
#[tokio::test]
async fn one_that_expires_has_its_row_at_once() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    let mut made = create("a");
    made.lifetime = Some(Lifetime::Sliding { seconds: 60 });
    let decided = store.apply(Command::Create(made), NOW).await;
    decided.unwrap().unwrap();
    let decided = store.apply(Command::Append(numbered("a", 0)), LATER).await;
    decided.unwrap().unwrap();
    let deadline = rows(&path, "SELECT deadline FROM streams");
    assert_eq!(deadline, LATER.0 + 60_000);
}

/// A commit is in the database before it is in memory: whoever sees one of the two sees the other.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_a_document_before_its_entry() {
    let folder = folder();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let options = SqliteOptions {
        faults: Some(Arc::new(move |point| {
            if point == FaultPoint::Visible {
                let pause = wait.lock().unwrap();
                assert!(pause.recv_timeout(Duration::from_millis(300)).is_err());
            }
            Fault::None
        })),
        ..SqliteOptions::default()
    };
    let store = SqliteStreams::open(&folder.path().join("holm.db"), options).unwrap();
    make(&store, "a").await;
    let key = DocumentKey {
        collection: "rows".to_owned(),
        id: "a".to_owned(),
    };
    let append = Append {
        documents: vec![DocumentWrite {
            key: key.clone(),
            expect: Expect::Absent,
            content: Some(Content {
                body: "1".into(),
                terms: Vec::new(),
            }),
        }],
        ..append("a", "entry")
    };
    let look = async {
        while store.document(&key).await.unwrap().is_none() {}
        head(&store, "a").await.tail_position
    };
    let (added, seen) = tokio::join!(add(&store, append), look);
    added.unwrap();
    assert_eq!(seen, 1);
    drop(go_on);
}

/// One with ever new producers gets its row now and then: not all of them at once, some day.
#[tokio::test]
async fn producers_do_not_pile_up() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    make(&store, "a").await;
    for number in 0..200 {
        let claim = Claim {
            producer: format!("producer-{number}").parse().unwrap(),
            epoch: 0,
            seq: 0,
        };
        let append = Append {
            producer: Some(claim),
            ..append("a", "x")
        };
        add(&store, append).await.unwrap();
    }
    assert!(rows(&path, "SELECT count(*) FROM producers") > 100);
}

/// Small ones that came before do not let big ones gather.
#[tokio::test]
async fn what_waits_to_move_has_a_bound() {
    let folder = folder();
    let path = folder.path().join("holm.db");
    let options = SqliteOptions {
        recent_bytes_max: 800_000,
        ..SqliteOptions::default()
    };
    let store = SqliteStreams::open(&path, options).unwrap();
    make(&store, "small").await;
    make(&store, "big").await;
    for _ in 0..4 {
        let small = (0..500).map(|_| add(&store, append("small", "x")));
        assert!(join_all(small).await.iter().all(Result::is_ok));
    }
    for _ in 0..8 {
        let big = (0..60).map(|_| add(&store, append("big", vec![b'x'; 16_000])));
        assert!(join_all(big).await.iter().all(Result::is_ok));
    }
    let waiting = rows(&path, "SELECT sum(length(data)) FROM recent_entries");
    assert!(waiting < 4_000_000, "{waiting} bytes");
}
