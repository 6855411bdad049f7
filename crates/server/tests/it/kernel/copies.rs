//! Forks and snapshots of sandboxes.

use serde_json::json;

use crate::support::{TestServer, is_empty, wait_until};

#[test]
fn a_snapshot_knows_when_it_was_last_used() {
    let server = TestServer::new();
    let used_at = |name: &str| {
        let shown = server.get(&format!("/api/snapshots/{name}")).ok();
        shown["lastUsedAt"].as_str().map(str::to_owned)
    };
    assert_eq!(used_at("daytona-small"), None);
    let before = jiff::Timestamp::now();
    let id = server.sandbox();
    let used: jiff::Timestamp = used_at("daytona-small").unwrap().parse().unwrap();
    assert!(
        used >= before - jiff::Span::new().seconds(1),
        "{used} {before}"
    );
    assert_eq!(used_at("daytona-medium"), None);
    let saved = json!({ "name": "saved" });
    server
        .post(&format!("/api/sandbox/{id}/snapshot"), saved)
        .ok();
    assert_eq!(used_at("saved"), None);
    server.sandbox_from(json!({ "snapshot": "saved" }));
    assert!(used_at("saved").is_some());
    // A refused sandbox is no use.
    server
        .post(
            "/api/sandbox",
            json!({ "snapshot": "daytona-large", "user": "nobody-here" }),
        )
        .refused(400);
    assert_eq!(used_at("daytona-large"), None);
}

#[test]
fn a_fork_has_the_files_and_goes_its_own_way() {
    let server = TestServer::new();
    let id = server.sandbox_from(json!({ "labels": { "a": "b" } }));
    server.run(&id, "echo ours > file; mkdir folder; ln -s file link");
    let path = format!("/api/sandbox/{id}/fork");
    let forked = server.post(&path, json!({ "name": "copy" })).ok();
    assert_eq!(
        (&forked["state"], &forked["name"]),
        (&json!("started"), &json!("copy"))
    );
    assert_eq!(forked["labels"], json!({ "a": "b" }));
    let copy = forked["id"].as_str().unwrap();
    assert_ne!(copy, id);
    assert_eq!(server.run(copy, "cat link; ls"), "ours\nfile\nfolder\nlink");
    server.run(copy, "echo theirs > file");
    server.run(&id, "rm -r folder");
    assert_eq!(server.run(&id, "cat file"), "ours");
    assert_eq!(server.run(copy, "ls -d folder"), "folder");
    // A name that is taken leaves nothing behind.
    server.post(&path, json!({ "name": "copy" })).refused(409);
    let boxes = server.data.path().join("data/boxes");
    assert_eq!(std::fs::read_dir(boxes).unwrap().count(), 2);
    // The copy lives on without what it was made from.
    server.delete(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(server.run(copy, "cat file"), "theirs");
}

#[test]
fn a_snapshot_of_a_sandbox_is_the_beginning_of_others() {
    let server = TestServer::new();
    let id = server.sandbox();
    server.run(&id, "echo one > file; rm -f .profile");
    let path = format!("/api/sandbox/{id}/snapshot");
    server.post(&path, json!({ "name": "mine" })).ok();
    server.post(&path, json!({ "name": "mine" })).refused(409);
    server
        .post(&path, json!({ "name": "daytona-small" }))
        .refused(409);
    server
        .post(&path, json!({ "name": "m", "includeMemory": true }))
        .refused(501);
    server.run(&id, "echo two > file");
    server.delete(&format!("/api/sandbox/{id}")).ok();

    let shown = server.get("/api/snapshots/mine").ok();
    assert_eq!(shown["state"], "active");
    assert_eq!(shown["sourceSandboxId"], json!(id));
    let first = server.sandbox_from(json!({ "snapshot": "mine" }));
    let second = server.sandbox_from(json!({ "snapshot": "mine" }));
    server.run(&first, "echo three > file");
    assert_eq!(
        server.run(&second, "cat file; ls -A | grep -c profile; true"),
        "one\n0"
    );

    // A snapshot of that: two layers.
    let again = format!("/api/sandbox/{first}/snapshot");
    server.post(&again, json!({ "name": "again" })).ok();
    let third = server.sandbox_from(json!({ "snapshot": "again" }));
    assert_eq!(server.run(&third, "cat file"), "three");

    // Deleted snapshots stay as long as a sandbox stands on them, and no longer.
    for name in ["mine", "again"] {
        server.delete(&format!("/api/snapshots/{name}")).ok();
        server.get(&format!("/api/snapshots/{name}")).refused(404);
    }
    server.turn(&third, "stop");
    server.turn(&third, "start");
    assert_eq!(server.run(&third, "cat file"), "three");
    for id in [first, second, third] {
        server.delete(&format!("/api/sandbox/{id}")).ok();
    }
    wait_until("the layers are gone", || {
        is_empty(&server.data.path().join("data/layers"))
    });
}
