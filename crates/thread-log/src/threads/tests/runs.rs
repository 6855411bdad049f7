//! Runs: how they begin and end, and who may write meanwhile.

use super::*;

#[test]
fn a_run_writes_until_it_has_ended_and_its_thread_goes_on() {
    let mut world = World::new();
    assert_eq!(world.row().status, Status::Open);
    let early = world.append(Some("r1"), json!({ "type": "pi.a" }));
    assert_eq!(rule(early), code::RUN_NOT_CURRENT);
    world.append(None, status("running", Some("r1"))).unwrap();
    world.append(Some("r1"), json!({ "type": "pi.a" })).unwrap();
    world.heartbeat(Some("r1")).unwrap();
    let usage = json!({ "type": "signal.thread.usage", "inputTokens": 7, "costMicroUsd": 2 });
    world
        .append_to("t", Some("r1"), &[usage.clone(), usage])
        .unwrap();
    assert_eq!(world.row().status, Status::Running);
    assert_eq!(world.row().usage.input_tokens, 14);
    world.append(Some("r1"), status("completed", None)).unwrap();
    for late in [
        json!({ "type": "pi.b" }),
        status("failed", Some("r1")),
        json!({ "type": "signal.thread.pi_failed" }),
    ] {
        assert_eq!(rule(world.append(Some("r1"), late)), code::RUN_ENDED);
    }
    assert_eq!(rule(world.heartbeat(Some("r1"))), code::RUN_ENDED);
    // Whoever has an API key goes on, and a next run follows.
    world
        .append(None, json!({ "type": "chat", "text": "and now?" }))
        .unwrap();
    assert_eq!(
        rule(world.append(None, status("running", Some("r1")))),
        code::RUN_ENDED
    );
    world.append(None, status("running", Some("r2"))).unwrap();
    assert_eq!(
        rule(world.append(Some("r1"), json!({ "type": "pi.b" }))),
        code::RUN_NOT_CURRENT
    );
    world
        .append(Some("r2"), json!({ "type": "codex.a" }))
        .unwrap();
    assert_eq!(world.rebuilt("t"), world.row());
}

#[test]
fn the_first_end_counts() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    let failed = json!({ "type": "signal.thread.pi_failed", "exitCode": 137 });
    world.append(Some("r1"), failed).unwrap();
    let ended = world.row();
    assert_eq!(ended.status, Status::Failed);
    let RunState::Ended {
        reason, exit_code, ..
    } = &ended.run.as_ref().unwrap().state
    else {
        panic!("{ended:?}");
    };
    assert_eq!((reason.as_str(), *exit_code), ("pi_failed", Some(137)));
    let orphaned = json!({ "type": "signal.thread.pi_session_orphaned", "runId": "r1" });
    world.append(None, orphaned).unwrap();
    assert_eq!(world.row(), ended);
}

#[test]
fn a_second_run_waits_for_the_first() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    world.append(None, status("running", Some("r1"))).unwrap();
    let second = world.append(None, status("running", Some("r2")));
    assert_eq!(rule(second), code::RUN_IN_PROGRESS);
    world.append(None, status("cancelled", Some("r1"))).unwrap();
    world.append(None, status("running", Some("r2"))).unwrap();
    // A late signal about the first run leaves the second alone.
    world.append(None, status("failed", Some("r1"))).unwrap();
    assert_eq!(world.row().status, Status::Running);
}

#[test]
fn a_run_speaks_for_itself_only() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    for foreign in [
        status("completed", Some("r2")),
        status("running", Some("r1")),
        status("idle", None),
        json!({ "type": "signal.thread.codex_failed", "runId": "r2" }),
        json!({ "type": "signal.thread.created", "tags": ["mine"] }),
        json!({ "type": "signal.thread.updated", "sandboxId": "other" }),
        json!({ "type": "signal.thread.child_finished" }),
    ] {
        let refused = world.append(Some("r1"), foreign.clone());
        assert_eq!(rule(refused), code::SIGNAL_FORBIDDEN, "{foreign}");
    }
    // Nothing of a refused batch is kept.
    let mixed = [json!({ "type": "pi.a" }), status("completed", Some("r2"))];
    rule(world.append_to("t", Some("r1"), &mixed));
    assert_eq!(world.row().status, Status::Running);
    assert_eq!(world.rebuilt("t"), world.row());
}

#[test]
fn a_last_word_may_be_followed_in_the_same_request() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    let usage = json!({ "type": "signal.thread.usage", "outputTokens": 3 });
    world
        .append_to("t", Some("r1"), &[status("completed", None), usage])
        .unwrap();
    assert_eq!(world.row().usage.output_tokens, 3);
}

#[test]
fn a_retry_is_confirmed_after_the_run_has_ended() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    world.append(Some("r1"), status("completed", None)).unwrap();
    world.written -= 1;
    let again = world.append(Some("r1"), status("completed", None)).unwrap();
    assert!(
        matches!(again, crate::command::Outcome::Duplicate(_)),
        "{again:?}"
    );
}

#[test]
fn heartbeats_leave_the_row_and_the_entries_alone() {
    let mut world = World::new();
    world.append(None, status("running", Some("r1"))).unwrap();
    let before = world.row();
    world.heartbeat(Some("r1")).unwrap();
    assert_eq!(world.row(), before);
    let stream = world
        .runtime
        .block_on(world.store.head(&stored("t"), NOW))
        .unwrap()
        .unwrap();
    assert_eq!((stream.last_seen, stream.tail_position), (Some(NOW), 1));
}

#[test]
fn a_fork_is_a_thread_of_its_own() {
    let mut world = World::new();
    let tagged = json!({ "type": "signal.thread.created", "tags": ["a"] });
    world
        .append_to("t", None, &[tagged, status("running", Some("r1"))])
        .unwrap();
    let fork = |sub_offset, at| Fork {
        source: stored("t"),
        at,
        sub_offset,
    };
    world.create("whole", Some(fork(0, None))).unwrap();
    let start = Some(crate::offset::Offset::START);
    world.create("part", Some(fork(2, start))).unwrap();
    for thread in ["whole", "part"] {
        let row = world.row_of(thread);
        assert_eq!((row.status, row.run.as_ref()), (Status::Open, None));
        assert_eq!(row.forked_from, Some("t".parse().unwrap()));
        assert_eq!(world.rebuilt(thread), row);
        world
            .append_to(thread, None, &[status("running", Some("r9"))])
            .unwrap();
        assert_eq!(world.rebuilt(thread), world.row_of(thread));
    }
}

#[test]
fn a_thread_is_json() {
    let world = World::new();
    let create = Create {
        name: stored("plain"),
        content_type: Some("text/plain".parse().unwrap()),
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork: None,
        writer: None,
        documents: Vec::new(),
    };
    let refused = world.apply(Command::Create(create));
    assert_eq!(rule(refused), code::CONTENT_TYPE);
}

#[test]
fn entries_that_were_not_checked_before_are_refused_here() {
    let world = World::new();
    let body = Bytes::from_static(b"[{\"no\":\"entry\"}]");
    let append = |body: &Bytes| {
        world.apply(Command::Append(Append {
            name: stored("t"),
            content_type: Some(ContentType::json()),
            payload: Some(Payload::Bytes(body.clone())),
            producer: None,
            stream_seq: None,
            ending: Ending::Open,
            writer: None,
            documents: Vec::new(),
        }))
    };
    assert_eq!(rule(append(&body)), code::ENTRY_INVALID);
    let beat = json!({ "id": "1", "ts": 1, "payload": { "type": "signal.thread.heartbeat" } });
    assert_eq!(
        rule(append(&Bytes::from(beat.to_string()))),
        code::ENTRY_INVALID
    );
}
