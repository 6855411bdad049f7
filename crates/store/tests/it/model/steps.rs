//! What a history is made of.
//!
//! Offsets are indices into those that were seen: the model and the store have different ids.

use holm_thread_log::{
    Append, Claim, Command, Content, ContentType, Create, DocumentKey, DocumentWrite, Ending,
    Expect, Fork, Lifetime, Message, Offset, Payload, StreamName, Timestamp, Touch, Writer,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::CrashAt;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sent together, in this order.
    Send(Vec<Sketch>),
    Crash(CrashAt, Box<Sketch>),
    Reopen,
    Wait {
        milliseconds: i64,
    },
    Sweep,
}

/// A command, apart from offsets and the time.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    pub(crate) command: Command,
    /// Where a fork begins.
    pub(crate) at: Option<prop::sample::Index>,
}

impl Sketch {
    /// The command, with an offset of those that were seen.
    pub(crate) fn command(&self, seen: &[Offset]) -> Command {
        let mut command = self.command.clone();
        if let (Command::Create(create), Some(at)) = (&mut command, &self.at)
            && let Some(fork) = &mut create.fork
            && !seen.is_empty()
        {
            fork.at = Some(*at.get(seen));
        }
        command
    }
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => vec(any_sketch(), 1..6).prop_map(Step::Send),
        2 => (any_crash(), any_sketch()).prop_map(|(at, sketch)| Step::Crash(at, Box::new(sketch))),
        1 => Just(Step::Reopen),
        2 => (0_i64..3_000).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::Sweep),
    ]
}

fn any_crash() -> impl Strategy<Value = CrashAt> {
    prop_oneof![
        Just(CrashAt::BeforeCommit),
        Just(CrashAt::BetweenCommitAndWake),
        Just(CrashAt::BetweenWakeAndAnswer),
    ]
}

fn any_sketch() -> impl Strategy<Value = Sketch> {
    let command = prop_oneof![
        3 => any_create().prop_map(Command::Create),
        8 => any_append().prop_map(Command::Append),
        1 => any_name().prop_map(|name| Command::Delete { name }),
        1 => (any_name(), any_touch()).prop_map(|(name, touch)| Command::Touch { name, touch }),
        1 => any_name().prop_map(|name| Command::Expire { name }),
        1 => vec(any_write(), 1..3).prop_map(|documents| Command::Write { documents }),
    ];
    (command, option::of(any::<prop::sample::Index>()))
        .prop_map(|(command, at)| Sketch { command, at })
}

fn any_name() -> impl Strategy<Value = StreamName> {
    prop::sample::select(vec!["a", "b", "t/a", "t/b", "t/c"]).prop_map(|name| name.parse().unwrap())
}

fn any_type() -> impl Strategy<Value = ContentType> {
    prop::sample::select(vec!["application/json", "text/plain", "text/plain"])
        .prop_map(|text| text.parse().unwrap())
}

fn any_ending() -> impl Strategy<Value = Ending> {
    prop_oneof![9 => Just(Ending::Open), 1 => Just(Ending::Closed)]
}

fn any_payload() -> impl Strategy<Value = Payload> {
    let message = (0_u32..1_000, option::of(0_u8..6)).prop_map(|(number, key)| Message {
        data: number.to_string().into(),
        key: key.map(|key| format!("key-{key}").parse().unwrap()),
    });
    prop_oneof![
        "[0-9]{0,12}".prop_map(|text| Payload::Bytes(text.into())),
        vec(message, 0..4).prop_map(Payload::Messages),
    ]
}

fn any_create() -> impl Strategy<Value = Create> {
    let lifetime = prop_oneof![
        4 => Just(None),
        1 => (1_u64..4).prop_map(|seconds| Some(Lifetime::Sliding { seconds })),
        1 => Just(Some(Lifetime::Sliding { seconds: u64::MAX })),
        1 => (0_i64..9_000).prop_map(|time| Some(Lifetime::Until(Timestamp(time)))),
    ];
    let fork = (any_name(), 0_u64..3).prop_map(|(source, sub_offset)| Fork {
        source,
        at: None,
        sub_offset,
    });
    (
        any_name(),
        option::of(any_type()),
        lifetime,
        any_ending(),
        option::of(any_payload()),
        option::of(fork),
        any_writer(),
        vec(any_write(), 0..2),
    )
        .prop_map(
            |(name, content_type, lifetime, ending, payload, fork, writer, documents)| Create {
                name,
                content_type,
                lifetime,
                ending,
                payload,
                fork,
                writer,
                documents,
            },
        )
}

fn any_append() -> impl Strategy<Value = Append> {
    let claim = (prop::sample::select(vec!["p", "q"]), 0_u64..2, 0_u64..4).prop_map(
        |(producer, epoch, seq)| Claim {
            producer: producer.parse().unwrap(),
            epoch,
            seq,
        },
    );
    (
        any_name(),
        any_type(),
        option::weighted(0.9, any_payload()),
        option::of(claim),
        option::weighted(0.2, "[a-c]{1,2}"),
        any_ending(),
        any_writer(),
        vec(any_write(), 0..2),
    )
        .prop_map(
            |(name, content_type, payload, producer, stream_seq, ending, writer, documents)| {
                Append {
                    name,
                    content_type: Some(content_type),
                    payload,
                    producer,
                    stream_seq,
                    ending,
                    writer,
                    documents,
                }
            },
        )
}

fn any_touch() -> impl Strategy<Value = Touch> {
    prop_oneof![
        Just(Touch::Read),
        any_writer().prop_map(|writer| Touch::Heartbeat { writer }),
    ]
}

fn any_writer() -> impl Strategy<Value = Option<Writer>> {
    prop_oneof![
        8 => Just(None),
        1 => Just(Some(Writer::of_run("run"))),
        1 => Just(Some(Writer::of_run("ended"))),
    ]
}

fn any_write() -> impl Strategy<Value = DocumentWrite> {
    let expect = prop_oneof![
        3 => Just(Expect::Anything),
        1 => Just(Expect::Absent),
        1 => (1_u64..4).prop_map(Expect::Version),
    ];
    let content = ("[a-z]{0,8}", vec("[xyz]", 0..3)).prop_map(|(body, terms)| Content {
        body: body.into(),
        terms,
    });
    ("[mno]", expect, option::weighted(0.8, content)).prop_map(|(id, expect, content)| {
        DocumentWrite {
            key: DocumentKey {
                collection: "notes".to_owned(),
                id,
            },
            expect,
            content,
        }
    })
}
