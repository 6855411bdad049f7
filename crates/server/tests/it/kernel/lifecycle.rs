//! Sandboxes come, run, stop and go.

use serde_json::json;

use crate::support::{TestServer, is_empty, wait_until};

#[test]
fn a_new_sandbox_is_started_and_a_deleted_one_is_gone() {
    let server = TestServer::new();
    let made = server
        .post(
            "/api/sandbox",
            json!({ "name": "web", "labels": { "a": "b" }, "env": {} }),
        )
        .ok();
    assert_eq!(made["state"], "started");
    assert_eq!(made["user"], "daytona");
    assert_eq!((&made["cpu"], &made["memory"]), (&json!(1), &json!(1)));
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.get("/api/sandbox/web").ok()["id"], made["id"]);
    assert_eq!(server.get("/api/sandbox").ok()["items"][0]["name"], "web");
    let home = server.get(&format!("/toolbox/{id}/user-home-dir")).ok();
    assert_eq!(home["dir"], "/home/daytona");
    server.delete("/api/sandbox/web").ok();
    server.get("/api/sandbox/web").refused(404);
    server
        .get(&format!("/toolbox/{id}/user-home-dir"))
        .refused(404);
    assert_eq!(server.get("/api/sandbox").ok()["items"], json!([]));
    assert!(is_empty(&server.data.path().join("data/boxes")));
    wait_until("its files are gone", || {
        is_empty(&server.data.path().join("data/trash"))
    });
}

#[test]
fn a_sandbox_stops_and_starts_again() {
    let server = TestServer::new();
    let id = server.sandbox();
    let path = |rest: &str| format!("/api/sandbox/{id}{rest}");
    assert_eq!(
        server.post(&path("/stop"), json!({})).ok()["state"],
        "stopped"
    );
    let refused = server.get(&format!("/toolbox/{id}/work-dir")).refused(400);
    assert!(refused.contains("Is the Sandbox started?"), "{refused}");
    assert_eq!(
        server.post(&path("/archive"), json!({})).ok()["state"],
        "archived"
    );
    assert_eq!(
        server.post(&path("/start"), json!({})).ok()["state"],
        "started"
    );
    server.get(&format!("/toolbox/{id}/work-dir")).ok();
}

#[test]
fn a_restarted_server_finds_its_boxes_again() {
    let server = TestServer::new();
    let id = server.sandbox();
    let data = server.stop();
    let server = TestServer::at(data, |_| {});
    let found = server.get(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(found["state"], "started", "{found}");
    server.get(&format!("/toolbox/{id}/work-dir")).ok();
}
