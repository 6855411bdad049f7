//! Making, changing and deleting threads.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Content;
use super::{ThreadsClient, chat, status};

#[test]
fn a_thread_is_made_and_shown() {
    let client = ThreadsClient::new();
    let key = client.key();
    client.thread("parent");
    let request = json!({
        "id": "child", "parent": { "kind": "thread", "id": "parent" }, "tags": ["b", "a", "b"],
        "environmentId": "env-1", "sandboxId": "box-1", "status": "idle",
    });
    let made = client.post(key, "/api/threads", request);
    assert_eq!(made.status, StatusCode::CREATED);
    let shown = client.get(key, "/api/threads/child").ok();
    assert_eq!(shown, made.body);
    assert_eq!(shown["status"], "idle");
    assert_eq!(shown["parent"], json!({ "kind": "thread", "id": "parent" }));
    assert_eq!(shown["tags"], json!(["a", "b"]));
    assert_eq!(shown["environmentId"], "env-1");
    assert_eq!(shown["sandboxId"], "box-1");
    assert_eq!(shown["run"], Value::Null);
    assert_eq!(shown["lastSeenAt"], Value::Null);
    assert_eq!(shown["usage"]["inputTokens"], 0);
    assert_eq!(shown["stream"]["path"], "/v1/stream/holm-thread-child");
    // Its stream is there, with the entry that says what it is.
    let stream = client
        .get(key, "/v1/stream/holm-thread-child?offset=-1")
        .ok();
    assert_eq!(stream[0]["payload"]["type"], "signal.thread.created");
    assert_eq!(stream[0]["payload"]["environmentId"], "env-1");
}

#[test]
fn the_same_request_makes_one_thread() {
    let client = ThreadsClient::new();
    let key = client.key();
    let request = json!({ "id": "once", "tags": ["a"] });
    let first = client.post(key, "/api/threads", request.clone());
    assert_eq!(first.status, StatusCode::CREATED);
    client
        .append(key, "/api/threads/once", chat("1", "hi"))
        .ok();
    let again = client.post(key, "/api/threads", request);
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(client.entries("/api/threads/once").len(), 2);
    let other = client.post(key, "/api/threads", json!({ "id": "once", "tags": ["b"] }));
    assert_eq!(other.refused(409), "CONFLICT");
    // Without an id, each request makes one, and ids rise.
    let ids = [(); 3].map(|()| {
        let made = client.post(key, "/api/threads", json!({})).ok();
        made["id"].as_str().unwrap().to_owned()
    });
    assert!(ids.is_sorted() && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn what_makes_no_thread_is_told_why() {
    let client = ThreadsClient::new();
    let table = [
        (
            json!({ "id": "a/b" }),
            "the id of a thread is 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            json!({ "id": "../x" }),
            "the id of a thread is 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            json!({ "id": "" }),
            "the id of a thread is 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            json!({ "id": "x".repeat(65) }),
            "the id of a thread is 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            json!({ "parent": { "kind": "thread", "id": "none" } }),
            "there is no thread `none` to be the parent",
        ),
        (
            json!({ "tags": ["a\u{0}"] }),
            "entry 1: the payload of `signal.thread.created` is not as it has to be: a tag is 1 to 64 bytes without control characters",
        ),
        (
            json!({ "status": "completed" }),
            "entry 1: the payload of `signal.thread.created` is not as it has to be: a thread begins `open` or `idle`",
        ),
        (
            json!({ "sandboxId": "a b" }),
            "entry 1: the payload of `signal.thread.created` is not as it has to be: an id is 1 to 128 visible ASCII characters",
        ),
    ];
    for (request, message) in table {
        let reply = client.post(client.key(), "/api/threads", request.clone());
        assert_eq!(
            reply.status,
            StatusCode::BAD_REQUEST,
            "{request}: {reply:?}"
        );
        assert_eq!(reply.message(), message, "{request}");
    }
    for request in [json!({ "sandbox": "x" }), json!([]), json!({ "tags": "a" })] {
        let reply = client.post(client.key(), "/api/threads", request);
        assert_eq!(reply.refused(400), "INVALID_REQUEST_BODY");
    }
}

#[test]
fn a_thread_is_changed_by_an_entry() {
    let client = ThreadsClient::new();
    let key = client.key();
    let request =
        json!({ "id": "t", "tags": ["a"], "sandboxId": "box-1", "environmentId": "env-1" });
    client.post(key, "/api/threads", request).ok();
    let patch = |body: Value| {
        let content = Content::Json(body);
        client.send(Some(key), Method::PATCH, "/api/threads/t", content, &[])
    };
    let changed = patch(json!({ "tags": ["c", "b"], "sandboxId": null })).ok();
    assert_eq!(changed["tags"], json!(["b", "c"]));
    assert_eq!(changed["sandboxId"], Value::Null);
    assert_eq!(changed["environmentId"], "env-1");
    let entries = client.entries("/api/threads/t");
    assert_eq!(entries[1]["payload"]["type"], "signal.thread.updated");
    assert_eq!(
        patch(json!({ "status": "completed" })).refused(400),
        "INVALID_REQUEST_BODY"
    );
    assert_eq!(patch(json!({ "tags": [""] })).refused(400), "entry_invalid");
}

#[test]
fn a_deleted_thread_is_gone() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    let delete = || client.send(Some(key), Method::DELETE, &thread, Content::Nothing, &[]);
    assert_eq!(delete().status, StatusCode::NO_CONTENT);
    assert_eq!(client.get(key, &thread).refused(404), "NOT_FOUND");
    assert_eq!(delete().refused(404), "NOT_FOUND");
    assert_eq!(client.get(key, "/api/threads").ok()["items"], json!([]));
    // Its name is free again, and nothing of it is left.
    client.thread("t");
    assert_eq!(client.entries(&thread).len(), 1);
}

#[test]
fn a_stream_made_by_the_protocol_is_a_thread_too() {
    let client = ThreadsClient::new();
    let key = client.key();
    let put = |name: &str, content_type: &str| {
        let path = format!("/v1/stream/{name}");
        let headers = [("content-type", content_type)];
        client.send(Some(key), Method::PUT, &path, Content::Nothing, &headers)
    };
    let made = put("holm-thread-p", "application/json");
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert_eq!(client.get(key, "/api/threads/p").ok()["status"], "open");
    client
        .append(
            key,
            "/api/threads/p",
            super::entry("1", status("running", Some("r"))),
        )
        .ok();
    let listed = client.get(key, "/api/threads?status=running").ok();
    assert_eq!(listed["items"][0]["id"], "p");
    assert_eq!(
        put("holm-thread-q", "text/plain").refused(409),
        "thread_content_type"
    );
}
