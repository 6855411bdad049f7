//! Streams that have only grown: their rows are behind, and nobody notices.

use std::path::{Path, PathBuf};

use holm_store::SqliteStreams;
use holm_thread_log::{
    Append, Command, Ending, Lifetime, Outcome, Refusal, StreamState, StreamStore, Touch,
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
