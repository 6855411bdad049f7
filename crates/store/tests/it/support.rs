//! Short words for what tests do with streams.

use std::path::Path;

use bytes::Bytes;
use holm_store::{SqliteOptions, SqliteStreams};
use holm_thread_log::{
    Append, Claim, Command, ContentType, Create, Ending, Outcome, Payload, ReadFrom, Result,
    StreamName, StreamStore, Timestamp,
};

pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

pub(crate) fn create(stream: &str) -> Create {
    Create {
        name: name(stream),
        content_type: Some(ContentType::octet_stream()),
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork: None,
        writer: None,
        documents: Vec::new(),
    }
}

pub(crate) fn append(stream: &str, body: impl Into<Bytes>) -> Append {
    Append {
        name: name(stream),
        content_type: Some(ContentType::octet_stream()),
        payload: Some(Payload::Bytes(body.into())),
        producer: None,
        stream_seq: None,
        ending: Ending::Open,
        writer: None,
        documents: Vec::new(),
    }
}

/// An entry that says which it is, from a producer that numbers its requests.
pub(crate) fn numbered(stream: &str, seq: u64) -> Append {
    Append {
        producer: Some(Claim {
            producer: "p".parse().unwrap(),
            epoch: 0,
            seq,
        }),
        ..append(stream, format!("{seq:08}"))
    }
}

pub(crate) fn open(path: &Path) -> SqliteStreams {
    SqliteStreams::open(path, SqliteOptions::default()).unwrap()
}

pub(crate) async fn make(store: &dyn StreamStore, stream: &str) {
    let decision = store
        .apply(Command::Create(create(stream)), NOW)
        .await
        .unwrap();
    assert!(
        matches!(decision, Ok(Outcome::Created(_) | Outcome::Exists(_))),
        "{decision:?}"
    );
}

/// What the store has to say to an append that nothing is wrong with.
pub(crate) async fn add(store: &dyn StreamStore, append: Append) -> Result<Outcome> {
    let decision = store.apply(Command::Append(append), NOW).await?;
    Ok(decision.unwrap())
}

/// All entries, in order.
pub(crate) async fn entries(store: &dyn StreamStore, stream: &str) -> Vec<Bytes> {
    let mut all = Vec::new();
    let mut from = ReadFrom::Start;
    loop {
        let page = store.read(&name(stream), from, 1 << 20, NOW).await;
        let page = page.unwrap().unwrap();
        if page.entries.is_empty() {
            return all;
        }
        from = ReadFrom::At(page.next);
        all.extend(page.entries.into_iter().map(|entry| entry.data));
    }
}

/// How many numbered entries there are. Each is there once and in its place.
pub(crate) async fn count_numbered(store: &dyn StreamStore, stream: &str) -> u64 {
    let entries = entries(store, stream).await;
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(*entry, format!("{number:08}"), "of `{stream}`");
    }
    u64::try_from(entries.len()).unwrap()
}
