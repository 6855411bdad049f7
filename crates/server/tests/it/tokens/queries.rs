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
    for headers in [&[][..], &[("stream-closed", "true")]] {
        let path = format!("/v1/stream/holm-thread-t?ticket={}", ticket());
        let body = Content::Json(chat("2", "not by a ticket"));
        let written = client.send(None, Method::POST, &path, body, headers);
        assert_eq!(written.refused(403), "forbidden");
    }
    let made = with(Method::PUT, "/v1/stream/holm-thread-t", &ticket());
    assert_eq!(made.status, StatusCode::FORBIDDEN);
    assert_eq!(client.entries(&thread).len(), 2);
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

/// What an `EventSource` comes back with opens as much as its ticket did, once, and only in the header.
#[test]
fn what_a_reader_comes_back_with_is_good_once() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    client.thread("u");
    let issued = client.post(client.key(), &format!("{thread}/read-tickets"), json!({}));
    let first = issued.ok()["ticket"].as_str().unwrap().to_owned();
    let close = [("stream-closed", "true")];
    let path = "/v1/stream/holm-thread-t";
    let closed = client.send(
        Some(client.key()),
        Method::POST,
        path,
        Content::Nothing,
        &close,
    );
    assert_eq!(closed.status, StatusCode::NO_CONTENT, "{closed:?}");
    // Ended, so that the answer ends.
    let address = format!("{path}?offset=-1&live=sse&ticket={first}");
    let events = client.send(None, Method::GET, &address, Content::Nothing, &[]);
    let text = events.ok().as_str().unwrap().to_owned();
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    let id = ids.next_back().unwrap();
    let (offset, ticket) = id.split_once('~').unwrap();
    assert!(!first.contains(ticket) && ticket.len() > 64, "{ticket}");
    let back = |method: Method, path: &str, id: &str| {
        let seen = [("last-event-id", id)];
        client
            .send(None, method, path, Content::Nothing, &seen)
            .status
    };
    assert_eq!(
        back(Method::GET, &address, offset),
        StatusCode::UNAUTHORIZED
    );
    let elsewhere = "/v1/stream/holm-thread-u?offset=-1&live=sse";
    assert_eq!(
        back(Method::GET, "/api/threads/t", id),
        StatusCode::UNAUTHORIZED
    );
    // The stream has ended: there is nothing to come back for.
    assert_eq!(back(Method::GET, &address, id), StatusCode::NO_CONTENT);
    assert_eq!(back(Method::GET, &address, id), StatusCode::UNAUTHORIZED);
    assert_eq!(back(Method::GET, elsewhere, id), StatusCode::UNAUTHORIZED);
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
