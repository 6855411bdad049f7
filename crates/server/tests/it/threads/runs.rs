//! A run, from its claim to its end, as the pieces of a coding agent's life use it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Content;
use super::{ThreadsClient, chat, entry, status};

#[test]
fn a_run_mirrors_into_its_thread_and_ends() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    client.append(key, &thread, chat("prompt", "mend it")).ok();
    let minted = client
        .post(key, &format!("{thread}/tokens"), json!({}))
        .ok();
    let (token, run) = (
        minted["jwt"].as_str().unwrap(),
        minted["run"].as_str().unwrap(),
    );
    assert_eq!(minted["streamPath"], "/v1/stream/holm-thread-t");
    assert_eq!(minted["producerId"], run);
    // Before its claim, a run has nothing to say.
    let early = client.append(token, &thread, entry("e", json!({ "type": "pi.a" })));
    assert_eq!(early.refused(403), "run_not_current");
    client.begin(&thread, run);
    let shown = client.get(token, &thread).ok();
    assert_eq!(
        (&shown["status"], &shown["run"]["id"]),
        (&json!("running"), &json!(run))
    );
    assert_eq!(shown["run"]["endedAt"], Value::Null);
    // The mirror writes as a producer, to the seed's address; a retry is stored once.
    for _ in 0..2 {
        let headers = [
            ("producer-id", run),
            ("producer-epoch", "0"),
            ("producer-seq", "0"),
        ];
        let body = Content::Json(json!([entry("a1", json!({ "type": "pi.assistant" }))]));
        let path = "/api/stream/holm-thread-t";
        let reply = client.send(Some(token), Method::POST, path, body, &headers);
        assert!(reply.status.is_success(), "{reply:?}");
    }
    let usage = json!({ "type": "signal.thread.usage", "inputTokens": 10, "outputTokens": 2, "costMicroUsd": 70 });
    client.append(token, &thread, entry("u1", usage)).ok();
    let failed = json!({ "type": "signal.thread.pi_failed", "exitCode": 137, "message": "killed" });
    client
        .append(token, &thread, entry("end", failed.clone()))
        .ok();
    // The answer may have been lost: the same again is confirmed, more is refused.
    let again = client.append(token, &thread, entry("end", failed)).ok();
    assert_eq!(again["duplicate"], true);
    for path in [
        format!("{thread}/entries"),
        "/v1/stream/holm-thread-t".to_owned(),
    ] {
        let late = client.post(token, &path, entry("late", json!({ "type": "pi.a" })));
        assert_eq!(late.refused(403), "run_ended", "{path}");
    }
    let beat = client.post(token, &format!("{thread}/heartbeat"), json!({}));
    assert_eq!(beat.refused(403), "run_ended");
    let renew = client.post(token, &format!("{thread}/tokens/renew"), json!({}));
    assert_eq!(renew.refused(403), "run_ended");
    let mint = client.post(key, &format!("{thread}/tokens"), json!({ "run": run }));
    assert_eq!(mint.refused(409), "run_ended");
    let ended = client.get(token, &thread).ok();
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["run"]["endReason"], "pi_failed");
    assert_eq!(ended["run"]["exitCode"], 137);
    assert_eq!(ended["usage"]["inputTokens"], 10);
    assert_eq!(ended["usage"]["costMicroUsd"], 70);
    // The thread goes on.
    assert_eq!(ended["stream"]["closed"], false);
    client.append(key, &thread, chat("next", "again")).ok();
    client.begin(&thread, "second");
    assert_eq!(client.get(key, &thread).ok()["run"]["id"], "second");
    let kinds: Vec<Value> = client
        .entries(&thread)
        .iter()
        .map(|entry| entry["id"].clone())
        .collect();
    let begun = json!(format!("begin-{run}"));
    assert_eq!(
        kinds,
        [
            json!("thread-created"),
            json!("prompt"),
            begun,
            json!("a1"),
            json!("u1"),
            json!("end"),
            json!("next"),
            json!("begin-second")
        ]
    );
}

#[test]
fn two_runs_cannot_claim_one_thread() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let second = client.append(key, &thread, entry("2", status("running", Some("r2"))));
    assert_eq!(second.refused(409), "run_in_progress");
    let token = client.mint(&thread, json!({ "run": "r2" }));
    let intruder = client.append(&token, &thread, entry("3", json!({ "type": "pi.a" })));
    assert_eq!(intruder.refused(403), "run_not_current");
    // A box cannot change what its thread is, nor end another's run.
    let token = client.mint(&thread, json!({ "run": "r1" }));
    for payload in [
        json!({ "type": "signal.thread.updated", "sandboxId": "other" }),
        json!({ "type": "signal.thread.child_finished" }),
        status("completed", Some("r2")),
        status("running", Some("r1")),
    ] {
        let refused = client.append(&token, &thread, entry("4", payload.clone()));
        assert_eq!(refused.refused(403), "signal_forbidden", "{payload}");
    }
    assert_eq!(client.get(key, &thread).ok()["status"], "running");
}

#[test]
fn a_thread_forked_by_the_protocol_begins_its_own_life() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let headers = [
        ("content-type", "application/json"),
        ("stream-forked-from", "/v1/stream/holm-thread-t"),
    ];
    let path = "/v1/stream/holm-thread-f";
    let forked = client.send(Some(key), Method::PUT, path, Content::Nothing, &headers);
    assert_eq!(forked.status, StatusCode::CREATED, "{forked:?}");
    let fork = client.get(key, "/api/threads/f").ok();
    assert_eq!(
        (&fork["status"], &fork["run"]),
        (&json!("open"), &Value::Null)
    );
    assert_eq!(fork["forkedFrom"], "t");
    assert_eq!(client.entries("/api/threads/f"), client.entries(&thread));
    // The run of the source does not write to the fork.
    let token = client.mint(&thread, json!({ "run": "r1" }));
    let foreign = client.append(
        &token,
        "/api/threads/f",
        entry("1", json!({ "type": "pi.a" })),
    );
    assert_eq!(foreign.refused(403), "forbidden");
}
