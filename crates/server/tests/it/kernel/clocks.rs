//! What happens to sandboxes that nobody uses. A minute is short here.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestServer, is_empty, wait_until};

/// A server on which a minute is a tenth of a second.
fn hasty() -> TestServer {
    TestServer::with(|config| {
        config.limits.tick = Duration::from_millis(50);
        config.limits.minute = Duration::from_millis(100);
    })
}

fn state(server: &TestServer, id: &str) -> Value {
    server.get(&format!("/api/sandbox/{id}")).body["state"].clone()
}

#[test]
fn an_idle_sandbox_stops_is_archived_and_goes() {
    let server = hasty();
    let id = server.sandbox_from(json!({
        "autoStopInterval": 1, "autoArchiveInterval": 5, "autoDeleteInterval": 15,
    }));
    wait_until("it has stopped", || state(&server, &id) == "stopped");
    wait_until("it is archived", || state(&server, &id) == "archived");
    wait_until("it is gone", || state(&server, &id).is_null());
    server.get(&format!("/api/sandbox/{id}")).refused(404);
    assert!(is_empty(&server.data.path().join("data/boxes")));
}

#[test]
fn an_idle_ephemeral_sandbox_goes_at_once() {
    let server = hasty();
    let id = server.sandbox_from(json!({ "autoStopInterval": 1, "autoDeleteInterval": 0 }));
    wait_until("it is gone", || state(&server, &id).is_null());
}

#[test]
fn stopping_an_ephemeral_sandbox_deletes_it() {
    let server = TestServer::new();
    let id = server.sandbox_from(json!({ "autoDeleteInterval": 0 }));
    assert_eq!(server.turn(&id, "stop")["state"], "destroyed");
    server.get(&format!("/api/sandbox/{id}")).refused(404);
    assert!(is_empty(&server.data.path().join("data/boxes")));
}

#[test]
fn a_process_that_runs_is_activity() {
    let server = hasty();
    let busy = server.sandbox_from(json!({ "autoStopInterval": 3 }));
    let idle = server.sandbox_from(json!({ "autoStopInterval": 3 }));
    server.run(&busy, "setsid sleep 3 >/dev/null 2>&1 </dev/null & echo $!");
    wait_until("the idle one has stopped", || {
        state(&server, &idle) == "stopped"
    });
    assert_eq!(state(&server, &busy), "started");
    wait_until("the busy one has stopped", || {
        state(&server, &busy) == "stopped"
    });
}

#[test]
fn a_time_to_live_ends_a_sandbox_and_can_be_taken_back() {
    let server = hasty();
    let id = server.sandbox_from(json!({ "ttlMinutes": 8 }));
    let kept = server.sandbox_from(json!({ "ttlMinutes": 8 }));
    server.turn(&kept, "ttl/0");
    wait_until("it is gone", || state(&server, &id).is_null());
    assert_eq!(state(&server, &kept), "started");
}

#[test]
fn an_idle_sandbox_is_paused_when_that_was_asked_for() {
    let server = hasty();
    let id = server.sandbox_from(json!({ "autoStopInterval": 0, "autoPauseInterval": 1 }));
    wait_until("it is paused", || state(&server, &id) == "paused");
}

#[test]
fn a_restart_does_not_forget_when_a_sandbox_was_active() {
    let server = TestServer::new();
    let id = server.sandbox();
    let path = format!("/api/sandbox/{id}");
    server.run(&id, "true");
    let before = server.get(&path).ok()["lastActivityAt"].clone();
    // Written down with the next change at the latest.
    server
        .put(&format!("{path}/labels"), json!({ "labels": { "a": "b" } }))
        .ok();
    let server = TestServer::at(server.stop(), |_| {});
    let after = server.get(&path).ok()["lastActivityAt"].clone();
    assert!(after.as_str() >= before.as_str(), "{before} {after}");
}
