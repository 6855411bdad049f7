//! What an address may carry: a ticket, once, and nothing else.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::threads::{Content, ThreadsClient, chat};

#[test]
fn a_ticket_reads_one_stream_once() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    client.thread("u");
    client.append(client.key(), &thread, chat("1", "hi")).ok();
    let ticket = || {
        let issued = client.post(client.key(), &format!("{thread}/read-tickets"), json!({}));
        assert_eq!(issued.status, StatusCode::CREATED, "{issued:?}");
        issued.body["ticket"].as_str().unwrap().to_owned()
    };
    let with = |method: Method, path: &str, ticket: &str| {
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}ticket={ticket}");
        client.send(None, method, &path, Content::Nothing, &[])
    };
    let stream = "/v1/stream/holm-thread-t?offset=-1";
    let once = ticket();
    let read = with(Method::GET, stream, &once).ok();
    assert_eq!(read[1]["payload"]["text"], "hi");
    assert_eq!(
        with(Method::GET, stream, &once).refused(401),
        "ticket_invalid"
    );
    assert_eq!(
        with(Method::GET, stream, "1-2").refused(401),
        "ticket_invalid"
    );
    // One thread, for reading.
    let other = with(Method::GET, "/v1/stream/holm-thread-u", &ticket());
    assert_eq!(other.status, StatusCode::FORBIDDEN);
    let delete = with(Method::DELETE, "/v1/stream/holm-thread-t", &ticket());
    assert_eq!(delete.status, StatusCode::FORBIDDEN);
    // And not for the rest of a thread's routes, where it is not even used up.
    let kept = ticket();
    for path in ["/api/threads/t", "/api/threads/t/entries", "/api/threads"] {
        assert_eq!(
            with(Method::GET, path, &kept).refused(401),
            "key_missing",
            "{path}"
        );
    }
    with(Method::GET, stream, &kept).ok();
}

#[test]
fn keys_and_tokens_in_an_address_open_nothing() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    let token = client.mint(&thread, json!({}));
    for bearer in [client.key(), &token] {
        for name in [
            "token",
            "access_token",
            "jwt",
            "key",
            "authorization",
            "ticket",
        ] {
            for path in ["/api/threads/t", "/v1/stream/holm-thread-t"] {
                let path = format!("{path}?{name}={bearer}");
                let reply = client.send(None, Method::GET, &path, Content::Nothing, &[]);
                assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{path}: {reply:?}");
            }
        }
    }
}
