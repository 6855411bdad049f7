//! The life of a subscription, told as subscribers see it.

use super::*;
use crate::offset::StreamId;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_000_000);

fn later(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0 + milliseconds)
}

fn at(position: u64) -> Offset {
    match position {
        0 => Offset::START,
        _ => Offset::new(StreamId(1), position),
    }
}

fn tails(position: u64) -> Tails {
    Tails::from([("a".to_owned(), at(position))])
}

fn define(body: &str) -> Definition {
    Define::parse(body.as_bytes()).unwrap()
}

fn made(body: &str) -> Subscription {
    let mut made = Subscription::new(
        "s".to_owned(),
        "o".to_owned(),
        define(body),
        "http://h".to_owned(),
        NOW,
    );
    assert!(made.link("a", LinkType::Explicit, Offset::START));
    made
}

fn pull() -> Subscription {
    made(r#"{"type":"pull-wake","streams":["a"],"wake_stream":"w","lease_ttl_ms":1000}"#)
}

fn webhook() -> Subscription {
    made(r#"{"type":"webhook","streams":["a"],"webhook":{"url":"https://h/x"}}"#)
}

fn ack(subscription: &Subscription, position: Option<u64>, done: bool) -> Acknowledge {
    let wake = subscription.wake.as_ref();
    let acks = position.map(|position| Acknowledgement {
        stream: "a".to_owned(),
        offset: at(position),
    });
    Acknowledge {
        wake_id: wake.map(|wake| wake.id.clone()),
        generation: Some(subscription.generation),
        acks: acks.into_iter().collect(),
        done,
    }
}

#[test]
fn a_worker_claims_acknowledges_and_is_done() {
    let mut subscription = pull();
    assert_eq!(subscription.begin(&tails(2), "w1".into(), NOW), After::Wake);
    assert_eq!(
        subscription.begin(&tails(3), "w2".into(), NOW),
        After::Nothing
    );
    subscription
        .claim("one", &tails(2), "w2".into(), NOW)
        .unwrap();
    let busy = subscription.claim("two", &tails(2), "w3".into(), NOW);
    assert_eq!(
        busy,
        Err(Problem::AlreadyClaimed {
            holder: "one".to_owned(),
            generation: 1
        })
    );
    let request = ack(&subscription, Some(2), true);
    let after = subscription.acknowledge(1, &request, &tails(2), NOW);
    assert_eq!(after, Ok(After::Nothing));
    let again = subscription.acknowledge(1, &request, &tails(2), NOW);
    assert_eq!(again, Err(Problem::Fenced));
    let idle = subscription.claim("one", &tails(2), "w3".into(), NOW);
    assert_eq!(idle, Err(Problem::NothingPending));
}

#[test]
fn what_came_meanwhile_wakes_again() {
    let mut subscription = pull();
    subscription
        .claim("one", &tails(2), "w1".into(), NOW)
        .unwrap();
    let request = ack(&subscription, Some(2), true);
    let after = subscription.acknowledge(1, &request, &tails(5), NOW);
    assert_eq!(after, Ok(After::Wake));
    assert_eq!(subscription.begin(&tails(5), "w2".into(), NOW), After::Wake);
    assert_eq!(subscription.generation, 2);
}

#[test]
fn a_worker_that_falls_silent_loses_the_work() {
    let mut subscription = pull();
    subscription
        .claim("one", &tails(2), "w1".into(), NOW)
        .unwrap();
    let stale = ack(&subscription, Some(2), true);
    subscription.expire(later(999));
    assert!(subscription.wake.is_some());
    // A sign of life makes the lease longer.
    let alive = ack(&subscription, None, false);
    subscription
        .acknowledge(1, &alive, &tails(2), later(999))
        .unwrap();
    subscription.expire(later(1500));
    assert!(subscription.wake.is_some());
    subscription.expire(later(1999));
    assert!(subscription.wake.is_none());
    subscription
        .claim("two", &tails(2), "w2".into(), later(1999))
        .unwrap();
    let late = subscription.acknowledge(1, &stale, &tails(2), later(1999));
    assert_eq!(late, Err(Problem::Fenced));
}

#[test]
fn offsets_are_acknowledged_forwards_and_within_the_stream() {
    let mut subscription = pull();
    subscription
        .claim("one", &tails(5), "w1".into(), NOW)
        .unwrap();
    let first = ack(&subscription, Some(3), false);
    subscription.acknowledge(1, &first, &tails(5), NOW).unwrap();
    let mut try_at = |stream: &str, position| {
        let mut request = ack(&subscription, Some(position), false);
        request.acks[0].stream = stream.to_owned();
        subscription.acknowledge(1, &request, &tails(5), NOW)
    };
    assert_eq!(try_at("a", 2), Err(Problem::OffsetBehind("a".into())));
    assert_eq!(try_at("a", 6), Err(Problem::OffsetAhead("a".into())));
    assert_eq!(try_at("b", 1), Err(Problem::UnknownStream("b".into())));
    assert_eq!(try_at("a", 5), Ok(After::Nothing));
}

#[test]
fn a_call_is_tried_until_it_is_answered() {
    let mut subscription = webhook();
    subscription.begin(&tails(2), "w1".into(), NOW);
    assert!(subscription.take_attempt(NOW, 500).is_some());
    assert!(subscription.take_attempt(NOW, 500).is_none());
    subscription.unanswered(1, 0, NOW);
    assert_eq!(subscription.deadline(), Some(NOW.0 + 1_000));
    for _ in 0..10 {
        subscription.unanswered(1, 0, NOW);
    }
    assert_eq!(subscription.deadline(), Some(NOW.0 + 60_000));
    // A server that died in the middle of a call: the next one takes it.
    assert!(subscription.take_attempt(later(60_000), 500).is_some());
    assert!(subscription.take_attempt(later(60_500), 500).is_some());
    let after = subscription.answered(1, Done::All, &tails(2), later(60_600));
    assert_eq!((after, subscription.failures), (After::Nothing, 0));
    assert_eq!(subscription.standings(&tails(2))[0].acked, at(2));
}

#[test]
fn an_answer_without_done_waits_for_the_callback() {
    let mut subscription = webhook();
    subscription.begin(&tails(2), "w1".into(), NOW);
    subscription.answered(1, Done::NotYet, &tails(2), NOW);
    assert_eq!(subscription.deadline(), Some(NOW.0 + 30_000));
    subscription.expire(later(30_000));
    assert_eq!(subscription.is_due(&tails(2)).as_deref(), Some("a"));
    // An answer to what is over changes nothing.
    subscription.begin(&tails(2), "w2".into(), later(30_000));
    let before = subscription.clone();
    subscription.answered(1, Done::All, &tails(2), later(30_001));
    subscription.unanswered(1, 0, later(30_001));
    assert_eq!(subscription, before);
}

#[test]
fn a_wake_for_something_that_is_gone_does_not_stand_in_the_way() {
    let mut subscription = pull();
    subscription.begin(&tails(2), "w1".into(), NOW);
    let claimed = subscription.claim("one", &Tails::new(), "w2".into(), NOW);
    assert_eq!(claimed, Err(Problem::NothingPending));
    assert_eq!(subscription.begin(&tails(3), "w3".into(), NOW), After::Wake);
}

#[test]
fn the_wake_stream_wakes_nobody() {
    let subscription = made(r#"{"type":"pull-wake","pattern":"**","wake_stream":"w"}"#);
    assert!(subscription.wants(&"x/y".parse().unwrap()));
    assert!(!subscription.wants(&"w".parse().unwrap()));
}

#[test]
fn links_by_name_and_by_pattern() {
    let mut subscription = pull();
    assert!(subscription.link("a", LinkType::Glob, at(9)));
    assert_eq!(subscription.links["a"].acked, Offset::START);
    subscription.unlink("a");
    assert_eq!(
        subscription.standings(&tails(1))[0].link_type,
        LinkType::Glob
    );
    subscription.unlink("missing");
    assert_eq!(subscription.links.len(), 1);
}

#[test]
fn bodies_are_read_strictly() {
    for wrong in [
        "",
        "[]",
        "{}",
        r#"{"type":"mail","streams":["a"]}"#,
        r#"{"type":"webhook","webhook":{"url":"https://h"}}"#,
        r#"{"type":"webhook","streams":["a"]}"#,
        r#"{"type":"webhook","streams":["a"],"webhook":{"url":""}}"#,
        r#"{"type":"webhook","streams":["../a"],"webhook":{"url":"https://h"}}"#,
        r#"{"type":"webhook","streams":[1],"webhook":{"url":"https://h"}}"#,
        r#"{"type":"webhook","pattern":"a//b","webhook":{"url":"https://h"}}"#,
        r#"{"type":"pull-wake","streams":["a"]}"#,
        r#"{"type":"pull-wake","streams":["a"],"wake_stream":"w","lease_ttl_ms":999}"#,
        r#"{"type":"pull-wake","streams":["a"],"wake_stream":"w","lease_ttl_ms":1.5}"#,
    ] {
        assert!(Define::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    let twice = define(r#"{"type":"pull-wake","streams":["/b/","a","b"],"wake_stream":"/w"}"#);
    assert_eq!(twice.streams, ["a", "b"]);
    assert!(Acknowledge::parse(b"{\"acks\":[{\"stream\":\"a\",\"offset\":\"-1\"}]}").is_err());
    assert!(Acknowledge::parse(b"").unwrap().acks.is_empty());
}

#[test]
fn it_is_stored_as_json() {
    let mut subscription = webhook();
    subscription.begin(&tails(2), "w1".into(), NOW);
    let text = serde_json::to_string(&subscription).unwrap();
    assert_eq!(
        serde_json::from_str::<Subscription>(&text).unwrap(),
        subscription
    );
}

proptest! {
    /// Whatever happens, what was not acknowledged is pending again sooner or later.
    #[test]
    fn nothing_is_forgotten(steps in prop::collection::vec((0..6_u8, 0..4_u64), 0..60)) {
        let mut subscription = pull();
        let (mut end, mut now, mut acked) = (1, NOW, 0);
        for (what, amount) in steps {
            match what {
                0 => end += amount,
                1 => { subscription.begin(&tails(end), format!("w{end}"), now); }
                2 => drop(subscription.claim("x", &tails(end), "w".into(), now)),
                3 | 4 => {
                    let target = (acked + amount).min(end);
                    let request = ack(&subscription, Some(target), what == 4);
                    let generation = subscription.generation;
                    if subscription.acknowledge(generation, &request, &tails(end), now).is_ok() {
                        acked = target;
                    }
                }
                _ => {
                    now = Timestamp(now.0 + 700);
                    subscription.expire(now);
                }
            }
        }
        subscription.expire(Timestamp(now.0 + 5_000));
        let held = subscription.wake.is_some();
        prop_assert_eq!(subscription.links["a"].acked, at(acked));
        prop_assert_eq!(held || subscription.is_due(&tails(end)).is_some(), held || acked < end);
        // An unclaimed wake can be claimed if and only if something is pending.
        let claimed = subscription.claim("y", &tails(end), "w".into(), now).is_ok();
        prop_assert_eq!(claimed, acked < end);
    }
}
