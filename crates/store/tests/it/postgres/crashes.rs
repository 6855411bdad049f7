//! Ends that nobody announced: of the database, and of the server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use holm_testkit::{PostgresServer, Stop};
use holm_thread_log::{Append, Outcome, ReadFrom, StreamStore};
use tokio::time::sleep;

use super::{connect, load};
use crate::contract::{NOW, Use as _, append, claim, create, created, name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_ends_under_load_loses_and_doubles_nothing() {
    let Some(mut server) = PostgresServer::start() else {
        return;
    };
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let streams = ["s/0", "s/1"];
    load::make(&one, &streams).await;
    let restarting = async {
        for how in [Stop::Kill, Stop::Fast, Stop::Kill] {
            sleep(Duration::from_millis(150)).await;
            tokio::task::block_in_place(|| {
                server.stop(how);
                server.start_again();
            });
        }
        // The writers stop when they are through, not before.
        std::future::pending::<()>().await;
    };
    let stores: [&dyn StreamStore; 2] = [&one, &two];
    tokio::select! {
        answers = load::write(&stores, &streams, 250) => answers.check(&one).await,
        () = restarting => {}
    }
}

/// The server, as a process of its own: appends for ever, and says what was acknowledged. What it is to do comes by its input.
#[tokio::test]
#[ignore = "started by `a_server_that_is_killed_has_lied_to_nobody`"]
async fn server_that_will_be_killed() {
    let mut lines = std::io::stdin().lines().map_while(Result::ok);
    let (Some(url), Some(round)) = (lines.next(), lines.next()) else {
        return;
    };
    let store = connect(&url).await;
    let round: u64 = round.parse().unwrap();
    let writers = (0..4).map(|writer| {
        let store = &store;
        async move {
            for seq in 0.. {
                let answer = store.append(entry(writer, round, seq)).await;
                assert!(matches!(answer, Ok(Outcome::Appended(_))), "{answer:?}");
                writeln!(std::io::stdout(), "stored {writer} {seq}").unwrap();
            }
        }
    });
    futures_util::future::join_all(writers).await;
}

fn entry(writer: u64, round: u64, seq: u64) -> Append {
    Append {
        producer: claim(&writer.to_string(), round, seq),
        ..append("s", &format!("{writer} {round} {seq}"))
    }
}

#[tokio::test]
async fn a_server_that_is_killed_has_lied_to_nobody() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = connect(&server.url()).await;
    created(store.create(create("s")).await);
    let mut stored: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for round in 0..5 {
        for (writer, seq) in run_and_kill(&server.url(), round) {
            stored.insert((writer, round), seq);
        }
        // Each writer asks again for what it was not told of: the next one, which is stored already or not.
        for writer in 0..4 {
            let next = stored.get(&(writer, round)).map_or(0, |seq| seq + 1);
            let answer = store.append(entry(writer, round, next)).await;
            assert!(
                matches!(answer, Ok(Outcome::Appended(_) | Outcome::Duplicate(_))),
                "{answer:?}"
            );
            stored.insert((writer, round), next);
        }
    }
    let page = store
        .read(&name("s"), ReadFrom::Start, usize::MAX, NOW)
        .await
        .unwrap()
        .unwrap();
    let mut next: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for entry in &page.entries {
        let text = std::str::from_utf8(&entry.data).unwrap();
        let numbers: Vec<u64> = text
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        let expected = next.entry((numbers[0], numbers[1])).or_default();
        assert_eq!(numbers[2], *expected, "in order and once: {text}");
        *expected += 1;
    }
    for (writer, last) in stored {
        assert_eq!(next[&writer], last + 1);
    }
}

/// What it said was stored before it was killed, in the middle of whatever it did.
fn run_and_kill(url: &str, round: u64) -> Vec<(u64, u64)> {
    let mut process = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "postgres::crashes::server_that_will_be_killed"])
        .args(["--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(process.stdin.take().unwrap(), "{url}\n{round}").unwrap();
    let said = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut stored = Vec::new();
    for line in said {
        // What it said and was not read yet is read to its end: it was said before the kill.
        if let Some((writer, seq)) = line
            .strip_prefix("stored ")
            .and_then(|rest| rest.split_once(' '))
        {
            stored.push((writer.parse().unwrap(), seq.parse().unwrap()));
        }
        if stored.len() == 40 + usize::try_from(round).unwrap() * 7 {
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    assert!(stored.len() >= 40);
    stored
}
