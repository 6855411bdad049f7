//! Entries: exactly what was sent, once, in the order of the answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use holm_thread_log::{
    Append, Command, ContentType, Create, Offset, Outcome, Payload, ProducerState, ReadFrom,
    Refusal, StreamStore,
};

use super::{
    NOW, Use as _, append, append_json, appended, claim, create, created, duplicate, name,
};

pub(crate) async fn check(store: &dyn StreamStore) {
    bytes_are_exact(store).await;
    producers(store).await;
    keys(store).await;
    stream_seq(store).await;
    many_at_once(store).await;
    neighbours(store).await;
}

async fn bytes_are_exact(store: &dyn StreamStore) {
    let made = Create {
        content_type: None,
        ..create("bytes")
    };
    created(store.create(made).await);
    let bodies: [&[u8]; 4] = [b"\0", b"\xff\xfe\0\\x41", b"'); DROP TABLE", &[7; 300_000]];
    let mut size = 0;
    for body in bodies {
        let payload = Some(Payload::Bytes(Bytes::copy_from_slice(body)));
        let content_type = Some(ContentType::octet_stream());
        let sent = Append {
            payload,
            content_type,
            ..append("bytes", "")
        };
        appended(store.append(sent).await);
        size += body.len();
    }
    let page = store
        .read(&name("bytes"), ReadFrom::Start, usize::MAX, NOW)
        .await
        .unwrap()
        .unwrap();
    let read: Vec<&[u8]> = page
        .entries
        .iter()
        .map(|entry| entry.data.as_ref())
        .collect();
    assert_eq!(read, bodies);
    assert_eq!(page.stream.size_bytes, u64::try_from(size).unwrap());
    assert_eq!(page.stream.tail_position, 4);
}

async fn producers(store: &dyn StreamStore) {
    created(store.create(create("produced")).await);
    let send = async |producer: &str, epoch, seq, body: &str| {
        let producer = claim(producer, epoch, seq);
        store
            .append(Append {
                producer,
                ..append("produced", body)
            })
            .await
    };
    let state = |epoch, last_seq| Some(ProducerState { epoch, last_seq });
    assert_eq!(appended(send("p", 3, 0, "a").await).producer, state(3, 0));
    assert_eq!(appended(send("p", 3, 1, "b").await).producer, state(3, 1));
    assert_eq!(appended(send("p 2", 0, 0, "c").await).producer, state(0, 0));
    assert_eq!(duplicate(send("p", 3, 0, "a").await).producer, state(3, 1));
    let gap = Refusal::Gap {
        expected: 2,
        received: 7,
    };
    assert_eq!(send("p", 3, 7, "x").await, Err(gap));
    assert_eq!(appended(send("p", 4, 0, "d").await).producer, state(4, 0));
    assert_eq!(
        send("p", 3, 2, "x").await,
        Err(Refusal::StaleEpoch { current: 4 })
    );
    assert_eq!(store.text("produced").await.unwrap(), "a|b|c|d");
}

async fn keys(store: &dyn StreamStore) {
    let json = Create {
        content_type: Some(ContentType::json()),
        ..create("keyed")
    };
    created(store.create(json).await);
    let first = append_json(
        "keyed",
        &[("1", Some("k1")), ("2", Some("k2")), ("3", None)],
    );
    appended(store.append(first.clone()).await);
    appended(
        store
            .append(append_json(
                "keyed",
                &[("2", Some("k2")), ("4", Some("k\u{e4}4"))],
            ))
            .await,
    );
    duplicate(
        store
            .append(append_json(
                "keyed",
                &[("4", Some("k\u{e4}4")), ("1", Some("k1"))],
            ))
            .await,
    );
    assert_eq!(store.text("keyed").await.unwrap(), "1,2,3|4");
}

async fn stream_seq(store: &dyn StreamStore) {
    created(store.create(create("sequence")).await);
    let send = async |seq: &str| {
        let stream_seq = Some(seq.to_owned());
        store
            .append(Append {
                stream_seq,
                ..append("sequence", "x")
            })
            .await
    };
    appended(send("a").await);
    let last = "a".to_owned();
    assert_eq!(send("B").await, Err(Refusal::StreamSeq { last }));
    appended(send("b").await);
    assert_eq!(
        store
            .state("sequence")
            .await
            .unwrap()
            .last_stream_seq
            .as_deref(),
        Some("b")
    );
}

/// Each is stored once, and lies where its answer says.
async fn many_at_once(store: &dyn StreamStore) {
    for stream in ["many/0", "many/1", "many/2"] {
        created(store.create(create(stream)).await);
    }
    let sent = (0..300).map(|number| async move {
        let stream = format!("many/{}", number % 3);
        let body = format!("message {number}");
        let tail = appended(store.append(append(&stream, &body)).await).tail;
        (stream, (tail, body))
    });
    let mut expected: BTreeMap<String, BTreeMap<Offset, String>> = BTreeMap::new();
    for (stream, (tail, body)) in join_all(sent).await {
        let replaced = expected.entry(stream).or_default().insert(tail, body);
        assert_eq!(replaced, None, "two answers with one offset");
    }
    for (stream, entries) in expected {
        let page = store
            .read(&name(&stream), ReadFrom::Start, usize::MAX, NOW)
            .await
            .unwrap()
            .unwrap();
        let read = page
            .entries
            .into_iter()
            .map(|entry| (entry.next, String::from_utf8(entry.data.to_vec()).unwrap()));
        assert_eq!(
            read.collect::<Vec<_>>(),
            entries.into_iter().collect::<Vec<_>>()
        );
    }
}

/// Commands that are stored together succeed and fail each for itself; and each sees those before it.
async fn neighbours(store: &dyn StreamStore) {
    created(store.create(create("shared")).await);
    let retry = Append {
        producer: claim("p", 0, 0),
        ..append("shared", "once")
    };
    let commands = vec![
        Command::Append(retry.clone()),
        Command::Append(append("missing", "x")),
        Command::Append(retry.clone()),
        Command::Create(create("shared/new")),
        Command::Append(append("shared/new", "y")),
        Command::Delete {
            name: name("shared/new"),
        },
        Command::Create(create("shared/new")),
        Command::Append(retry),
    ];
    let answers = join_all(commands.into_iter().map(|command| store.at(NOW, command))).await;
    let count = |wanted: fn(&Outcome) -> bool| {
        answers
            .iter()
            .filter(|answer| answer.as_ref().is_ok_and(wanted))
            .count()
    };
    assert_eq!(
        count(|outcome| matches!(outcome, Outcome::Appended(_))),
        2,
        "{answers:?}"
    );
    assert_eq!(
        count(|outcome| matches!(outcome, Outcome::Duplicate(_))),
        2,
        "{answers:?}"
    );
    assert_eq!(
        count(|outcome| matches!(outcome, Outcome::Created(_))),
        2,
        "{answers:?}"
    );
    assert_eq!(answers[1], Err(Refusal::NotFound));
    assert_eq!(store.text("shared").await.unwrap(), "once");
    assert_eq!(store.text("shared/new").await.unwrap(), "");
}
