//! What is stored, and what is stored once.

use super::*;

#[tokio::test]
async fn a_retry_is_stored_once() {
    let store = MemoryStore::default();
    store.create(create("a")).await.unwrap();
    let first = Append {
        producer: claim(0, 0),
        ..append("a", "x")
    };
    assert!(matches!(
        store.append(first.clone()).await,
        Ok(Outcome::Appended(_))
    ));
    assert!(matches!(
        store.append(first).await,
        Ok(Outcome::Duplicate(_))
    ));
    let ahead = Append {
        producer: claim(0, 2),
        ..append("a", "z")
    };
    assert_eq!(
        store.append(ahead).await,
        Err(Refusal::Gap {
            expected: 1,
            received: 2
        })
    );
    let renewed = Append {
        producer: claim(1, 0),
        ..append("a", "y")
    };
    assert!(matches!(
        store.append(renewed).await,
        Ok(Outcome::Appended(_))
    ));
    let stale = Append {
        producer: claim(0, 1),
        ..append("a", "z")
    };
    assert_eq!(
        store.append(stale).await,
        Err(Refusal::StaleEpoch { current: 1 })
    );
    assert_eq!(store.text("a").await.unwrap(), "xy");
}

#[tokio::test]
async fn messages_with_known_keys_are_left_out() {
    let store = MemoryStore::default();
    store
        .create(Create {
            content_type: json(),
            ..create("a")
        })
        .await
        .unwrap();
    let post = |keys: &[&str]| {
        let message = |key: &&str| Message {
            data: Bytes::from(format!("\"{key}\"")),
            key: Some(key.parse().unwrap()),
        };
        let payload = Some(Payload::Messages(keys.iter().map(message).collect()));
        Append {
            content_type: json(),
            payload,
            ..append("a", "")
        }
    };
    assert!(matches!(
        store.append(post(&["1", "2", "1"])).await,
        Ok(Outcome::Appended(_))
    ));
    assert!(matches!(
        store.append(post(&["2", "1"])).await,
        Ok(Outcome::Duplicate(_))
    ));
    assert!(matches!(
        store.append(post(&["2", "3"])).await,
        Ok(Outcome::Appended(_))
    ));
    let page = store
        .read(&name("a"), ReadFrom::Start, 99, NOW)
        .await
        .unwrap()
        .unwrap();
    let entries: Vec<Bytes> = page.entries.into_iter().map(|entry| entry.data).collect();
    assert_eq!(&crate::json::array(&entries)[..], b"[\"1\",\"2\",\"3\"]");
}

#[tokio::test]
async fn appends_that_are_refused() {
    let store = MemoryStore::default();
    store.create(create("a")).await.unwrap();
    store
        .create(Create {
            content_type: json(),
            ..create("j")
        })
        .await
        .unwrap();
    assert_eq!(
        store.append(append("nothing", "x")).await,
        Err(Refusal::NotFound)
    );
    assert_eq!(store.append(append("a", "")).await, Err(Refusal::Empty));
    let expected = ContentType::json();
    assert_eq!(
        store.append(append("j", "1")).await,
        Err(Refusal::ContentType { expected })
    );
    let empty = Append {
        content_type: json(),
        ..append("j", "[]")
    };
    assert_eq!(store.append(empty).await, Err(Refusal::Empty));
    let broken = Append {
        content_type: json(),
        ..append("j", "{")
    };
    assert!(matches!(store.append(broken).await, Err(Refusal::Json(_))));
    let seq = |seq: &str| Append {
        stream_seq: Some(seq.to_owned()),
        ..append("a", "x")
    };
    store.append(seq("b")).await.unwrap();
    for low in ["a", "b"] {
        assert_eq!(
            store.append(seq(low)).await,
            Err(Refusal::StreamSeq {
                last: "b".to_owned()
            })
        );
    }
    assert_eq!(store.text("a").await.unwrap(), "x");
}

#[tokio::test]
async fn a_closed_stream_takes_nothing_and_knows_its_retries() {
    let store = MemoryStore::default();
    store.create(create("a")).await.unwrap();
    let first = Append {
        producer: claim(0, 0),
        ..append("a", "x")
    };
    store.append(first.clone()).await.unwrap();
    let last = Append {
        producer: claim(0, 1),
        ending: Ending::Closed,
        ..append("a", "y")
    };
    let tail = tail_of(&store.append(last.clone()).await);
    // Whatever was acknowledged, or would have been, is acknowledged again.
    for retry in [first, last] {
        assert!(matches!(
            store.append(retry).await,
            Ok(Outcome::Duplicate(Appended {
                ending: Ending::Closed,
                ..
            }))
        ));
    }
    assert!(matches!(
        store.append(close("a")).await,
        Ok(Outcome::Closed(_))
    ));
    for refused in [
        append("a", "z"),
        Append {
            producer: claim(0, 2),
            ..append("a", "z")
        },
        Append {
            producer: claim(1, 0),
            ..close("a")
        },
    ] {
        assert_eq!(store.append(refused).await, Err(Refusal::Closed { tail }));
    }
    assert_eq!(store.text("a").await.unwrap(), "xy");
}
