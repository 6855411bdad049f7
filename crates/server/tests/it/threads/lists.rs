//! Lists of threads.

use serde_json::{Value, json};

use super::{ThreadsClient, entry, status};

fn ids(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn threads_are_found_by_what_they_are() {
    let client = ThreadsClient::new();
    let key = client.key();
    for (id, request) in [
        ("a", json!({ "tags": ["x", "y"], "environmentId": "e1" })),
        ("b", json!({ "tags": ["x"], "sandboxId": "s1" })),
        (
            "c",
            json!({ "parent": { "kind": "thread", "id": "a" }, "status": "idle" }),
        ),
        (
            "d",
            json!({ "parent": { "kind": "thread", "id": "a" }, "tags": ["x"], "sandboxId": "s1" }),
        ),
    ] {
        let mut request = request;
        request["id"] = json!(id);
        client.post(key, "/api/threads", request).ok();
    }
    client
        .append(
            key,
            "/api/threads/b",
            entry("1", status("running", Some("r"))),
        )
        .ok();
    for (query, expected) in [
        ("", vec!["d", "c", "b", "a"]),
        ("?tag=x", vec!["d", "b", "a"]),
        ("?tag=x&tag=y", vec!["a"]),
        ("?status=running", vec!["b"]),
        ("?status=idle", vec!["c"]),
        ("?status=open", vec!["d", "a"]),
        ("?parent=a", vec!["d", "c"]),
        ("?parent=a&sandboxId=s1", vec!["d"]),
        ("?environmentId=e1", vec!["a"]),
        ("?sandboxId=s1&status=running", vec!["b"]),
        ("?tag=none", vec![]),
        // No term reaches over to another kind of term.
        ("?tag=x/status:open", vec![]),
    ] {
        let list = client.get(key, &format!("/api/threads{query}")).ok();
        assert_eq!(ids(&list), expected, "{query}");
    }
    let children = client.get(key, "/api/threads/a/children").ok();
    assert_eq!(ids(&children), ["d", "c"]);
    assert_eq!(
        client.get(key, "/api/threads/none/children").refused(404),
        "NOT_FOUND"
    );
    // What is no longer so is no longer found.
    client
        .append(key, "/api/threads/b", entry("2", status("completed", None)))
        .ok();
    let running = client.get(key, "/api/threads?status=running").ok();
    assert_eq!(running["items"], json!([]));
}

#[test]
fn lists_come_in_pages() {
    let client = ThreadsClient::new();
    let key = client.key();
    for number in 0..7 {
        client.thread(&format!("t{number}"));
    }
    let mut found = Vec::new();
    let mut query = "?limit=3".to_owned();
    let mut pages = 0;
    loop {
        let page = client.get(key, &format!("/api/threads{query}")).ok();
        found.extend(ids(&page));
        pages += 1;
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        query = format!("?limit=3&cursor={cursor}");
    }
    assert_eq!(found, ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]);
    assert_eq!(pages, 3);
    for wrong in [
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=%00",
        "cursor=!",
        "status=alive",
    ] {
        let refused = client.get(key, &format!("/api/threads?{wrong}"));
        assert_eq!(refused.refused(400), "BAD_REQUEST", "{wrong}");
    }
}

#[test]
fn another_organisations_threads_do_not_exist() {
    let client = ThreadsClient::new();
    let other = client.server.key_of("other");
    let thread = client.thread("same");
    client.begin(&thread, "r1");
    assert_eq!(
        ids(&client.get(&other, "/api/threads").ok()),
        Vec::<String>::new()
    );
    assert_eq!(client.get(&other, &thread).refused(404), "NOT_FOUND");
    // The same id is free for others, and another thread.
    client
        .post(&other, "/api/threads", json!({ "id": "same" }))
        .ok();
    assert_eq!(client.get(&other, &thread).ok()["status"], "open");
    assert_eq!(client.get(client.key(), &thread).ok()["status"], "running");
    let child = json!({ "parent": { "kind": "thread", "id": "mine" } });
    client.thread("mine");
    let refused = client.post(&other, "/api/threads", child);
    assert_eq!(refused.refused(400), "BAD_REQUEST");
}
