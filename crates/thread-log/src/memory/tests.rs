//! The semantics, as seen through a store.

mod appends;
mod documents;
mod forks;
mod streams;

use super::*;
use crate::command::{Append, Appended, Create, Fork, Message, Outcome, Payload, Refusal, Touch};
use crate::content_type::ContentType;
use crate::document::{Content, DocumentWrite, Expect};
use crate::expiry::Lifetime;
use crate::producer::Claim;
use crate::rules::{Event, Judgement, What};
use crate::sse::Freshness;
use crate::state::Ending;
use crate::store::Unseen;

const NOW: Timestamp = Timestamp(1_000_000);

fn later(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0 + milliseconds)
}

fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

fn text() -> Option<ContentType> {
    Some("text/plain".parse().unwrap())
}

fn json() -> Option<ContentType> {
    Some(ContentType::json())
}

fn bytes(body: &str) -> Payload {
    Payload::Bytes(Bytes::copy_from_slice(body.as_bytes()))
}

fn create(stream: &str) -> Create {
    Create {
        name: name(stream),
        content_type: text(),
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork: None,
        writer: None,
        documents: Vec::new(),
    }
}

fn fork(stream: &str, source: &str, at: Option<Offset>, sub_offset: u64) -> Create {
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

fn append(stream: &str, body: &str) -> Append {
    Append {
        name: name(stream),
        content_type: text(),
        payload: Some(bytes(body)),
        producer: None,
        stream_seq: None,
        ending: Ending::Open,
        writer: None,
        documents: Vec::new(),
    }
}

fn close(stream: &str) -> Append {
    Append {
        content_type: None,
        payload: None,
        ending: Ending::Closed,
        ..append(stream, "")
    }
}

fn claim(epoch: u64, seq: u64) -> Option<Claim> {
    let producer = "p".parse().unwrap();
    Some(Claim {
        producer,
        epoch,
        seq,
    })
}

impl MemoryStore {
    async fn at(&self, now: Timestamp, command: Command) -> Decision {
        self.apply(command, now).await.unwrap()
    }

    async fn create(&self, create: Create) -> Decision {
        self.at(NOW, Command::Create(create)).await
    }

    async fn append(&self, append: Append) -> Decision {
        self.at(NOW, Command::Append(append)).await
    }

    async fn delete(&self, stream: &str) -> Decision {
        self.at(NOW, Command::Delete { name: name(stream) }).await
    }

    async fn text(&self, stream: &str) -> Seen<String> {
        let page = self
            .read(&name(stream), ReadFrom::Start, usize::MAX, NOW)
            .await
            .unwrap()?;
        let all: Vec<u8> = page
            .entries
            .iter()
            .flat_map(|entry| entry.data.to_vec())
            .collect();
        Ok(String::from_utf8(all).unwrap())
    }

    async fn tail(&self, stream: &str) -> Offset {
        self.head(&name(stream), NOW).await.unwrap().unwrap().tail()
    }
}

fn tail_of(decision: &Decision) -> Offset {
    match decision {
        Ok(
            Outcome::Appended(Appended { tail, .. }) | Outcome::Duplicate(Appended { tail, .. }),
        ) => *tail,
        other => panic!("no append: {other:?}"),
    }
}
