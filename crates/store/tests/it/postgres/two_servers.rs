//! Two servers over one database.

use std::time::Duration;

use futures_util::future::join_all;
use holm_testkit::PostgresServer;
use holm_thread_log::{Append, Expect, Fed, Outcome, Refusal, StreamStore};
use tokio::time::timeout;

use super::{connect, load, start};
use crate::contract::{Use as _, append, appended, claim, create, created, key, name, put};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_acknowledged_append_is_there_once_and_in_order() {
    let Some((one, server)) = start().await else {
        return;
    };
    let two = connect(&server.url()).await;
    let streams = ["s/0", "s/1", "s/2", "s/3"];
    load::make(&one, &streams).await;
    let stores: [&dyn StreamStore; 4] = [&one, &two, &one, &two];
    load::write(&stores, &streams, 40).await.check(&two).await;
}

#[tokio::test]
async fn of_two_that_make_a_stream_one_does() {
    let Some((one, server)) = start().await else {
        return;
    };
    let two = connect(&server.url()).await;
    let race = |number: usize| {
        let (one, two) = (&one, &two);
        async move {
            let stream = format!("s/{number}");
            let answers = tokio::join!(one.create(create(&stream)), two.create(create(&stream)));
            match answers {
                (Ok(Outcome::Created(made)), Ok(Outcome::Exists(found)))
                | (Ok(Outcome::Exists(found)), Ok(Outcome::Created(made))) => {
                    assert_eq!(made, found);
                }
                other => panic!("{other:?}"),
            }
        }
    };
    join_all((0..40).map(race)).await;
    // What one server knew is forgotten when the other has changed it.
    for round in 0..5 {
        assert_eq!(one.delete("s/0").await, Ok(Outcome::Deleted));
        assert_eq!(two.append(append("s/0", "x")).await, Err(Refusal::NotFound));
        created(two.create(create("s/0")).await);
        appended(one.append(append("s/0", &round.to_string())).await);
        assert_eq!(two.text("s/0").await.unwrap(), round.to_string());
    }
}

#[tokio::test]
async fn a_change_on_one_wakes_readers_of_the_other() {
    let Some((one, server)) = start().await else {
        return;
    };
    let two = connect(&server.url()).await;
    created(one.create(create("s")).await);
    let mut other = two.watch(&name("t"));
    let mut feed = two.feed();
    for number in 0..20 {
        let mut watch = two.watch(&name("s"));
        appended(one.append(append("s", &number.to_string())).await);
        timeout(PATIENCE, watch.changed())
            .await
            .expect("woken by the other server");
        assert_eq!(
            timeout(PATIENCE, feed.next()).await.unwrap(),
            Fed::Changed(name("s"))
        );
    }
    // More names than one notification holds.
    let long = |number: usize| format!("{number}/{}", "x".repeat(500));
    let mut watches: Vec<_> = (0..40)
        .map(|number| two.watch(&name(&long(number))))
        .collect();
    for answer in join_all((0..40).map(|number| one.create(create(&long(number))))).await {
        created(answer);
    }
    for watch in &mut watches {
        timeout(PATIENCE, watch.changed())
            .await
            .expect("woken by the other server");
    }
    tokio::select! {
        biased;
        () = other.changed() => panic!("woken by another stream"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn producers_are_known_to_both() {
    let Some((one, server)) = start().await else {
        return;
    };
    let two = connect(&server.url()).await;
    created(one.create(create("s")).await);
    let send = |epoch, seq| Append {
        producer: claim("p", epoch, seq),
        ..append("s", &format!("{epoch}.{seq}"))
    };
    for seq in 0..30 {
        // The writer has lost patience with one server, and asks the other: one of them stores it.
        match tokio::join!(one.append(send(1, seq)), two.append(send(1, seq))) {
            (Ok(Outcome::Appended(first)), Ok(Outcome::Duplicate(second)))
            | (Ok(Outcome::Duplicate(second)), Ok(Outcome::Appended(first))) => {
                assert_eq!(first, second);
            }
            other => panic!("{other:?}"),
        }
    }
    appended(two.append(send(2, 0)).await);
    assert_eq!(
        one.append(send(1, 30)).await,
        Err(Refusal::StaleEpoch { current: 2 })
    );
    let expected: Vec<String> = (0..30)
        .map(|seq| format!("1.{seq}"))
        .chain(["2.0".to_owned()])
        .collect();
    assert_eq!(one.text("s").await.unwrap(), expected.join("|"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_count_what_both_have_written() {
    const COUNT: u64 = 40;
    let Some((one, server)) = start().await else {
        return;
    };
    let two = connect(&server.url()).await;
    created(one.create(create("tally/t")).await);
    let raise = |store| async move {
        let store: &dyn StreamStore = store;
        for _ in 0..COUNT {
            appended(store.append(append("tally/t", "x")).await);
            // A document that is changed only as it was seen.
            loop {
                let seen = store.document(&key("things", "count")).await.unwrap();
                let expect = seen
                    .as_ref()
                    .map_or(Expect::Absent, |seen| Expect::Version(seen.version));
                match store.write(vec![put("count", expect, "", &[])]).await {
                    Ok(Outcome::Written) => break,
                    Err(Refusal::DocumentChanged { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    tokio::join!(
        raise(&one as &dyn StreamStore),
        raise(&two as &dyn StreamStore)
    );
    let count = one
        .document(&key("things", "count"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(count.version, 2 * COUNT);
    let tally = two.document(&key("tallies", "t")).await.unwrap().unwrap();
    assert_eq!(tally.content.body, (2 * COUNT).to_string());
}

/// A server is dropped: what it had taken is stored, and the other goes on.
#[tokio::test]
async fn a_server_that_leaves_is_not_missed() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    created(one.create(create("s")).await);
    drop(one);
    appended(two.append(append("s", "x")).await);
    assert_eq!(two.text("s").await.unwrap(), "x");
}
