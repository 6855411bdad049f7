//! Entries that move from where they came to where they stay, while somebody reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holm_store::{SqliteOptions, SqliteStreams};
use holm_thread_log::{Command, StreamStore};

use crate::support::{NOW, add, append, count_numbered, entries, make, name, numbered, open};

fn open_moving(path: &std::path::Path) -> SqliteStreams {
    let options = SqliteOptions {
        recent_bytes_max: 3_000,
        ..SqliteOptions::default()
    };
    SqliteStreams::open(path, options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_every_entry_in_its_place() {
    const STREAMS: [&str; 4] = ["a", "b", "c", "d"];
    const COUNT: u64 = 400;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("holm.db");
    let store = Arc::new(open_moving(&path));
    let acknowledged: Arc<[AtomicU64; 4]> = Arc::default();
    let mut tasks = Vec::new();
    for (index, stream) in STREAMS.into_iter().enumerate() {
        make(&*store, stream).await;
        let (writer, done) = (Arc::clone(&store), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(async move {
            for seq in 0..COUNT {
                add(&*writer, numbered(stream, seq)).await.unwrap();
                done[index].store(seq + 1, Ordering::Release);
            }
        }));
        let (reader, done) = (Arc::clone(&store), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(async move {
            let mut read = 0;
            while read < COUNT {
                let acknowledged = done[index].load(Ordering::Acquire);
                read = count_numbered(&*reader, stream).await;
                assert!(read >= acknowledged, "{stream}: {read} of {acknowledged}");
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    drop(store);
    let rows = |sql: &str| -> u32 {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // They have moved, and what has moved is no longer where it came.
    assert!(u64::from(rows("SELECT sum(ifnull(count, 1)) FROM entries")) > COUNT * 3);
    assert!(u64::from(rows("SELECT count(*) FROM recent_entries")) < COUNT);
    // Opened with all the room there is, it moves nothing, and has the same.
    let store = open(&path);
    for stream in STREAMS {
        assert_eq!(count_numbered(&store, stream).await, COUNT);
    }
}

/// Big entries do not wait with the small ones, and keep their place among them.
#[tokio::test]
async fn big_and_small_entries_keep_their_order() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("holm.db");
    let store = open_moving(&path);
    make(&store, "a").await;
    let mut expected = Vec::new();
    for number in 0..60_u8 {
        let size = if number % 3 == 1 { 40_000 } else { 10 };
        expected.push(vec![number; size]);
        add(&store, append("a", vec![number; size])).await.unwrap();
        if number % 20 == 0 {
            assert_eq!(entries(&store, "a").await, expected);
        }
    }
    assert_eq!(entries(&store, "a").await, expected);
    drop(store);
    let store = open_moving(&path);
    assert_eq!(entries(&store, "a").await, expected);
    // A stream that is made again under the name has none of it, whatever had moved.
    let gone = Command::Delete { name: name("a") };
    store.apply(gone, NOW).await.unwrap().unwrap();
    make(&store, "a").await;
    add(&store, append("a", "new")).await.unwrap();
    drop(store);
    assert_eq!(entries(&open_moving(&path), "a").await, ["new"]);
}
