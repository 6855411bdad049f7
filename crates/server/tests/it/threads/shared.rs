//! Two servers over one Postgres: the same threads, whoever is asked.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_server::StreamsPlace;
use holm_testkit::PostgresServer;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::client::Content;
use super::{ThreadsClient, chat, entry, status};
use crate::support::TestServer;

/// Two servers, each with data and keys of its own.
fn two(postgres: &PostgresServer, blobs: Option<&Path>) -> [ThreadsClient; 2] {
    [(); 2].map(|()| {
        let server = TestServer::with(|config| {
            config.blobs = blobs.map(Path::to_path_buf);
            config.streams = StreamsPlace::Postgres {
                url: Hidden::new(postgres.url()),
            };
        });
        ThreadsClient::of(server)
    })
}

#[test]
fn a_thread_is_the_same_on_all_servers() {
    let Some(postgres) = PostgresServer::start() else {
        return;
    };
    let [one, other] = two(&postgres, None);
    let thread = one.thread("t");
    assert_eq!(other.get(other.key(), &thread).ok()["status"], "open");
    let listed = other.get(other.key(), "/api/threads").ok();
    assert_eq!(listed["items"][0]["id"], "t");
    // A reader of one is woken by a writer of the other, and a retry at the other is known.
    let mut reader = follow(&other, "/v1/stream/holm-thread-t?offset=now&live=sse");
    one.append(one.key(), &thread, chat("1", "to all")).ok();
    read_until(&mut reader, "to all");
    let again = other.append(other.key(), &thread, chat("1", "to all")).ok();
    assert_eq!(again["duplicate"], true);
    assert_eq!(one.entries(&thread), other.entries(&thread));
    // What belongs to another organisation is missing on both.
    for client in [&one, &other] {
        let stranger = client.server.key_of("strangers");
        assert_eq!(client.get(&stranger, &thread).refused(404), "NOT_FOUND");
    }
}

#[test]
fn tokens_and_tickets_of_one_server_are_good_on_the_other() {
    let Some(postgres) = PostgresServer::start() else {
        return;
    };
    let [one, other] = two(&postgres, None);
    let thread = one.thread("t");
    one.begin(&thread, "r1");
    let token = one.mint(&thread, json!({ "run": "r1" }));
    other.append(&token, &thread, chat("1", "hi")).ok();
    let issued = one
        .post(&token, &format!("{thread}/read-tickets"), json!({}))
        .ok();
    let path = format!(
        "/v1/stream/holm-thread-t?ticket={}",
        issued["ticket"].as_str().unwrap()
    );
    let show = |client: &ThreadsClient| {
        let reply = client.send(None, Method::GET, &path, Content::Nothing, &[]);
        reply.status
    };
    assert_eq!(show(&other), StatusCode::OK);
    assert_eq!(show(&one), StatusCode::UNAUTHORIZED);
    // Its run ends on one; from then on it is refused on both.
    one.append(one.key(), &thread, entry("end", status("completed", None)))
        .ok();
    for client in [&one, &other] {
        let late = client.append(&token, &thread, chat("2", "late"));
        assert_eq!(late.refused(403), "run_ended");
    }
}

#[test]
fn blobs_of_one_server_are_found_by_the_other() {
    const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let Some(postgres) = PostgresServer::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = two(&postgres, Some(folder.path()));
    let blob = format!("{}/blobs/{HELLO}", one.thread("t"));
    let content = Content::Bytes(b"hello".to_vec());
    one.send(Some(one.key()), Method::PUT, &blob, content, &[])
        .ok();
    assert_eq!(other.get(other.key(), &blob).ok(), "hello");
}

fn follow(client: &ThreadsClient, path: &str) -> TcpStream {
    let address = client.server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\r\n",
        client.key()
    );
    stream.write_all(request.as_bytes()).unwrap();
    read_until(&mut stream, "upToDate");
    stream
}

#[track_caller]
fn read_until(stream: &mut TcpStream, text: &str) {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "ended before {text:?}: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}
