//! A process that appends, killed at any moment: what it acknowledged is there, once and in order.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use holm_store::{SqliteOptions, SqliteStreams};
use holm_thread_log::{Outcome, StreamStore};

use crate::support::{add, count_numbered, make, numbered, open};

const FOLDER: &str = "HOLM_STORE_TEST_FOLDER";
/// More than CI has time for.
const ROUNDS: &str = "HOLM_TEST_CRASH_ROUNDS";
const STREAMS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Runs in a process of its own until it is killed. As a client that has not heard of its last request, each writer sends that again.
#[test]
#[ignore = "the writer of `every_acknowledged_append_is_there_once`"]
fn writer() {
    let folder = std::env::var_os(FOLDER).unwrap();
    let options = SqliteOptions {
        // So little that entries move all the time.
        recent_bytes_max: 2_000,
        ..SqliteOptions::default()
    };
    let store = SqliteStreams::open(&Path::new(&folder).join("holm.db"), options);
    let store: Arc<dyn StreamStore> = Arc::new(store.unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let writers = STREAMS.map(|stream| {
        let store = Arc::clone(&store);
        runtime.spawn(async move {
            make(&*store, stream).await;
            let count = count_numbered(&*store, stream).await;
            if let Some(last) = count.checked_sub(1) {
                let again = add(&*store, numbered(stream, last)).await.unwrap();
                assert!(matches!(again, Outcome::Duplicate(_)), "{again:?}");
            }
            for seq in count.. {
                let outcome = add(&*store, numbered(stream, seq)).await.unwrap();
                assert!(matches!(outcome, Outcome::Appended(_)), "{outcome:?}");
                println!("stored {stream} {seq}");
            }
        })
    });
    for writer in writers {
        runtime.block_on(writer).unwrap();
    }
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "sqlite::kill::writer",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The last numbers that were acknowledged; it is killed after so many of them.
fn kill_after(mut child: Child, lines: usize) -> [Option<u64>; STREAMS.len()] {
    let mut acknowledged = [None; STREAMS.len()];
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut count = 0;
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        // What the pipe still holds was acknowledged too; a line that was cut off was not told.
        if let Some(told) = line.split_once("stored ").map(|(_, told)| told)
            && let Some(told) = told.strip_suffix('\n')
        {
            let (stream, seq) = told.split_once(' ').unwrap();
            let index = STREAMS.iter().position(|name| *name == stream).unwrap();
            acknowledged[index] = Some(seq.parse().unwrap());
            count += 1;
            if count == lines {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    assert_eq!(
        child.wait().unwrap().signal(),
        Some(9),
        "it ended by itself"
    );
    acknowledged
}

#[test]
fn every_acknowledged_append_is_there_once() {
    let rounds: usize = std::env::var(ROUNDS).map_or(8, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for round in 0..rounds {
        // Now in the middle of the first commits, now after a while.
        let acknowledged = kill_after(start(folder.path()), 1 + round * 37 % 200);
        let store = open(&folder.path().join("holm.db"));
        for (stream, last) in STREAMS.iter().zip(acknowledged) {
            let Some(last) = last else { continue };
            let count = runtime.block_on(count_numbered(&store, stream));
            assert!(count > last, "{stream}: {count} of {last}");
        }
    }
}
