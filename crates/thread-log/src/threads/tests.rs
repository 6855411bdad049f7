//! Threads, as a store with their rules keeps them.

mod entries;
mod histories;
mod runs;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::command::{Append, Command, Create, Decision, Fork, Message, Payload, Touch, Writer};
use crate::content_type::ContentType;
use crate::expiry::Timestamp;
use crate::memory::MemoryStore;
use crate::name::StreamName;
use crate::offset::ReadFrom;
use crate::state::Ending;
use crate::store::StreamStore;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// A store with one thread, `t` of the organisation `o`.
struct World {
    store: MemoryStore,
    runtime: tokio::runtime::Runtime,
    written: u64,
}

fn stored(thread: &str) -> StreamName {
    format!("o/{STREAM_PREFIX}{thread}").parse().unwrap()
}

impl World {
    fn new() -> Self {
        let world = Self {
            store: MemoryStore::new(Arc::new(ThreadRules)),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            written: 0,
        };
        world.create("t", None).unwrap();
        world
    }

    fn apply(&self, command: Command) -> Decision {
        self.runtime
            .block_on(self.store.apply(command, NOW))
            .unwrap()
    }

    fn create(&self, thread: &str, fork: Option<Fork>) -> Decision {
        self.apply(Command::Create(Create {
            name: stored(thread),
            content_type: Some(ContentType::json()),
            lifetime: None,
            ending: Ending::Open,
            payload: None,
            fork,
            writer: None,
            documents: Vec::new(),
        }))
    }

    /// Appends entries as a client sends them, each with an id of its own.
    fn append_to(&mut self, thread: &str, writer: Option<&str>, payloads: &[Value]) -> Decision {
        let messages = payloads.iter().map(|payload| {
            self.written += 1;
            let entry =
                json!({ "id": format!("e{}", self.written), "ts": self.written, "payload": payload });
            Message::from(Bytes::from(entry.to_string()))
        });
        let Admitted::Entries(messages) = admit(messages.collect()).unwrap() else {
            panic!("a heartbeat among {payloads:?}");
        };
        self.apply(Command::Append(Append {
            name: stored(thread),
            content_type: Some(ContentType::json()),
            payload: Some(Payload::Messages(messages)),
            producer: None,
            stream_seq: None,
            ending: Ending::Open,
            writer: writer.map(Writer::of_run),
            documents: Vec::new(),
        }))
    }

    fn append(&mut self, writer: Option<&str>, payload: Value) -> Decision {
        self.append_to("t", writer, &[payload])
    }

    fn heartbeat(&self, writer: Option<&str>) -> Decision {
        self.apply(Command::Touch {
            name: stored("t"),
            touch: Touch::Heartbeat {
                writer: writer.map(Writer::of_run),
            },
        })
    }

    fn row_of(&self, thread: &str) -> Row {
        let key = row_key("o", &thread.parse().unwrap());
        let document = self.runtime.block_on(self.store.document(&key)).unwrap();
        Row::from_content(&document.unwrap().content).unwrap()
    }

    fn row(&self) -> Row {
        self.row_of("t")
    }

    fn rebuilt(&self, thread: &str) -> Row {
        let name = stored(thread);
        let read = self.store.read(&name, ReadFrom::Start, usize::MAX, NOW);
        let page = self.runtime.block_on(read).unwrap().unwrap();
        Row::rebuild(&page.stream, &page.entries).unwrap()
    }
}

/// The code of a refusal by the rules.
#[track_caller]
fn rule(decision: Decision) -> &'static str {
    let refusal = decision.unwrap_err();
    let crate::command::Refusal::Rule { code, .. } = refusal else {
        panic!("{refusal:?}");
    };
    code
}

fn status(status: &str, run_id: Option<&str>) -> Value {
    match run_id {
        Some(run_id) => {
            json!({ "type": "signal.thread.status_changed", "status": status, "runId": run_id })
        }
        None => json!({ "type": "signal.thread.status_changed", "status": status }),
    }
}
