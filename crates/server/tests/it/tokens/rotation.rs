//! Keys that change under live tokens.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::threads::{Content, ThreadsClient, entry};

#[test]
fn tokens_outlive_one_rotation() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let other = client.server.key_of("other");
    client
        .post(&other, "/api/threads", json!({ "id": "t" }))
        .ok();
    let others = client.post(&other, "/api/threads/t/tokens", json!({})).ok();
    let others = others["jwt"].as_str().unwrap();
    let token = client.mint(&thread, json!({ "run": "r1" }));
    let rotate = |bearer: &str| {
        let path = "/api/thread-token-keys/rotate";
        client.send(Some(bearer), Method::POST, path, Content::Nothing, &[])
    };
    assert_eq!(rotate(&token).refused(403), "key_needed");
    assert_eq!(rotate(client.key()).status, StatusCode::NO_CONTENT);
    let write =
        |token: &str, id: &str| client.append(token, &thread, entry(id, json!({ "type": "pi.a" })));
    write(&token, "1").ok();
    let renewed = client
        .post(&token, &format!("{thread}/tokens/renew"), json!({}))
        .ok();
    let renewed = renewed["jwt"].as_str().unwrap();
    assert_eq!(rotate(client.key()).status, StatusCode::NO_CONTENT);
    assert_eq!(write(&token, "2").refused(401), "token_invalid");
    write(renewed, "3").ok();
    // Another organisation's tokens have other keys.
    client.get(others, &thread).ok();
}
