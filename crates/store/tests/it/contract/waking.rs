//! Waking: after a change can be read, and before its writer hears of it.

use std::time::Duration;

use holm_thread_log::{Command, Fed, ReadFrom, StreamName, StreamStore, Touch};
use tokio::time::timeout;

use super::{NOW, Use as _, append, appended, close, create, created, name};

/// Long enough for anything that works.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn check(store: &dyn StreamStore) {
    who_watches_is_woken(store).await;
    who_reads_after_a_wake_finds_it(store).await;
    the_feed_names_what_changes(store).await;
}

async fn who_watches_is_woken(store: &dyn StreamStore) {
    let stream = name("watched");
    let mut watch = store.watch(&stream);
    created(store.create(create("watched")).await);
    timeout(PATIENCE, watch.changed())
        .await
        .expect("woken by its making");
    let mut watches: Vec<_> = (0..3).map(|_| store.watch(&stream)).collect();
    appended(store.append(append("watched", "x")).await);
    for watch in &mut watches {
        timeout(PATIENCE, watch.changed())
            .await
            .expect("woken by an entry");
    }
    store.append(close("watched")).await.unwrap();
    timeout(PATIENCE, watches[0].changed())
        .await
        .expect("woken by its closing");
    let mut watch = store.watch(&stream);
    store.delete("watched").await.unwrap();
    timeout(PATIENCE, watch.changed())
        .await
        .expect("woken by its end");
}

async fn who_reads_after_a_wake_finds_it(store: &dyn StreamStore) {
    const COUNT: usize = 50;
    created(store.create(create("followed")).await);
    let stream = name("followed");
    let follow = async {
        let (mut from, mut seen) = (ReadFrom::Start, 0);
        while seen < COUNT {
            let mut watch = store.watch(&stream);
            let page = store
                .read(&stream, from, usize::MAX, NOW)
                .await
                .unwrap()
                .unwrap();
            from = ReadFrom::At(page.next);
            seen += page.entries.len();
            if page.entries.is_empty() {
                timeout(PATIENCE, watch.changed()).await.expect("woken");
            }
        }
        assert_eq!(seen, COUNT);
    };
    let write = async {
        for number in 0..COUNT {
            appended(store.append(append("followed", &number.to_string())).await);
        }
    };
    tokio::join!(follow, write);
}

async fn the_feed_names_what_changes(store: &dyn StreamStore) {
    created(store.create(create("fed/quiet")).await);
    created(store.create(create("fed/one")).await);
    let mut feed = store.feed();
    let heartbeat = Command::Touch {
        name: name("fed/quiet"),
        touch: Touch::Heartbeat { writer: None },
    };
    store.at(NOW, heartbeat).await.unwrap();
    appended(store.append(append("fed/one", "x")).await);
    created(store.create(create("fed/two")).await);
    let wanted: [StreamName; 2] = [name("fed/one"), name("fed/two")];
    let mut heard = Vec::new();
    while heard.len() < 2 {
        match timeout(PATIENCE, feed.next()).await.expect("fed") {
            Fed::Changed(name) if name.as_str().starts_with("fed/") => heard.push(name),
            // A store may say too much, and has to if it does not know.
            Fed::Changed(_) | Fed::Missed => {}
        }
    }
    assert_eq!(heard, wanted);
}
