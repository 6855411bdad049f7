//! Forks, and what they hold on to.

use super::*;

#[tokio::test]
async fn a_fork_inherits_and_goes_its_own_way() {
    let store = MemoryStore::default();
    store
        .create(Create {
            payload: Some(bytes("first")),
            ..create("a")
        })
        .await
        .unwrap();
    let middle = store.tail("a").await;
    store.append(append("a", "second")).await.unwrap();
    store.create(fork("b", "a", Some(middle), 3)).await.unwrap();
    store.append(append("a", "third")).await.unwrap();
    store.append(append("b", "!")).await.unwrap();
    assert_eq!(store.text("b").await.unwrap(), "firstsec!");
    assert_eq!(store.text("a").await.unwrap(), "firstsecondthird");
    // An offset of the common part is good for both, one of the source alone is not.
    let page = store
        .read(&name("b"), ReadFrom::At(middle), 99, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(page.entries.len(), 2);
    let foreign = ReadFrom::At(store.tail("a").await);
    assert_eq!(
        store.read(&name("b"), foreign, 99, NOW).await.unwrap(),
        Err(Unseen::ForeignOffset)
    );
    // A fork of the fork, inside of what was inherited and inside of its own.
    store
        .create(fork("c", "b", Some(Offset::START), 2))
        .await
        .unwrap();
    assert_eq!(store.text("c").await.unwrap(), "fi");
    store.create(fork("d", "b", None, 0)).await.unwrap();
    assert_eq!(store.text("d").await.unwrap(), "firstsec!");
    assert!(matches!(
        store.create(fork("d", "b", None, 0)).await,
        Ok(Outcome::Exists(_))
    ));
    assert_eq!(
        store.create(fork("d", "a", None, 0)).await,
        Err(Refusal::Differs { what: "source" })
    );
}

#[tokio::test]
async fn forks_that_are_refused() {
    let store = MemoryStore::default();
    store
        .create(Create {
            payload: Some(bytes("hi")),
            ..create("a")
        })
        .await
        .unwrap();
    let far = Offset::new(StreamId(9_999_999_999_999_999), 9_999_999_999_999_999);
    let table = [
        (
            fork("f", "x", None, 0),
            Refusal::SourceNotFound {
                source_name: name("x"),
            },
        ),
        (fork("f", "a", Some(far), 0), Refusal::ForkOffset),
        (fork("f", "a", None, 1), Refusal::ForkSubOffset),
        (
            fork("f", "a", Some(Offset::START), 3),
            Refusal::ForkSubOffset,
        ),
        (
            Create {
                content_type: json(),
                ..fork("f", "a", None, 0)
            },
            Refusal::SourceContentType {
                expected: text().unwrap(),
            },
        ),
    ];
    for (refused, refusal) in table {
        assert_eq!(store.create(refused).await, Err(refusal));
    }
    // None of them holds on to the source.
    store.delete("a").await.unwrap();
    assert_eq!(
        store.head(&name("a"), NOW).await.unwrap(),
        Err(Unseen::NotFound)
    );
}

#[tokio::test]
async fn a_source_stays_until_its_last_fork_is_gone() {
    let store = MemoryStore::default();
    store
        .create(Create {
            payload: Some(bytes("A")),
            ..create("0")
        })
        .await
        .unwrap();
    store
        .create(Create {
            payload: Some(bytes("B")),
            ..fork("1", "0", None, 0)
        })
        .await
        .unwrap();
    store
        .create(Create {
            payload: Some(bytes("C")),
            ..fork("2", "1", None, 0)
        })
        .await
        .unwrap();
    store.delete("0").await.unwrap();
    store.delete("1").await.unwrap();
    assert_eq!(store.text("2").await.unwrap(), "ABC");
    for held in ["0", "1"] {
        assert_eq!(store.text(held).await, Err(Unseen::Gone));
        assert_eq!(store.append(append(held, "x")).await, Err(Refusal::Gone));
        assert_eq!(store.delete(held).await, Err(Refusal::Gone));
        assert_eq!(store.create(create(held)).await, Err(Refusal::NameHeld));
        let source_name = name(held);
        assert_eq!(
            store.create(fork("3", held, None, 0)).await,
            Err(Refusal::SourceGone { source_name })
        );
    }
    store.delete("2").await.unwrap();
    for gone in ["0", "1", "2"] {
        assert_eq!(store.text(gone).await, Err(Unseen::NotFound));
    }
    let tables = store.lock();
    assert_eq!((tables.entries.len(), tables.streams.len()), (0, 0));
}
