//! What happens to sandboxes that nobody uses. A minute is short here.

use std::time::Duration;

use holm_server::records::SandboxRecord;
use serde_json::{Value, json};

use super::sockets::Socket;
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
    // The clock begins when there is something to hold it up.
    let busy = server.sandbox_from(json!({ "autoStopInterval": 0 }));
    server.run(&busy, "setsid sleep 1000 >/dev/null 2>&1 </dev/null &");
    server.turn(&busy, "autostop/3");
    let idle = server.sandbox_from(json!({ "autoStopInterval": 3 }));
    wait_until("the idle one has stopped", || {
        state(&server, &idle) == "stopped"
    });
    assert_eq!(state(&server, &busy), "started");
    server.run(&busy, "pkill sleep");
    wait_until("the busy one has stopped", || {
        state(&server, &busy) == "stopped"
    });
}

#[test]
fn an_open_stream_is_activity() {
    let server = hasty();
    // The clocks begin when all is as it shall be.
    let made = || server.sandbox_from(json!({ "autoStopInterval": 0 }));
    let (watched, idle) = (made(), made());
    // Shells that nobody types into keep nothing awake; whoever looks at them does.
    let path = |id: &str| format!("/toolbox/{id}/process/pty/create-connect?id=p1");
    let terminal = Socket::open(&server, &path(&watched), &[]).unwrap();
    drop(Socket::open(&server, &path(&idle), &[]).unwrap());
    server.turn(&watched, "autostop/5");
    server.turn(&idle, "autostop/5");
    wait_until("the idle one has stopped", || {
        state(&server, &idle) == "stopped"
    });
    assert_eq!(state(&server, &watched), "started");
    drop(terminal);
    wait_until("nobody looks any more", || {
        state(&server, &watched) == "stopped"
    });
}

#[test]
fn activity_is_written_down_by_itself() {
    let server = TestServer::with(|config| {
        config.limits.tick = Duration::from_millis(50);
        config.limits.minute = Duration::from_millis(200);
    });
    let id = server.sandbox_from(json!({ "autoStopInterval": 0 }));
    let store = holm_store::Store::open(&server.data.path().join("data/holm.db")).unwrap();
    let stored = || store.get::<SandboxRecord>(&id).unwrap().unwrap();
    let made = stored();
    let minute = 200;
    wait_until("a minute is over", || {
        server.run(&id, "true");
        stored().last_activity_at >= made.last_activity_at + minute
    });
    // It is no change of the sandbox.
    assert_eq!(stored().updated_at, made.updated_at);
    // What nobody uses is not written again and again.
    let last = server.get(&format!("/api/sandbox/{id}")).ok()["lastActivityAt"].clone();
    let settled = stored().last_activity_at;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(stored().last_activity_at, settled);
    // A server that is killed has forgotten a minute at most.
    let shown = server.get(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(shown["lastActivityAt"], last);
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
