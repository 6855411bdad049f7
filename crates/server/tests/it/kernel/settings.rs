//! Names, labels and the like.

use serde_json::json;

use crate::support::TestServer;

#[test]
fn labels_and_names_are_kept_and_found() {
    let server = TestServer::new();
    let id = server.sandbox_from(json!({ "name": "one", "labels": { "team": "a" } }));
    server
        .post("/api/sandbox", json!({ "name": "one" }))
        .refused(409);
    let labels = json!({ "labels": { "team": "b", "code-toolbox-language": "python" } });
    let set = server
        .put(&format!("/api/sandbox/{id}/labels"), labels.clone())
        .ok();
    assert_eq!(set, labels);
    let found = server
        .get("/api/sandbox?labels=%7B%22team%22%3A%22b%22%7D")
        .ok();
    assert_eq!(found["items"][0]["id"], json!(id));
    assert!(found["nextCursor"].is_null());
    let none = server
        .get("/api/sandbox?labels=%7B%22team%22%3A%22a%22%7D")
        .ok();
    assert_eq!(none["items"], json!([]));
    let pages = server.get("/api/sandbox/paginated?page=1&limit=5").ok();
    assert_eq!(
        (&pages["total"], &pages["totalPages"]),
        (&json!(1), &json!(1))
    );
    let big = json!({ "labels": { "a": "b".repeat(100_000) } });
    server
        .put(&format!("/api/sandbox/{id}/labels"), big)
        .refused(400);
    // A name is free when its sandbox is gone.
    server.delete("/api/sandbox/one").ok();
    server.sandbox_from(json!({ "name": "one" }));
}

#[test]
fn refusals_have_daytonas_words() {
    let server = TestServer::new();
    let id = server.sandbox();
    let post = |rest: &str| server.post(&format!("/api/sandbox/{id}/{rest}"), json!({}));
    assert_eq!(post("archive").refused(400), "Sandbox is not stopped");
    assert_eq!(
        post("recover").refused(400),
        "Sandbox is not in an error state"
    );
    assert_eq!(post("start").ok()["state"], "started");
    post("stop").ok();
    assert_eq!(
        post("stop").refused(400),
        "Sandbox is not in a stoppable state"
    );
    post("archive").ok();
    assert_eq!(post("archive").refused(400), "Sandbox is not stopped");
    let unknown = server.post("/api/sandbox", json!({ "snapshot": "nope" }));
    assert_eq!(
        unknown.refused(400),
        "Snapshot nope not found. Did you add it through the Daytona Dashboard?"
    );
    let sized = server.post(
        "/api/sandbox",
        json!({ "snapshot": "daytona-small", "cpu": 2 }),
    );
    assert_eq!(
        sized.refused(400),
        "Cannot specify Sandbox resources when using a snapshot"
    );
    let both =
        json!({ "snapshot": "daytona-small", "buildInfo": { "dockerfileContent": "FROM a" } });
    server.post("/api/sandbox", both).refused(400);
}

#[test]
fn an_organisation_has_only_so_many_sandboxes() {
    let server = TestServer::with(|config| config.limits.sandboxes_max = 1);
    let id = server.sandbox();
    let refused = server.post("/api/sandbox", json!({})).refused(403);
    assert!(refused.contains("1 sandboxes already"), "{refused}");
    server
        .post(&format!("/api/sandbox/{id}/fork"), json!({}))
        .refused(403);
    server.delete(&format!("/api/sandbox/{id}")).ok();
    server.sandbox();
}

#[test]
fn clients_that_hang_up_leave_whole_sandboxes() {
    let server = TestServer::new();
    let id = server.sandbox();
    // Each request is given up at another point of its way.
    for (round, change) in (0_u64..).zip(["stop", "start", "stop", "start", "stop", "start"]) {
        let url = format!("{}/api/sandbox/{id}/{change}", server.url);
        let request = reqwest::Client::new().post(url).bearer_auth(&server.key);
        let patience = std::time::Duration::from_millis(1 + round * 4);
        // Whether it was answered in time does not matter.
        drop(server.block_on(async { request.timeout(patience).send().await }));
    }
    let settled = || server.get(&format!("/api/sandbox/{id}")).body["state"].clone();
    crate::support::wait_until("it is one or the other", || {
        settled() == "started" || settled() == "stopped"
    });
    crate::support::wait_until("it can be started", || {
        server
            .post(&format!("/api/sandbox/{id}/start"), json!({}))
            .status
            .is_success()
    });
    assert_eq!(server.run(&id, "echo alive"), "alive");
}
