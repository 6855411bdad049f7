//! Making, reading, waiting, ending.

use super::*;

#[tokio::test]
async fn a_stream_is_made_once() {
    let store = MemoryStore::default();
    assert!(matches!(
        store.create(create("a")).await,
        Ok(Outcome::Created(_))
    ));
    assert!(matches!(
        store.create(create("a")).await,
        Ok(Outcome::Exists(_))
    ));
    let table = [
        (
            Create {
                content_type: json(),
                ..create("a")
            },
            "content type",
        ),
        (
            Create {
                lifetime: Some(Lifetime::Sliding { seconds: 1 }),
                ..create("a")
            },
            "lifetime",
        ),
        (
            Create {
                ending: Ending::Closed,
                ..create("a")
            },
            "closed state",
        ),
    ];
    for (other, what) in table {
        assert_eq!(store.create(other).await, Err(Refusal::Differs { what }));
    }
}

#[tokio::test]
async fn readers_resume_and_pages_are_bounded_by_bytes() {
    let store = MemoryStore::default();
    store.create(create("a")).await.unwrap();
    for word in ["one", "two", "three"] {
        store.append(append("a", word)).await.unwrap();
    }
    let first = store
        .read(&name("a"), ReadFrom::Start, 6, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        first
            .entries
            .iter()
            .map(|entry| &entry.data[..])
            .collect::<Vec<_>>(),
        [b"one", b"two"]
    );
    assert_eq!(first.freshness, Freshness::MoreToRead);
    // An entry that is bigger than the page is a page.
    let second = store
        .read(&name("a"), ReadFrom::At(first.next), 1, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&second.entries[0].data[..], b"three");
    assert_eq!(
        (second.freshness, second.next),
        (Freshness::UpToDate, store.tail("a").await)
    );
    let third = store
        .read(&name("a"), ReadFrom::At(second.next), 1, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((third.entries.len(), third.next), (0, second.next));
    let now = store
        .read(&name("a"), ReadFrom::Now, 1, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((now.entries.len(), now.next), (0, second.next));
}

#[tokio::test]
async fn an_offset_is_good_for_one_stream_and_one_life_of_it() {
    let store = MemoryStore::default();
    for stream in ["a", "b"] {
        store
            .create(Create {
                payload: Some(bytes("x")),
                ..create(stream)
            })
            .await
            .unwrap();
    }
    let old = store.tail("a").await;
    let (a, b) = (name("a"), name("b"));
    let read = |stream, offset| store.read(stream, ReadFrom::At(offset), 9, NOW);
    assert_eq!(read(&b, old).await.unwrap(), Err(Unseen::ForeignOffset));
    store.delete("a").await.unwrap();
    assert_eq!(read(&a, old).await.unwrap(), Err(Unseen::NotFound));
    store
        .create(Create {
            payload: Some(bytes("y")),
            ..create("a")
        })
        .await
        .unwrap();
    assert_eq!(read(&a, old).await.unwrap(), Err(Unseen::ForeignOffset));
    assert!(store.tail("a").await > old);
}

#[tokio::test]
async fn streams_end_when_nobody_uses_them() {
    let store = MemoryStore::default();
    let sliding = Some(Lifetime::Sliding { seconds: 2 });
    store
        .create(Create {
            lifetime: sliding,
            ..create("a")
        })
        .await
        .unwrap();
    let touch = Command::Touch {
        name: name("a"),
        touch: Touch::Read,
    };
    store.at(later(1500), touch.clone()).await.unwrap();
    assert!(store.head(&name("a"), later(3499)).await.unwrap().is_ok());
    assert_eq!(
        store.head(&name("a"), later(3500)).await.unwrap(),
        Err(Unseen::NotFound)
    );
    assert_eq!(store.at(later(3500), touch).await, Err(Refusal::NotFound));
    assert_eq!(store.lock().streams.len(), 0);
    // Its name is free again, also when it was never swept.
    store
        .create(Create {
            lifetime: sliding,
            ..create("a")
        })
        .await
        .unwrap();
    let again = store.at(later(9000), Command::Create(create("a"))).await;
    assert!(matches!(again, Ok(Outcome::Created(_))));
}

#[tokio::test]
async fn the_sweeper_finds_what_is_overdue() {
    let store = MemoryStore::default();
    store
        .create(Create {
            lifetime: Some(Lifetime::Until(later(10))),
            ..create("a")
        })
        .await
        .unwrap();
    store.create(fork("b", "a", None, 0)).await.unwrap();
    store
        .at(
            NOW,
            Command::Create(Create {
                lifetime: Some(Lifetime::Forever),
                ..fork("c", "a", None, 0)
            }),
        )
        .await
        .unwrap();
    for overdue in store.overdue(later(10), 9).await.unwrap() {
        store
            .at(later(10), Command::Expire { name: overdue })
            .await
            .unwrap();
    }
    assert_eq!(store.overdue(later(10), 9).await.unwrap(), []);
    assert_eq!(
        store.head(&name("a"), later(10)).await.unwrap(),
        Err(Unseen::Gone)
    );
    assert_eq!(
        store.head(&name("b"), later(10)).await.unwrap(),
        Err(Unseen::NotFound)
    );
    let names: Vec<_> = store
        .list("", None, 9, later(10))
        .await
        .unwrap()
        .into_iter()
        .map(|stream| stream.name)
        .collect();
    assert_eq!(names, [name("c")]);
}

#[tokio::test]
async fn readers_are_woken_by_what_they_can_read() {
    let store = MemoryStore::default();
    let mut watch = store.watch(&name("a"));
    store.create(create("a")).await.unwrap();
    watch.changed().await;
    store.append(append("a", "x")).await.unwrap();
    watch.changed().await;
    store.append(close("a")).await.unwrap();
    watch.changed().await;
    let heartbeat = Touch::Heartbeat { writer: None };
    store
        .at(
            later(5),
            Command::Touch {
                name: name("a"),
                touch: heartbeat,
            },
        )
        .await
        .unwrap();
    assert_eq!(
        store
            .head(&name("a"), NOW)
            .await
            .unwrap()
            .unwrap()
            .last_seen,
        Some(later(5))
    );
    tokio::select! {
        biased;
        () = watch.changed() => panic!("woken by a heartbeat"),
        () = std::future::ready(()) => {}
    }
    store.delete("a").await.unwrap();
    watch.changed().await;
}
