//! Commands that the database does not take, more of them than it can, and what is left of what was removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::{
    Append, Command, Expect, NoRules, Outcome, Payload, StoreError, StreamStore,
};
use tokio::time::{sleep, timeout};

use super::{client, start};
use crate::contract::{NOW, Use as _, append, appended, claim, create, created, put};

/// Postgres keeps no NUL in a text. Whoever sends one is told; those whose commands were stored with it do not notice.
#[tokio::test]
async fn a_bad_command_fails_alone() {
    let Some((store, _server)) = start().await else {
        return;
    };
    created(store.create(create("s")).await);
    let commands = (0..20).map(|number| match number % 5 {
        3 => Command::Write {
            documents: vec![put("a\0b", Expect::Anything, "", &[])],
        },
        _ => Command::Append(append("s", "x")),
    });
    let answers = join_all(commands.map(|command| store.apply(command, NOW))).await;
    for (number, answer) in answers.into_iter().enumerate() {
        match number % 5 {
            3 => assert!(
                matches!(answer, Err(StoreError::Failed { .. })),
                "{answer:?}"
            ),
            _ => drop(appended(answer.unwrap())),
        }
    }
    assert_eq!(store.text("s").await.unwrap(), ["x"; 16].join("|"));
}

/// Somebody else has the turn for a while; what does not fit into the queue meanwhile is refused, and was not stored.
#[tokio::test]
async fn a_full_queue_says_so() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    for (commands, bytes) in [(10, 1 << 20), (1000, 10 << 10)] {
        let options = PostgresOptions {
            queued_commands_max: commands,
            queued_bytes_max: bytes,
            ..PostgresOptions::default()
        };
        let store = PostgresStreams::connect(&server.url(), Arc::new(NoRules), options)
            .await
            .unwrap();
        let stream = format!("s/{commands}");
        created(store.create(create(&stream)).await);
        let holder = client(&server.url()).await;
        holder
            .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7525352717766623234)")
            .await
            .unwrap();
        let sent = join_all((0..50).map(|number| {
            store.apply(
                Command::Append(append(&stream, &format!("{number:0900}"))),
                NOW,
            )
        }));
        let release = async {
            sleep(Duration::from_millis(100)).await;
            holder.batch_execute("COMMIT").await.unwrap();
        };
        let (answers, ()) = tokio::join!(sent, release);
        let refused = answers
            .iter()
            .filter(|answer| matches!(answer, Err(StoreError::Busy)))
            .count();
        let stored = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Ok(Outcome::Appended(_)))))
            .count();
        assert_eq!(refused + stored, 50, "{answers:?}");
        assert!((10..30).contains(&stored), "{stored} of 50 were stored");
        assert_eq!(
            store.text(&stream).await.unwrap().split('|').count(),
            stored
        );
        // There is room again; also for one that is bigger than the whole queue.
        let payload = Some(Payload::Bytes(Bytes::from(vec![b'x'; 2 << 20])));
        appended(
            store
                .append(Append {
                    payload,
                    ..append(&stream, "")
                })
                .await,
        );
    }
}

/// What the database refuses for a moment is tried again, and what it has no space for is said to be so.
#[tokio::test]
async fn errors_that_pass_and_errors_that_stay() {
    let Some((store, server)) = start().await else {
        return;
    };
    let client = client(&server.url()).await;
    created(store.create(create("s")).await);
    let fail = |code: &str, times: u32| {
        format!(
            "CREATE SEQUENCE IF NOT EXISTS failures;
             SELECT setval('failures', 1, false);
             CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF nextval('failures') <= {times} THEN
                     RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON holm.log_entries FOR EACH ROW EXECUTE FUNCTION fail()"
        )
    };
    let mut expected = Vec::new();
    // A deadlock, a serialisation failure, too many connections, a shutdown, a turn that somebody else took.
    for code in ["40P01", "40001", "53300", "57P01", "23505"] {
        client.batch_execute(&fail(code, 3)).await.unwrap();
        appended(store.append(append("s", code)).await);
        expected.push(code);
        assert_eq!(store.text("s").await.unwrap(), expected.join("|"));
    }
    // The disk is full, for all who were stored together; and then it is not.
    client.batch_execute(&fail("53100", 1000)).await.unwrap();
    let sent = (0..10).map(|_| store.apply(Command::Append(append("s", "lost")), NOW));
    for answer in join_all(sent).await {
        assert!(matches!(answer, Err(StoreError::Full { .. })), "{answer:?}");
    }
    assert_eq!(store.text("s").await.unwrap(), expected.join("|"));
    client
        .batch_execute("DROP TRIGGER fail ON holm.log_entries")
        .await
        .unwrap();
    appended(store.append(append("s", "kept")).await);
    expected.push("kept");
    assert_eq!(store.text("s").await.unwrap(), expected.join("|"));
}

#[tokio::test]
async fn what_was_removed_leaves_nothing_behind() {
    let Some((store, server)) = start().await else {
        return;
    };
    let client = client(&server.url()).await;
    for stream in ["tally/a", "tally/b"] {
        created(store.create(create(stream)).await);
        let sent = (0..100).map(|seq| {
            let producer = claim(&format!("p{seq}"), 0, 0);
            store.append(Append {
                producer,
                ..append(stream, "x")
            })
        });
        join_all(sent)
            .await
            .into_iter()
            .for_each(|answer| assert!(appended(answer).producer.is_some()));
    }
    assert_eq!(store.delete("tally/a").await, Ok(Outcome::Deleted));
    let left = "SELECT (SELECT count(*) FROM holm.log_entries), (SELECT count(*) FROM holm.log_producers),
                       (SELECT count(*) FROM holm.log_garbage), (SELECT count(*) FROM holm.log_documents),
                       (SELECT count(DISTINCT id) FROM holm.log_terms)";
    let cleared = async {
        loop {
            let row = client.query_one(left, &[]).await.unwrap();
            let counts: [i64; 5] = std::array::from_fn(|index| row.get(index));
            if counts == [100, 100, 0, 1, 1] {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), cleared)
        .await
        .expect("the other stream's rows alone are left");
}

#[tokio::test]
async fn an_address_that_is_wrong() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let unreachable = "postgres://holm:hunter2@127.0.0.1:1/postgres".to_owned();
    let missing = server.url().replace(":5432/postgres", ":5432/missing");
    for url in [unreachable, missing] {
        let error = PostgresStreams::connect(&url, Arc::new(NoRules), PostgresOptions::default())
            .await
            .unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            error
                .to_string()
                .starts_with("could not connect to the database `"),
            "{text}"
        );
        assert!(
            error.hint().is_some() && !text.contains("hunter2"),
            "{text}"
        );
    }
}
