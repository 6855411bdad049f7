//! What every store promises, whatever it is made of.
//!
//! Each part gets a store that is empty and has [`Tally`] as its rules. What commands mean is tested in `thread-log`; here it is whether a
//! store keeps what was decided, gives it back as it was, and wakes who waits for it.
//!
//! `contract!` makes a test of each part, for a store that an expression starts.

pub(crate) mod appends;
pub(crate) mod documents;
pub(crate) mod forks;
mod memory;
pub(crate) mod reads;
pub(crate) mod streams;
pub(crate) mod tally;
pub(crate) mod waking;
pub(crate) mod writers;

use bytes::Bytes;
use holm_thread_log::{
    Append, Appended, Claim, Command, Content, ContentType, Create, Decision, DocumentKey,
    DocumentWrite, Ending, Expect, Fork, Message, Offset, Outcome, Payload, ReadFrom, Seen,
    StreamName, StreamState, StreamStore, Timestamp,
};

/// One test for each part of the contract. The expression gives a store and whatever has to live as long; or nothing, and the test
/// is skipped.
macro_rules! contract {
    ($start:expr) => {
        crate::contract::contract! {
            $start;
            streams: streams_are_kept_as_they_were_decided,
            appends: appends_are_kept_once_and_in_order,
            reads: reads_are_pages_of_one_moment,
            forks: forks_share_what_they_inherit,
            documents: documents_change_with_their_streams,
            waking: changes_wake_who_waits,
            writers: writers_stay_within_their_stream_and_their_share,
        }
    };
    ($start:expr; $($part:ident: $test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let Some((store, _keep)) = $start else {
                    return;
                };
                crate::contract::$part::check(&store).await;
            }
        )*
    };
}
pub(crate) use contract;

pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn later(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0 + milliseconds)
}

pub(crate) fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

pub(crate) fn text() -> ContentType {
    "text/plain; charset=utf-8".parse().unwrap()
}

pub(crate) fn create(stream: &str) -> Create {
    Create {
        name: name(stream),
        content_type: Some(text()),
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork: None,
        writer: None,
        documents: Vec::new(),
    }
}

pub(crate) fn fork(stream: &str, source: &str, at: Option<Offset>, sub_offset: u64) -> Create {
    let source = name(source);
    Create {
        content_type: None,
        fork: Some(Fork {
            source,
            at,
            sub_offset,
        }),
        ..create(stream)
    }
}

pub(crate) fn append(stream: &str, body: &str) -> Append {
    Append {
        name: name(stream),
        content_type: Some(text()),
        payload: Some(Payload::Bytes(Bytes::copy_from_slice(body.as_bytes()))),
        producer: None,
        stream_seq: None,
        ending: Ending::Open,
        writer: None,
        documents: Vec::new(),
    }
}

pub(crate) fn append_json(stream: &str, messages: &[(&str, Option<&str>)]) -> Append {
    let messages = messages.iter().map(|(data, key)| Message {
        data: Bytes::copy_from_slice(data.as_bytes()),
        key: key.map(|key| key.parse().unwrap()),
    });
    Append {
        content_type: Some(ContentType::json()),
        payload: Some(Payload::Messages(messages.collect())),
        ..append(stream, "")
    }
}

pub(crate) fn close(stream: &str) -> Append {
    Append {
        content_type: None,
        payload: None,
        ending: Ending::Closed,
        ..append(stream, "")
    }
}

pub(crate) fn claim(producer: &str, epoch: u64, seq: u64) -> Option<Claim> {
    Some(Claim {
        producer: producer.parse().unwrap(),
        epoch,
        seq,
    })
}

pub(crate) fn key(collection: &str, id: &str) -> DocumentKey {
    DocumentKey {
        collection: collection.to_owned(),
        id: id.to_owned(),
    }
}

pub(crate) fn put(id: &str, expect: Expect, body: &str, terms: &[&str]) -> DocumentWrite {
    DocumentWrite {
        key: key("things", id),
        expect,
        content: Some(Content {
            body: Bytes::copy_from_slice(body.as_bytes()),
            terms: terms.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// Shorter words for what tests do all the time.
pub(crate) trait Use: StreamStore {
    async fn create(&self, create: Create) -> Decision {
        self.at(NOW, Command::Create(create)).await
    }

    async fn append(&self, append: Append) -> Decision {
        self.at(NOW, Command::Append(append)).await
    }

    async fn delete(&self, stream: &str) -> Decision {
        self.at(NOW, Command::Delete { name: name(stream) }).await
    }

    async fn write(&self, documents: Vec<DocumentWrite>) -> Decision {
        self.at(NOW, Command::Write { documents }).await
    }

    async fn at(&self, now: Timestamp, command: Command) -> Decision {
        self.apply(command, now).await.unwrap()
    }

    async fn state(&self, stream: &str) -> Seen<StreamState> {
        self.head(&name(stream), NOW).await.unwrap()
    }

    /// All entries as text, with bars between.
    async fn text(&self, stream: &str) -> Seen<String> {
        let page = self
            .read(&name(stream), ReadFrom::Start, usize::MAX, NOW)
            .await
            .unwrap()?;
        assert_eq!(page.next, page.stream.tail());
        let entries: Vec<String> = page
            .entries
            .iter()
            .map(|entry| String::from_utf8(entry.data.to_vec()).unwrap())
            .collect();
        Ok(entries.join("|"))
    }
}

impl<T: StreamStore + ?Sized> Use for T {}

pub(crate) fn created(decision: Decision) -> StreamState {
    match decision {
        Ok(Outcome::Created(stream)) => *stream,
        other => panic!("not created: {other:?}"),
    }
}

pub(crate) fn appended(decision: Decision) -> Appended {
    match decision {
        Ok(Outcome::Appended(appended)) => appended,
        other => panic!("not appended: {other:?}"),
    }
}

pub(crate) fn duplicate(decision: Decision) -> Appended {
    match decision {
        Ok(Outcome::Duplicate(appended)) => appended,
        other => panic!("no duplicate: {other:?}"),
    }
}
