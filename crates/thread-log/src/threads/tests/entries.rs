//! What is taken for an entry.

use super::*;

fn parse(entry: &str) -> Result<ThreadEntry, EntryError> {
    ThreadEntry::parse(entry.as_bytes())
}

fn with_payload(payload: &Value) -> Result<ThreadEntry, EntryError> {
    parse(&json!({ "id": "1", "ts": 5, "payload": payload }).to_string())
}

#[test]
fn types_inside_of_a_group_are_kept_as_they_are() {
    for kind in ["pi.assistant", "pi.x.y_z-1", "codex.later", "claude.A"] {
        let entry = with_payload(&json!({ "type": kind, "deep": [[{}]] })).unwrap();
        assert!(matches!(entry.group, Group::Agent(_)), "{kind}");
    }
    for kind in ["signal.made_later", "signal.thread.made_later"] {
        let entry = with_payload(&json!({ "type": kind, "status": 5 })).unwrap();
        assert_eq!(entry.group, Group::Signal(Signal::Other), "{kind}");
    }
    let chat = with_payload(&json!({ "type": "chat", "text": "hi", "more": 1 })).unwrap();
    assert_eq!(chat.group, Group::Chat);
}

#[test]
fn times_are_dates_or_milliseconds() {
    let at = |ts: &str| {
        parse(&format!(
            r#"{{"id":"1","ts":{ts},"payload":{{"type":"pi.a"}}}}"#
        ))
        .map(|entry| entry.ts.0)
    };
    assert_eq!(at("1794771988471"), Ok(1_794_771_988_471));
    assert_eq!(at(r#""2026-11-15T19:46:28.471Z""#), Ok(1_794_771_988_471));
    for wrong in [
        "null",
        "1.5",
        "\"now\"",
        "{}",
        "9223372036854775807",
        "\"\"",
    ] {
        assert_eq!(at(wrong), Err(EntryError::Time), "{wrong}");
    }
}

#[test]
fn what_is_no_entry_is_told_why() {
    let table = [
        (
            "[]",
            "the entry is not { id, ts, authorId?, payload }: it is no object",
        ),
        (
            r#"{"ts":1,"payload":{"type":"chat"}}"#,
            "the entry is not { id, ts, authorId?, payload }: missing field `id`",
        ),
        (
            r#"{"id":"a","id":"b","ts":1,"payload":{"type":"pi.a"}}"#,
            "the entry is not { id, ts, authorId?, payload }: duplicate field `id`",
        ),
        (
            r#"{"id":"a\u0000","ts":1,"payload":{"type":"pi.a"}}"#,
            "the entry's `id` is not 1 to 256 bytes without control characters",
        ),
        (
            r#"{"id":"a","ts":1,"payload":["chat"]}"#,
            "the entry is not { id, ts, authorId?, payload }: `payload` is no object",
        ),
        (
            r#"{"id":"a","ts":1,"payload":{}}"#,
            "the entry is not { id, ts, authorId?, payload }: `payload`: missing field `type`",
        ),
        (
            r#"{"id":"a","ts":1,"payload":{"type":"chat"}}"#,
            "the payload of `chat` is not as it has to be: missing field `text`",
        ),
        (
            r#"{"id":"a","ts":1,"payload":{"type":"gemini.x"}}"#,
            "the payload's `type` is `gemini.x`: it has to be `chat` or to begin with `pi.`, `codex.`, `claude.` or `signal.`",
        ),
        (
            r#"{"id":"a","ts":1,"payload":{"type":"signal.thread.status_changed","status":"running"}}"#,
            "the payload of `signal.thread.status_changed` is not as it has to be: `runId` has to say which run begins",
        ),
        (
            r#"{"id":"a","ts":1,"payload":{"type":"signal.thread.created","status":"failed"}}"#,
            "the payload of `signal.thread.created` is not as it has to be: a thread begins `open` or `idle`",
        ),
    ];
    for (entry, message) in table {
        assert_eq!(parse(entry).unwrap_err().to_string(), message, "{entry}");
    }
    for kind in [
        "chat.x",
        "pi",
        "pi.",
        "pi. x",
        "Pi.x",
        ".x",
        "",
        "signal",
        "signal.\n",
    ] {
        let refused = with_payload(&json!({ "type": kind, "text": "" }));
        assert!(matches!(refused, Err(EntryError::Type { .. })), "{kind:?}");
    }
    let long = json!({ "type": "pi.a", "text": "x".repeat(ENTRY_BYTES_MAX) });
    assert!(matches!(
        with_payload(&long),
        Err(EntryError::TooLong { .. })
    ));
}

#[test]
fn heartbeats_come_alone() {
    let message = |kind: &str| {
        let entry = json!({ "id": kind, "ts": 1, "payload": { "type": kind } });
        Message::from(Bytes::from(entry.to_string()))
    };
    let beat = || message("signal.thread.heartbeat");
    assert_eq!(admit(vec![beat(), beat()]), Ok(Admitted::Heartbeat));
    assert_eq!(
        admit(vec![beat(), message("pi.a")]),
        Err(NotAdmitted::MixedHeartbeat)
    );
    let Ok(Admitted::Entries(entries)) = admit(vec![message("pi.a"), message("pi.b")]) else {
        panic!();
    };
    let keys: Vec<_> = entries.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(
        keys,
        [Some("pi.a".parse().unwrap()), Some("pi.b".parse().unwrap())]
    );
    let second = admit(vec![message("pi.a"), message("other.b")]).unwrap_err();
    assert_eq!(second.to_string(), "entry 2");
}

#[test]
fn streams_of_threads_are_known_by_their_names() {
    let known = |name: &str| {
        let name: StreamName = name.parse().unwrap();
        ThreadId::of_stored(&name).map(|(organization, id)| format!("{organization} {id}"))
    };
    assert_eq!(known("o/holm-thread-a_B-1").as_deref(), Some("o a_B-1"));
    for other in [
        "holm-thread-a",
        "o/x/holm-thread-a",
        "o/holm-thread-",
        "o/holm-thread-a.b",
        "o/holm-thread-a/b",
    ] {
        assert_eq!(known(other), None, "{other}");
    }
}
