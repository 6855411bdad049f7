//! The power goes: what the disk had acknowledged is on it, and of what came later it has any part, or rubbish.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{add, count_numbered, make, numbered, open};

const STREAMS: [&str; 3] = ["a", "b", "c"];
const APPENDS: u64 = 60;

/// A database that was never closed, and how long its log was after each acknowledged append.
struct Image {
    database: Vec<u8>,
    log: Vec<u8>,
    lengths: Vec<usize>,
}

fn log_of(path: &Path) -> std::path::PathBuf {
    path.with_extension("db-wal")
}

async fn record() -> Image {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("holm.db");
    let store = open(&path);
    for stream in STREAMS {
        make(&store, stream).await;
    }
    let mut lengths = Vec::new();
    for number in 0..APPENDS {
        let (stream, seq) = place(number);
        add(&store, numbered(stream, seq)).await.unwrap();
        lengths.push(fs::read(log_of(&path)).unwrap().len());
    }
    assert!(lengths.is_sorted(), "the log began anew: use fewer appends");
    Image {
        database: fs::read(&path).unwrap(),
        log: fs::read(log_of(&path)).unwrap(),
        lengths,
    }
}

/// The streams take turns.
fn place(number: u64) -> (&'static str, u64) {
    let count = u64::try_from(STREAMS.len()).unwrap();
    let stream = usize::try_from(number % count).unwrap();
    (STREAMS[stream], number / count)
}

/// What is left of what the disk had not yet acknowledged.
#[derive(Debug, Clone, Copy)]
enum Rest {
    CutOff,
    Zeros,
    Noise(u8),
}

fn any_rest() -> impl Strategy<Value = Rest> {
    prop_oneof![
        Just(Rest::CutOff),
        Just(Rest::Zeros),
        any::<u8>().prop_map(Rest::Noise)
    ]
}

#[test]
fn what_the_disk_had_acknowledged_is_there_and_nothing_else() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let image = runtime.block_on(record());
    let cases = (
        0..image.lengths.len(),
        any::<prop::sample::Index>(),
        any_rest(),
    );
    let config = Config {
        cases: 96,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    runner
        .run(&cases, |(acknowledged, cut, rest)| {
            let safe = image.lengths[acknowledged];
            let cut = safe + cut.index(image.log.len() - safe + 1);
            let mut log = image.log[..cut].to_vec();
            match rest {
                Rest::CutOff => {}
                Rest::Zeros => log.resize(image.log.len(), 0),
                Rest::Noise(seed) => {
                    log.extend(image.log[cut..].iter().map(|byte| byte ^ seed | 1));
                }
            }
            runtime.block_on(check(&image.database, &log, acknowledged));
            Ok(())
        })
        .unwrap();
}

async fn check(database: &[u8], log: &[u8], acknowledged: usize) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("holm.db");
    fs::write(&path, database).unwrap();
    fs::write(log_of(&path), log).unwrap();
    let store = open(&path);
    let mut total = 0;
    for stream in STREAMS {
        total += count_numbered(&store, stream).await;
    }
    let acknowledged = u64::try_from(acknowledged).unwrap() + 1;
    assert!(total >= acknowledged, "{total} of {acknowledged}");
    // One beginning of the history, over all streams; and it goes on from there.
    for number in 0..APPENDS {
        let (stream, seq) = place(number);
        let outcome = add(&store, numbered(stream, seq)).await.unwrap();
        let is_new = matches!(outcome, holm_thread_log::Outcome::Appended(_));
        assert_eq!(is_new, number >= total, "{number} of {total}: {outcome:?}");
    }
    for stream in STREAMS {
        assert_eq!(count_numbered(&store, stream).await, APPENDS / 3);
    }
}
