//! Random histories: batches make no difference, and what is read is what was accepted.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::command::{Append, Create, Fork};
use crate::expiry::Lifetime;
use crate::memory::MemoryStore;
use crate::offset::ReadFrom;
use crate::producer::Claim;
use crate::rules::NoRules;
use crate::state::Ending;
use crate::store::StreamStore;

fn stream_name() -> impl Strategy<Value = StreamName> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(|name| name.parse().unwrap())
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![9 => Just(Ending::Open), 1 => Just(Ending::Closed)]
}

fn payload() -> impl Strategy<Value = Payload> {
    "[a-z]{1,4}".prop_map(|text| Payload::Bytes(Bytes::from(text)))
}

fn command() -> impl Strategy<Value = Command> {
    let fork = (stream_name(), 0_u64..3).prop_map(|(source, sub_offset)| Fork {
        source,
        at: (sub_offset > 0).then_some(crate::Offset::START),
        sub_offset,
    });
    let lifetime = prop_oneof![3 => Just(None), 1 => (1_u64..20).prop_map(|seconds| Some(Lifetime::Sliding { seconds }))];
    let create = (
        stream_name(),
        prop::option::of(fork),
        lifetime,
        prop::option::of(payload()),
        ending(),
    )
        .prop_map(|(name, fork, lifetime, payload, ending)| {
            Command::Create(Create {
                name,
                content_type: None,
                lifetime,
                ending,
                payload,
                fork,
                writer: None,
                documents: Vec::new(),
            })
        });
    let claim = (0_u64..2, 0_u64..4).prop_map(|(epoch, seq)| Claim {
        producer: "p".parse().unwrap(),
        epoch,
        seq,
    });
    let append = (
        stream_name(),
        prop::option::weighted(0.9, payload()),
        prop::option::of(claim),
        ending(),
    )
        .prop_map(|(name, payload, producer, ending)| {
            let content_type = Some(ContentType::octet_stream());
            Command::Append(Append {
                name,
                content_type,
                payload,
                producer,
                stream_seq: None,
                ending,
                writer: None,
                documents: Vec::new(),
            })
        });
    let delete = stream_name().prop_map(|name| Command::Delete { name });
    let touch = stream_name().prop_map(|name| Command::Touch {
        name,
        touch: Touch::Read,
    });
    let expire = stream_name().prop_map(|name| Command::Expire { name });
    prop_oneof![4 => create, 10 => append, 1 => delete, 1 => touch, 1 => expire]
}

/// A command each few seconds.
fn history() -> impl Strategy<Value = Vec<(Timestamp, Command)>> {
    prop::collection::vec((0_i64..5000, command()), 0..60).prop_map(|steps| {
        let mut now = 0;
        let step = |(wait, command)| {
            now += wait;
            (Timestamp(now), command)
        };
        steps.into_iter().map(step).collect()
    })
}

/// All that can be read, by name.
async fn contents(store: &MemoryStore, now: Timestamp) -> HashMap<StreamName, Vec<u8>> {
    let mut contents = HashMap::new();
    for stream in store.list("", None, usize::MAX, now).await.unwrap() {
        let mut all = Vec::new();
        let mut from = ReadFrom::Start;
        let mut last = crate::Offset::START;
        loop {
            let page = store
                .read(&stream.name, from, 3, now)
                .await
                .unwrap()
                .unwrap();
            for entry in &page.entries {
                assert!(entry.next > last, "offsets rise");
                last = entry.next;
                all.extend_from_slice(&entry.data);
            }
            if page.next == stream.tail() {
                break;
            }
            from = ReadFrom::At(page.next);
        }
        contents.insert(stream.name, all);
    }
    contents
}

/// What streams hold, told from decisions alone and without any of the machinery.
#[derive(Default)]
struct Model {
    streams: HashMap<StreamName, Vec<u8>>,
}

impl Model {
    /// What a fork starts with, at the moment before the command.
    fn start(&self, create: &Create, first_entry_lengths: &HashMap<StreamName, usize>) -> Vec<u8> {
        let Some(fork) = &create.fork else {
            return Vec::new();
        };
        let source = &self.streams[&fork.source];
        match fork.at {
            None => source.clone(),
            Some(_) => {
                let taken = usize::try_from(fork.sub_offset).unwrap();
                assert!(
                    taken <= first_entry_lengths[&fork.source],
                    "never more than one entry"
                );
                source[..taken].to_vec()
            }
        }
    }

    fn follow(
        &mut self,
        command: &Command,
        decision: &Decision,
        first_entry_lengths: &HashMap<StreamName, usize>,
    ) {
        let payload = |payload: &Option<Payload>| match payload {
            Some(Payload::Bytes(body)) => body.to_vec(),
            Some(Payload::Messages(_)) | None => Vec::new(),
        };
        match (command, decision) {
            (Command::Create(create), Ok(Outcome::Created(_))) => {
                let mut held = self.start(create, first_entry_lengths);
                held.extend(payload(&create.payload));
                self.streams.insert(create.name.clone(), held);
            }
            (Command::Append(append), Ok(Outcome::Appended(_))) => {
                let held = self.streams.get_mut(&append.name).unwrap();
                held.extend(payload(&append.payload));
            }
            _ => {}
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    /// One transaction for many commands, or one for each: the same answers and the same contents.
    #[test]
    fn batches_make_no_difference(history in history(), size in 1_usize..20) {
        run(async {
            let (single, batched) = (MemoryStore::default(), MemoryStore::default());
            let mut alone = Vec::new();
            for (now, command) in &history {
                alone.push(single.apply(command.clone(), *now).await.unwrap());
            }
            let mut together = Vec::new();
            // Facts outlive a batch, as in a store that is the only writer.
            let mut facts = Facts::new();
            for chunk in history.chunks(size) {
                together.extend(batched.apply_batch(chunk, &mut facts).unwrap());
            }
            prop_assert_eq!(alone, together);
            let end = history.last().map_or(Timestamp(0), |(now, _)| *now);
            prop_assert_eq!(contents(&single, end).await, contents(&batched, end).await);
            single.assert_same_tables(&batched);
            Ok(())
        })?;
    }

    /// Whatever was accepted is read, once and in order, and nothing else.
    #[test]
    fn what_is_accepted_is_read(history in history()) {
        run(async {
            let store = MemoryStore::new(Arc::new(NoRules));
            let mut model = Model::default();
            for (now, command) in &history {
                let lengths = first_entry_lengths(&store, *now).await;
                let decision = store.apply(command.clone(), *now).await.unwrap();
                model.follow(command, &decision, &lengths);
                for (name, read) in contents(&store, *now).await {
                    prop_assert_eq!(&read, &model.streams[&name]);
                }
            }
            store.assert_sound();
            Ok(())
        })?;
    }
}

async fn first_entry_lengths(store: &MemoryStore, now: Timestamp) -> HashMap<StreamName, usize> {
    let mut lengths = HashMap::new();
    for stream in store.list("", None, usize::MAX, now).await.unwrap() {
        let page = store
            .read(&stream.name, ReadFrom::Start, 0, now)
            .await
            .unwrap()
            .unwrap();
        lengths.insert(
            stream.name,
            page.entries.first().map_or(0, |entry| entry.data.len()),
        );
    }
    lengths
}

/// Offsets rise from inherited entries to a fork's own, also when the id was reserved before the source was made.
#[test]
fn a_fork_has_a_higher_id_than_its_source() {
    let source = run(async {
        let store = MemoryStore::default();
        let create = create_command("a", None);
        for _ in 0..3 {
            store
                .apply(create.clone(), Timestamp(0))
                .await
                .unwrap()
                .unwrap();
            let delete = Command::Delete {
                name: "a".parse().unwrap(),
            };
            store.apply(delete, Timestamp(0)).await.unwrap().unwrap();
        }
        match store.apply(create, Timestamp(0)).await.unwrap() {
            Ok(Outcome::Created(stream)) => *stream,
            other => panic!("not created: {other:?}"),
        }
    });
    let mut facts = Facts::new();
    facts.learn_fresh_id(StreamId(1));
    facts.learn_stream(source.clone());
    facts.learn_name("b".parse().unwrap(), None);
    let mut batch = Batch::new(&mut facts, &NoRules);
    let fork = create_command("b", Some("a"));
    assert_eq!(batch.run(&fork, Timestamp(0)), Err(Need::FreshId));
    batch.facts().learn_fresh_id(StreamId(9));
    assert!(matches!(
        batch.run(&fork, Timestamp(0)),
        Ok(Ok(Outcome::Created(stream))) if stream.id == StreamId(9) && source.id < stream.id
    ));
}

fn create_command(name: &str, source: Option<&str>) -> Command {
    let fork = source.map(|source| Fork {
        source: source.parse().unwrap(),
        at: None,
        sub_offset: 0,
    });
    Command::Create(Create {
        name: name.parse().unwrap(),
        content_type: None,
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork,
        writer: None,
        documents: Vec::new(),
    })
}
