//! Connections that are lost, above all while something is committed.

use std::sync::Arc;
use std::time::Duration;

use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::{Append, Command, Outcome, StoreError, StreamStore};
use tokio::time::{Instant, sleep, timeout};

use super::proxy::{Fault, Proxy};
use super::{connect, load};
use crate::contract::tally::Tally;
use crate::contract::{NOW, Use as _, append, appended, claim, create, created, duplicate, name};

/// A store that soon loses its patience.
async fn impatient(url: &str) -> PostgresStreams {
    let options = PostgresOptions {
        patience: Duration::from_secs(2),
        ..PostgresOptions::default()
    };
    PostgresStreams::connect(url, Arc::new(Tally), options)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_commit_in_doubt_is_found_out() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let store = connect(&proxy.url()).await;
    created(store.create(create("s")).await);
    let mut expected = Vec::new();
    for (round, fault) in [
        Fault::CutAfter,
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::CutBefore,
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!("{round} {fault:?}");
        proxy.break_next_commit(fault);
        // It has neither a number nor a key: only the store can know whether it is stored.
        appended(store.append(append("s", &body)).await);
        assert!(proxy.is_spent());
        expected.push(body);
        assert_eq!(store.text("s").await.unwrap(), expected.join("|"));
    }
    // Several in a row, too.
    for fault in [Fault::CutBefore, Fault::CutBefore, Fault::CutAfter] {
        proxy.break_next_commit(fault);
    }
    created(store.create(create("t")).await);
    assert!(proxy.is_spent());
    assert!(matches!(
        store.create(create("t")).await,
        Ok(Outcome::Exists(_))
    ));
}

/// The database waits for words that never come, holding the lock that others wait for. Both servers get over it.
#[tokio::test]
async fn a_silent_connection_holds_nobody_up_for_long() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let (stuck, other) = (impatient(&proxy.url()).await, connect(&server.url()).await);
    created(stuck.create(create("s")).await);
    proxy.break_next_commit(Fault::Swallow);
    let started = Instant::now();
    let (one, two) = tokio::join!(stuck.append(append("s", "stuck")), async {
        while !proxy.is_spent() {
            tokio::task::yield_now().await;
        }
        other.append(append("s", "other")).await
    });
    appended(one);
    appended(two);
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    let text = other.text("s").await.unwrap();
    assert!(text == "other|stuck" || text == "stuck|other", "{text}");
}

/// The answer to a commit is lost, and the database cannot be asked: nobody is told anything that may be wrong.
#[tokio::test]
async fn what_cannot_be_found_out_is_not_acknowledged() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let store = impatient(&proxy.url()).await;
    created(store.create(create("s")).await);
    let entry = Append {
        producer: claim("p", 0, 0),
        ..append("s", "in doubt")
    };
    proxy.break_next_commit(Fault::CutAfterAndRefuse);
    let answer = store.apply(Command::Append(entry.clone()), NOW).await;
    assert!(matches!(answer, Err(StoreError::Stopped)), "{answer:?}");
    // The writer asks again, and hears that it was stored.
    proxy.open();
    duplicate(store.append(entry).await);
    assert_eq!(store.text("s").await.unwrap(), "in doubt");
}

#[tokio::test]
async fn an_outage_is_an_error_and_then_over() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let store = impatient(&proxy.url()).await;
    created(store.create(create("s")).await);
    proxy.shut();
    let answer = store.apply(Command::Append(append("s", "lost")), NOW).await;
    assert!(
        matches!(answer, Err(StoreError::Failed { .. })),
        "{answer:?}"
    );
    let read = store.head(&name("s"), NOW).await;
    assert!(matches!(read, Err(StoreError::Failed { .. })), "{read:?}");
    proxy.open();
    appended(store.append(append("s", "kept")).await);
    assert_eq!(store.text("s").await.unwrap(), "kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_under_load_lose_and_double_nothing() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let (cut, whole) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let streams = ["s/0", "s/1", "s/2"];
    load::make(&whole, &streams).await;
    let cutting = async {
        loop {
            for fault in [Fault::CutAfter, Fault::CutBefore] {
                proxy.break_next_commit(fault);
                while !proxy.is_spent() {
                    sleep(Duration::from_millis(1)).await;
                }
            }
            sleep(Duration::from_millis(20)).await;
            proxy.cut_all();
        }
    };
    let stores: [&dyn StreamStore; 2] = [&cut, &whole];
    tokio::select! {
        answers = load::write(&stores, &streams, 25) => answers.check(&whole).await,
        () = cutting => {}
    }
}

/// While nobody listened, something changed: whoever waits is woken.
#[tokio::test]
async fn a_lost_listener_misses_nothing() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server).await;
    let (near, far) = (connect(&server.url()).await, connect(&proxy.url()).await);
    created(near.create(create("s")).await);
    for _ in 0..3 {
        let mut watch = far.watch(&name("s"));
        proxy.shut();
        appended(near.append(append("s", "unheard")).await);
        proxy.open();
        timeout(Duration::from_secs(20), watch.changed())
            .await
            .expect("woken");
    }
}
