//! Subscriptions, beyond what the conformance suite looks at.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use holm_server::LocalCalls;
use holm_server::records::OrganizationRecord;
use holm_store::{SqliteOptions, SqliteStreams, Store};
use holm_thread_log::{Append, Command, ContentType, Ending, Payload, StreamStore, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::Answer;
use crate::support::{TestServer, wait_until};

const PATH: &str = "__ds/subscriptions/s";

fn server() -> TestServer {
    TestServer::with(|config| config.local_calls = LocalCalls::Allowed)
}

fn send(server: &TestServer, key: &str, method: Method, path: &str, body: &Value) -> Answer {
    server.stream(key, method, path, &[], body.to_string())
}

fn shown(server: &TestServer) -> Value {
    serde_json::from_str(&server.look(PATH).ok().body).unwrap()
}

fn pull(server: &TestServer, lease_milliseconds: u64) {
    server.make("wakes");
    let body = json!({
        "type": "pull-wake", "pattern": "events/**", "wake_stream": "wakes", "lease_ttl_ms": lease_milliseconds,
    });
    let made = send(server, &server.key, Method::PUT, PATH, &body);
    assert_eq!(made.status, 201, "{made:?}");
}

fn claim(server: &TestServer, worker: &str) -> Answer {
    let path = format!("{PATH}/claim");
    send(
        server,
        &server.key,
        Method::POST,
        &path,
        &json!({ "worker": worker }),
    )
}

fn wakes(server: &TestServer) -> Vec<Value> {
    serde_json::from_str(&server.look("wakes").ok().body).unwrap()
}

#[test]
fn a_worker_that_dies_is_replaced_also_by_another_server() {
    let server = server();
    pull(&server, 1_000);
    server.make("events/a");
    server.add("events/a", "1").ok();
    wait_until("workers are told", || wakes(&server).len() == 1);
    let first: Value = serde_json::from_str(&claim(&server, "one").ok().body).unwrap();
    assert_eq!(claim(&server, "two").refused(409), "ALREADY_CLAIMED");
    let server = TestServer::at(server.stop(), |_| {});
    wait_until("the lease is over", || claim(&server, "two").status == 200);
    let stale = json!({
        "wake_id": first["wake_id"], "generation": first["generation"], "done": true,
        "acks": [{ "stream": "events/a", "offset": first["streams"][0]["tail_offset"] }],
    });
    let token = first["token"].as_str().unwrap();
    let path = format!("{PATH}/ack");
    let fenced = send(&server, token, Method::POST, &path, &stale);
    assert_eq!(fenced.refused(409), "FENCED");
    // Nothing of it was taken as done.
    assert_ne!(
        shown(&server)["streams"][0]["acked_offset"],
        first["streams"][0]["tail_offset"]
    );
}

#[test]
fn a_stream_that_grows_while_nobody_looks_is_found_by_the_next_server() {
    let server = server();
    pull(&server, 1_000);
    server.make("events/a");
    let data = server.stop();
    // As a server that dies between storing and waking.
    append_beside(&data.path().join("data/holm.db"), "events/a");
    let server = TestServer::at(data, |_| {});
    wait_until("workers are told", || !wakes(&server).is_empty());
    let claimed: Value = serde_json::from_str(&claim(&server, "one").ok().body).unwrap();
    let pending: Vec<_> = claimed["streams"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|stream| stream["has_pending"] == true)
        .collect();
    assert!(!pending.is_empty(), "{claimed}");
}

/// Adds to a stream of the organisation `default` while no server runs.
fn append_beside(database: &std::path::Path, name: &str) {
    let organizations: Vec<OrganizationRecord> = Store::open(database).unwrap().all().unwrap();
    let ours = organizations
        .iter()
        .find(|organization| organization.name == "default")
        .unwrap();
    let append = Append {
        name: format!("{}/{name}", ours.id).parse().unwrap(),
        content_type: Some(ContentType::json()),
        payload: Some(Payload::json(&bytes::Bytes::from_static(b"1")).unwrap()),
        producer: None,
        stream_seq: None,
        ending: Ending::Open,
        writer: None,
        documents: Vec::new(),
    };
    let streams = SqliteStreams::open(database, SqliteOptions::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let decided = runtime.block_on(streams.apply(Command::Append(append), now));
    assert!(decided.unwrap().is_ok());
}

#[test]
fn subscriptions_of_another_organisation_are_missing_and_wake_nobody() {
    let server = server();
    let other = server.key_of("other");
    pull(&server, 1_000);
    let as_other = |method, path: &str, body: Value| send(&server, &other, method, path, &body);
    assert_eq!(
        as_other(Method::GET, PATH, json!({})).refused(404),
        "SUBSCRIPTION_NOT_FOUND"
    );
    let claimed = as_other(
        Method::POST,
        &format!("{PATH}/claim"),
        json!({ "worker": "x" }),
    );
    assert_eq!(claimed.refused(404), "SUBSCRIPTION_NOT_FOUND");
    assert_eq!(as_other(Method::DELETE, PATH, json!({})).status, 204);
    // Their stream of the same name is not ours.
    let json_type = [("content-type", "application/json")];
    server
        .stream(&other, Method::PUT, "events/a", &json_type, "1")
        .ok();
    server.make("events/b");
    server.add("events/b", "1").ok();
    wait_until("workers are told", || !wakes(&server).is_empty());
    let streams = shown(&server)["streams"].clone();
    assert_eq!(streams.as_array().unwrap().len(), 1, "{streams}");
    assert_eq!(streams[0]["path"], "events/b");
    // A token of a wake opens its own subscription only.
    let claimed: Value = serde_json::from_str(&claim(&server, "one").ok().body).unwrap();
    let token = claimed["token"].as_str().unwrap();
    let elsewhere = send(
        &server,
        token,
        Method::POST,
        "__ds/subscriptions/t/ack",
        &json!({}),
    );
    assert_eq!(elsewhere.refused(401), "TOKEN_INVALID");
    let as_key = server.stream(token, Method::GET, "events/b", &[], "");
    assert_eq!(as_key.refused(401), "key_invalid");
}

/// A program that answers calls, one after the other, and keeps their bodies.
fn subscriber(answers: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let called = std::thread::spawn(move || {
        let mut bodies = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            let body = loop {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(buffer.get(..count).unwrap());
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((_, body)) = text.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str(body)
                {
                    break body;
                }
            };
            bodies.push(body);
            stream.write_all(answer.as_bytes()).unwrap();
        }
        bodies
    });
    (url, called)
}

const FAILED: &str = "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"done\":true}";

#[test]
fn a_call_that_fails_is_made_again() {
    let server = server();
    let (url, called) = subscriber(&[FAILED, DONE]);
    server.make("a");
    let body = json!({ "type": "webhook", "streams": ["a"], "webhook": { "url": url } });
    send(&server, &server.key, Method::PUT, PATH, &body).ok();
    let tail = server.add("a", "1").next();
    wait_until("it is known to have failed", || {
        shown(&server)["status"] == "failed"
    });
    wait_until("it is done", || {
        shown(&server)["streams"][0]["acked_offset"] == tail
    });
    assert_eq!(shown(&server)["status"], "active");
    let calls = called.join().unwrap();
    assert_eq!(calls[0]["wake_id"], calls[1]["wake_id"]);
    assert_eq!(calls[1]["generation"], 1);
}

#[test]
fn programs_of_this_machine_are_called_only_if_its_operator_says_so() {
    let server = TestServer::new();
    for url in [
        "http://127.0.0.1:1/",
        "https://169.254.169.254/",
        "https://10.0.0.1/",
    ] {
        let body = json!({ "type": "webhook", "streams": ["a"], "webhook": { "url": url } });
        let refused = send(&server, &server.key, Method::PUT, PATH, &body);
        assert_eq!(refused.refused(400), "WEBHOOK_URL_REJECTED", "{url}");
    }
}

#[test]
fn the_same_again_is_confirmed_and_another_is_refused() {
    let server = server();
    pull(&server, 1_000);
    let body = json!({ "type": "pull-wake", "pattern": "events/*", "wake_stream": "wakes" });
    let differs = send(&server, &server.key, Method::PUT, PATH, &body);
    assert_eq!(differs.refused(409), "SUBSCRIPTION_ALREADY_EXISTS");
    for (path, method) in [
        (PATH.to_owned(), Method::PATCH),
        (format!("{PATH}/claim"), Method::GET),
        ("__ds/jwks.json".to_owned(), Method::POST),
    ] {
        let wrong = send(&server, &server.key, method, &path, &json!({}));
        assert_eq!(wrong.refused(405), "method", "{path}");
    }
    for path in [
        "__ds",
        "__ds/x",
        "__ds/subscriptions/s/x",
        "__ds/subscriptions/s/claim/x",
    ] {
        let nothing = send(&server, &server.key, Method::POST, path, &json!({}));
        assert_eq!(nothing.refused(404), "SUBSCRIPTION_NOT_FOUND", "{path}");
    }
    let malformed = server.stream(&server.key, Method::PUT, PATH, &[], "{");
    assert_eq!(malformed.refused(400), "INVALID_REQUEST");
}
