//! Random histories: the row is always what the entries say.

use proptest::prelude::*;

use super::*;

fn run_id() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("r1"), Some("r2"), Some("r3")])
}

fn payload() -> impl Strategy<Value = Value> {
    let statuses = prop::sample::select(Status::ALL.to_vec());
    let changed = (statuses, run_id())
        .prop_filter("which run begins", |(status, run_id)| {
            *status != Status::Running || run_id.is_some()
        })
        .prop_map(|(changed, run_id)| status(changed.as_str(), run_id));
    let failed = (
        prop::sample::select(vec!["pi_failed", "codex_session_orphaned"]),
        run_id(),
    );
    let failed = failed.prop_map(|(name, run_id)| {
        let mut payload = json!({ "type": format!("signal.thread.{name}"), "exitCode": 1 });
        if let Some(run_id) = run_id {
            payload["runId"] = json!(run_id);
        }
        payload
    });
    let tags = prop::collection::vec("[a-c]", 0..3);
    prop_oneof![
        4 => changed,
        2 => failed,
        2 => Just(json!({ "type": "pi.assistant" })),
        1 => Just(json!({ "type": "chat", "text": "x" })),
        1 => Just(json!({ "type": "signal.other" })),
        1 => any::<u64>().prop_map(|tokens| json!({ "type": "signal.thread.usage", "inputTokens": tokens })),
        1 => tags.clone().prop_map(|tags| json!({ "type": "signal.thread.updated", "tags": tags, "sandboxId": null })),
        1 => tags.prop_map(|tags| json!({ "type": "signal.thread.created", "tags": tags, "sandboxId": "s", "status": "idle" })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn folding_the_entries_gives_the_row(
        steps in prop::collection::vec((run_id(), prop::collection::vec(payload(), 1..4)), 1..30)
    ) {
        let mut world = World::new();
        for (writer, payloads) in steps {
            let before = world.row();
            let decision = world.append_to("t", writer, &payloads);
            let row = world.row();
            if decision.is_err() {
                prop_assert_eq!(&row, &before);
            }
            if let Some(writer) = writer {
                let is_current = before.running().is_some_and(|run| run.id.as_str() == writer);
                prop_assert!(is_current || decision.is_err());
            }
            // What has ended never runs again while it is the last one, and its end does not change.
            if let Some(run) = &before.run && run.state != RunState::Running {
                let is_same = row.run.as_ref().is_some_and(|now| now.id == run.id);
                prop_assert!(!is_same || row.run == before.run);
            }
            prop_assert_eq!(row.status == Status::Running, row.running().is_some());
            prop_assert_eq!(world.rebuilt("t"), row);
        }
    }

    #[test]
    fn any_bytes_are_an_entry_or_refused(data in prop::collection::vec(any::<u8>(), 0..80)) {
        drop(ThreadEntry::parse(&data));
    }

    #[test]
    fn any_payload_is_an_entry_or_refused(kind in "(signal\\.thread\\.)?[a-z_.]{0,24}", value in any::<i64>(), field in "status|tags|runId|parent") {
        let mut payload = json!({ "type": kind });
        payload[field] = json!(value);
        let entry = json!({ "id": "1", "ts": value, "payload": payload });
        drop(ThreadEntry::parse(entry.to_string().as_bytes()));
    }
}
