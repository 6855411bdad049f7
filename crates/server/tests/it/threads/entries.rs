//! Entries through the routes of threads.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Content;
use super::{ThreadsClient, chat, entry};

fn texts(entries: &[Value]) -> Vec<&str> {
    let texts = entries
        .iter()
        .filter_map(|entry| entry["payload"]["text"].as_str());
    texts.collect()
}

#[test]
fn entries_are_stored_once_and_kept_as_they_are() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    let first = client.append(key, &thread, chat("1", "one")).ok();
    assert_eq!(first["duplicate"], false);
    let again = client.append(key, &thread, chat("1", "one")).ok();
    assert_eq!(
        again,
        json!({ "duplicate": true, "nextOffset": first["nextOffset"] })
    );
    // Of several, those that are new.
    let several = json!([
        chat("1", "one"),
        chat("2", "two"),
        chat("3", "three"),
        chat("3", "three")
    ]);
    client.append(key, &thread, several).ok();
    assert_eq!(texts(&client.entries(&thread)), ["one", "two", "three"]);
    // And by the stream's own address.
    let stream = "/api/stream/holm-thread-t";
    let reply = client.post(key, stream, json!([chat("2", "two"), chat("4", "four")]));
    assert_eq!(reply.status, StatusCode::NO_CONTENT, "{reply:?}");
    assert_eq!(
        texts(&client.entries(&thread)),
        ["one", "two", "three", "four"]
    );
    // Fields and types that nobody knows stay, in the bytes that were sent.
    let odd = br#"{"id": "5", "extra": [1e400, {"b":1,"a":2}], "ts":5,"payload":{"z":1,"type":"pi.made_later"}}"#;
    let headers = [("content-type", "application/json")];
    let path = format!("{thread}/entries");
    let content = Content::Bytes(odd.to_vec());
    client
        .send(Some(key), Method::POST, &path, content, &headers)
        .ok();
    let page = client.server.block_on(async {
        let url = format!("{}{thread}/entries", client.server.url);
        let request = reqwest::Client::new().get(url).bearer_auth(key);
        request.send().await.unwrap().text().await.unwrap()
    });
    assert!(page.contains(std::str::from_utf8(odd).unwrap()), "{page}");
}

#[test]
fn what_is_no_entry_is_refused_as_a_whole() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    let long = "x".repeat(1024 * 1024);
    for (body, problem) in [
        (
            json!([chat("1", "a"), { "id": "2" }]),
            "entry 2: the entry is not",
        ),
        (json!("text"), "entry 1: the entry is not"),
        (
            json!({ "id": "1", "ts": "yesterday", "payload": { "type": "pi.a" } }),
            "the entry's `ts`",
        ),
        (
            entry("1", json!({ "type": "unheard.of" })),
            "the payload's `type` is `unheard.of`",
        ),
        (
            entry(
                "1",
                json!({ "type": "signal.thread.status_changed", "status": "done" }),
            ),
            "unknown variant `done`",
        ),
        (chat("1", &long), "put what is large into a blob"),
        (
            json!([
                chat("1", "a"),
                entry("2", json!({ "type": "signal.thread.heartbeat" }))
            ]),
            "a heartbeat comes alone",
        ),
    ] {
        for path in [
            format!("{thread}/entries"),
            "/v1/stream/holm-thread-t".to_owned(),
        ] {
            let reply = client.post(key, &path, body.clone());
            let shown = reply.body.to_string();
            assert!(shown.contains(problem), "{path}: {shown}");
            assert_eq!(reply.refused(400), "entry_invalid", "{path}");
        }
    }
    for (body, code) in [
        (&b"{"[..], "INVALID_REQUEST_BODY"),
        (b"[]", "BAD_REQUEST"),
        (b"", "INVALID_REQUEST_BODY"),
    ] {
        let content = Content::Bytes(body.to_vec());
        let path = format!("{thread}/entries");
        let reply = client.send(Some(key), Method::POST, &path, content, &[]);
        assert_eq!(reply.refused(400), code, "{body:?}");
    }
    let content = Content::Json(chat("1", "a"));
    let path = format!("{thread}/entries");
    let headers = [
        ("producer-id", "p"),
        ("producer-epoch", "0"),
        ("producer-seq", "0"),
    ];
    let reply = client.send(Some(key), Method::POST, &path, content, &headers);
    assert_eq!(reply.refused(400), "BAD_REQUEST");
    // Only what made the thread is there.
    assert_eq!(client.entries(&thread).len(), 1);
    let missing = client.append(key, "/api/threads/none", chat("1", "a"));
    assert_eq!(missing.refused(404), "NOT_FOUND");
}

#[test]
fn entries_are_read_in_pages() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    let numbers: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for number in &numbers {
        client.append(key, &thread, chat(number, number)).ok();
    }
    assert_eq!(texts(&client.entries(&thread)), numbers);
    let now = client
        .get(key, &format!("{thread}/entries?offset=now"))
        .ok();
    assert_eq!(
        (&now["entries"], &now["upToDate"]),
        (&json!([]), &json!(true))
    );
    client.thread("u");
    let foreign = client.get(key, "/api/threads/u/entries?offset=now").ok();
    let foreign = foreign["nextOffset"].as_str().unwrap();
    for wrong in [foreign, "x", "../1", "00_0"] {
        let refused = client.get(key, &format!("{thread}/entries?offset={wrong}"));
        assert_eq!(refused.refused(400), "BAD_REQUEST", "{wrong}");
    }
    let refused = client.get(key, &format!("{thread}/entries?limitBytes=99999999"));
    assert_eq!(refused.refused(400), "BAD_REQUEST");
}

#[test]
fn a_closed_thread_takes_no_more() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    let close = [("stream-closed", "true")];
    let path = "/v1/stream/holm-thread-t";
    let closed = client.send(Some(key), Method::POST, path, Content::Nothing, &close);
    assert_eq!(closed.status, StatusCode::NO_CONTENT, "{closed:?}");
    assert_eq!(
        client.append(key, &thread, chat("1", "a")).refused(409),
        "CONFLICT"
    );
    assert_eq!(client.get(key, &thread).ok()["stream"]["closed"], true);
    let page = client.get(key, &format!("{thread}/entries")).ok();
    assert_eq!(page["closed"], true);
}

#[test]
fn a_heartbeat_is_a_time_and_no_entry() {
    let client = ThreadsClient::new();
    let key = client.key();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let token = client.mint(&thread, json!({ "run": "r1" }));
    let before = client.get(key, &thread).ok();
    assert_eq!(before["lastSeenAt"], Value::Null);
    let beat = client.post(&token, &format!("{thread}/heartbeat"), json!({}));
    assert_eq!(beat.status, StatusCode::NO_CONTENT, "{beat:?}");
    let seen = client.get(key, &thread).ok();
    assert!(seen["lastSeenAt"].is_string(), "{seen}");
    assert_eq!(seen["stream"], before["stream"]);
    // As the seed's mirror sends it, to either address.
    let beat = || entry("h1", json!({ "type": "signal.thread.heartbeat" }));
    for path in [
        format!("{thread}/entries"),
        "/v1/stream/holm-thread-t".to_owned(),
    ] {
        let reply = client.post(&token, &path, beat());
        assert_eq!(reply.status, StatusCode::NO_CONTENT, "{path}: {reply:?}");
    }
    assert_eq!(client.entries(&thread).len(), 2);
}
