//! Tokens and tickets of a thread that was deleted, at a new thread of the same id.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_server::StreamsPlace;
use holm_testkit::PostgresServer;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::threads::{Content, ThreadsClient, chat, entry};

const SECRET: &str = "only for the new thread";
/// Of the text "a blob".
const BLOB: &str = "5570a3cf02207f1d352d2cfea385be4bc0b2b9414f606baa6f55db60b232f221";

fn ticket(client: &ThreadsClient, bearer: &str, thread: &str) -> String {
    let ticket = client
        .post(bearer, &format!("{thread}/read-tickets"), json!({}))
        .ok();
    ticket["ticket"].as_str().unwrap().to_owned()
}

/// The id is deleted, and given out again: to a thread with the same run.
fn replace(client: &ThreadsClient, thread: &str) {
    let deleted = client.send(
        Some(client.key()),
        Method::DELETE,
        thread,
        Content::Nothing,
        &[],
    );
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    client.thread("t");
    client.begin(thread, "r1");
    client
        .append(client.key(), thread, chat("new", SECRET))
        .ok();
}

#[track_caller]
fn nothing_opens(client: &ThreadsClient, thread: &str, token: &str) {
    let stream = "/v1/stream/holm-thread-t";
    let write = || entry("x", json!({ "type": "pi.a" }));
    let blob = format!("{thread}/blobs/{BLOB}");
    let all = [
        (Method::GET, thread.to_owned(), Content::Nothing),
        (Method::GET, format!("{thread}/entries"), Content::Nothing),
        (
            Method::POST,
            format!("{thread}/entries"),
            Content::Json(write()),
        ),
        (
            Method::POST,
            format!("{thread}/heartbeat"),
            Content::Nothing,
        ),
        (
            Method::PUT,
            blob.clone(),
            Content::Bytes(b"a blob".to_vec()),
        ),
        (Method::GET, blob, Content::Nothing),
        (
            Method::POST,
            format!("{thread}/read-tickets"),
            Content::Json(json!({})),
        ),
        (
            Method::POST,
            format!("{thread}/tokens/renew"),
            Content::Json(json!({})),
        ),
        (Method::GET, format!("{stream}?offset=-1"), Content::Nothing),
        (
            Method::GET,
            format!("{stream}?offset=-1&live=long-poll"),
            Content::Nothing,
        ),
        (
            Method::GET,
            format!("{stream}?offset=-1&live=sse"),
            Content::Nothing,
        ),
        (Method::POST, stream.to_owned(), Content::Json(write())),
        (
            Method::POST,
            stream.to_owned(),
            Content::Json(entry("h", json!({ "type": "signal.thread.heartbeat" }))),
        ),
    ];
    for (method, path, content) in all {
        let what = format!("{method} {path}");
        let answer = client.send(Some(token), method, &path, content, &[]);
        assert!(!format!("{answer:?}").contains(SECRET), "{what}");
        assert_eq!(answer.refused(403), "thread_replaced", "{what}");
    }
    let head = client.send(Some(token), Method::HEAD, stream, Content::Nothing, &[]);
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    assert!(!head.headers.contains_key("stream-next-offset"));
}

fn check(server: TestServer) {
    let client = ThreadsClient::of(server);
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let token = client.mint(&thread, json!({ "run": "r1" }));
    let tickets = [client.key(), &token].map(|bearer| ticket(&client, bearer, &thread));
    client
        .append(&token, &thread, entry("1", json!({ "type": "pi.a" })))
        .ok();
    replace(&client, &thread);
    nothing_opens(&client, &thread, &token);
    for ticket in tickets {
        let path = format!("/v1/stream/holm-thread-t?offset=-1&live=sse&ticket={ticket}");
        let answer = client.send(None, Method::GET, &path, Content::Nothing, &[]);
        assert_eq!(answer.refused(403), "thread_replaced");
    }
    // Nothing of all this left a trace, and the new thread's own token works.
    let entries = client.entries(&thread);
    let ids: Vec<&Value> = entries.iter().map(|entry| &entry["id"]).collect();
    assert!(ids.iter().all(|id| *id != "x"), "{ids:?}");
    assert_eq!(
        client.get(client.key(), &thread).ok()["lastSeenAt"],
        Value::Null
    );
    let token = client.mint(&thread, json!({ "run": "r1" }));
    client
        .append(&token, &thread, entry("x", json!({ "type": "pi.a" })))
        .ok();
}

#[test]
fn nothing_of_a_deleted_thread_opens_the_next_one_of_its_id() {
    check(TestServer::new());
}

#[test]
fn nothing_of_a_deleted_thread_opens_the_next_one_of_its_id_in_postgres() {
    let Some(postgres) = PostgresServer::start() else {
        return;
    };
    check(TestServer::with(|config| {
        let url = Hidden::new(postgres.url());
        config.streams = StreamsPlace::Postgres { url };
    }));
}

#[test]
fn a_reader_is_not_led_from_a_deleted_thread_into_the_next_one() {
    let client = ThreadsClient::of(TestServer::new());
    // By the protocol of streams, so that it is empty: the reader stands at the start, which all streams have.
    let stream = "/v1/stream/holm-thread-t";
    let json_type = [("content-type", "application/json")];
    let make = || {
        let made = client.send(
            Some(client.key()),
            Method::PUT,
            stream,
            Content::Nothing,
            &json_type,
        );
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    };
    make();
    let token = client.mint("/api/threads/t", json!({ "run": "r1" }));
    let address = client.server.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let request = format!(
        "GET {stream}?offset=-1&live=sse HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while !line.starts_with("event: control") {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let deleted = client.send(
        Some(client.key()),
        Method::DELETE,
        stream,
        Content::Nothing,
        &[],
    );
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    make();
    client
        .append(client.key(), "/api/threads/t", chat("new", SECRET))
        .ok();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains(SECRET), "{rest}");
}
