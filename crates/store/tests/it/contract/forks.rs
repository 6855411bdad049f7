//! Forks: they begin with what their source had, whatever becomes of it.

use holm_thread_log::{Offset, Outcome, ReadFrom, Refusal, StreamStore, Unseen};

use super::{NOW, Use as _, append, appended, create, created, fork, name};

pub(crate) async fn check(store: &dyn StreamStore) {
    forks_of_forks(store).await;
    a_source_that_is_deleted(store).await;
    parts_of_entries(store).await;
    pages_over_a_seam(store).await;
}

async fn fill(store: &dyn StreamStore, stream: &str, bodies: &[&str]) -> Vec<Offset> {
    let mut tails = Vec::new();
    for body in bodies {
        tails.push(appended(store.append(append(stream, body)).await).tail);
    }
    tails
}

async fn forks_of_forks(store: &dyn StreamStore) {
    created(store.create(create("f/root")).await);
    let root = fill(store, "f/root", &["a", "b", "c"]).await;
    let one = created(
        store
            .create(fork("f/one", "f/root", Some(root[1]), 0))
            .await,
    );
    assert_eq!(store.state("f/one").await.unwrap(), one);
    let tails = fill(store, "f/one", &["d", "e"]).await;
    created(
        store
            .create(fork("f/two", "f/one", Some(tails[0]), 0))
            .await,
    );
    fill(store, "f/two", &["f"]).await;
    created(store.create(fork("f/end", "f/two", None, 0)).await);
    fill(store, "f/root", &["later"]).await;
    assert_eq!(store.text("f/root").await.unwrap(), "a|b|c|later");
    assert_eq!(store.text("f/one").await.unwrap(), "a|b|d|e");
    assert_eq!(store.text("f/two").await.unwrap(), "a|b|d|f");
    assert_eq!(store.text("f/end").await.unwrap(), "a|b|d|f");
    assert_eq!(store.state("f/root").await.unwrap().forks, 1);
    let again = store
        .create(fork("f/one", "f/root", Some(root[1]), 0))
        .await;
    assert!(matches!(again, Ok(Outcome::Exists(_))), "{again:?}");
}

async fn a_source_that_is_deleted(store: &dyn StreamStore) {
    created(store.create(create("g/root")).await);
    fill(store, "g/root", &["a", "b"]).await;
    created(store.create(fork("g/fork", "g/root", None, 0)).await);
    created(store.create(fork("g/leaf", "g/fork", None, 0)).await);
    assert_eq!(store.delete("g/root").await, Ok(Outcome::Deleted));
    assert_eq!(store.state("g/root").await, Err(Unseen::Gone));
    assert_eq!(store.create(create("g/root")).await, Err(Refusal::NameHeld));
    assert_eq!(store.delete("g/fork").await, Ok(Outcome::Deleted));
    assert_eq!(store.text("g/leaf").await.unwrap(), "a|b");
    let listed = store.list("g/", None, 10, NOW).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    // With the last fork all of them go, and their names are free.
    assert_eq!(store.delete("g/leaf").await, Ok(Outcome::Deleted));
    for stream in ["g/root", "g/fork", "g/leaf"] {
        assert_eq!(store.state(stream).await, Err(Unseen::NotFound), "{stream}");
        created(store.create(create(stream)).await);
    }
}

async fn parts_of_entries(store: &dyn StreamStore) {
    created(store.create(create("h/root")).await);
    let root = fill(store, "h/root", &["one", "second"]).await;
    let made = created(
        store
            .create(fork("h/fork", "h/root", Some(root[0]), 3))
            .await,
    );
    assert_eq!(store.state("h/fork").await.unwrap(), made);
    fill(store, "h/fork", &["!"]).await;
    assert_eq!(store.text("h/fork").await.unwrap(), "one|sec|!");
    let beyond = fork("h/beyond", "h/root", Some(root[0]), 7);
    assert_eq!(store.create(beyond).await, Err(Refusal::ForkSubOffset));
    let foreign = fork("h/foreign", "h/root", Some(Offset::new(made.id, 1)), 0);
    assert_eq!(store.create(foreign).await, Err(Refusal::ForkOffset));
}

async fn pages_over_a_seam(store: &dyn StreamStore) {
    created(store.create(create("i/root")).await);
    fill(store, "i/root", &["aa", "bb"]).await;
    created(store.create(fork("i/fork", "i/root", None, 0)).await);
    fill(store, "i/fork", &["cc", "dd"]).await;
    let fork = name("i/fork");
    for (bytes_max, count) in [(3, 1), (4, 2), (5, 2), (6, 3), (8, 4)] {
        let page = store
            .read(&fork, ReadFrom::Start, bytes_max, NOW)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(page.entries.len(), count, "{bytes_max}");
        let rest = store
            .read(&fork, ReadFrom::At(page.next), 100, NOW)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(rest.entries.len(), 4 - count, "{bytes_max}");
    }
}
