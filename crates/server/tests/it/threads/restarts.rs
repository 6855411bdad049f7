//! What a server leaves to the next.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Content;
use super::{ThreadsClient, chat, entry};
use crate::support::TestServer;

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[test]
fn threads_tokens_and_blobs_are_there_after_a_restart() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let token = client.mint(&thread, json!({ "run": "r1" }));
    client.append(&token, &thread, chat("1", "hi")).ok();
    client
        .post(&token, &format!("{thread}/heartbeat"), json!({}))
        .ok();
    let blob = format!("{thread}/blobs/{HELLO}");
    let content = Content::Bytes(b"hello".to_vec());
    client
        .send(Some(&token), Method::PUT, &blob, content, &[])
        .ok();
    let (before, entries) = (client.get(&token, &thread).ok(), client.entries(&thread));
    let ticket = client
        .post(&token, &format!("{thread}/read-tickets"), json!({}))
        .ok();

    let data = client.server.stop();
    // An upload that was cut off by the end of its server.
    let blobs = data.path().join("data/thread-blobs");
    std::fs::create_dir_all(blobs.join("incoming")).unwrap();
    std::fs::write(blobs.join("incoming/half"), b"hel").unwrap();
    let client = ThreadsClient::of(TestServer::at(data, |_| {}));

    assert_eq!(client.get(&token, &thread).ok(), before);
    assert_eq!(client.entries(&thread), entries);
    assert_eq!(client.get(&token, &blob).body, "hello");
    assert!(
        !client
            .server
            .data
            .path()
            .join("data/thread-blobs/incoming/half")
            .exists()
    );
    let again = client.append(&token, &thread, chat("1", "hi")).ok();
    assert_eq!(again["duplicate"], true);
    client
        .append(&token, &thread, entry("2", json!({ "type": "pi.a" })))
        .ok();
    let path = format!(
        "/v1/stream/holm-thread-t?ticket={}",
        ticket["ticket"].as_str().unwrap()
    );
    let read = |expected: StatusCode| {
        let reply = client.send(None, Method::GET, &path, Content::Nothing, &[]);
        assert_eq!(reply.status, expected, "{reply:?}");
        reply.body
    };
    assert!(matches!(read(StatusCode::OK), Value::Array(_)));
    read(StatusCode::UNAUTHORIZED);
}
