//! Writing: bodies that are cut, too large or of the wrong kind, and producers that come again.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_server::StreamsPlace;
use holm_testkit::PostgresServer;
use reqwest::Method;

use crate::support::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_body_that_is_cut_off_leaves_nothing() {
    let server = TestServer::new();
    server.make("a");
    let headers = "content-type: application/json\r\ncontent-length: 100\r\n";
    let mut cut = server.raw("POST", "/v1/stream/a", headers);
    cut.write_all(b"[1,2").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    drop(cut.read_to_end(&mut Vec::new()));
    let headers = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let mut cut = server.raw("POST", "/v1/stream/a", headers);
    cut.write_all(b"3\r\n[1]\r\n").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    drop(cut.read_to_end(&mut Vec::new()));
    assert_eq!(server.look("a").body, "[]");
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let server = TestServer::with(|config| {
        config.limits.silence_max = Duration::from_millis(300);
    });
    server.make("a");
    let headers = "content-type: application/json\r\ncontent-length: 9\r\n";
    let mut slow = server.raw("POST", "/v1/stream/a", headers);
    slow.write_all(b"[").unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_too_slow"), "{answer}");
    assert_eq!(server.look("a").body, "[]");
}

#[test]
fn entries_of_a_hundred_mebibytes_are_refused_in_words() {
    let server = TestServer::new();
    server.make("a");
    let large = vec![b' '; 100 << 20];
    let whole = server.stream(&server.key, Method::POST, "a", &[JSON], large.clone());
    assert_eq!(whole.refused(413), "body_too_large");
    let made = server.stream(&server.key, Method::PUT, "b", &[JSON], large);
    assert_eq!(made.refused(413), "body_too_large");
    assert_eq!(server.look("b").refused(404), "not_found");
    // One that does not say how long it is.
    let headers = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let mut endless = server.raw("POST", "/v1/stream/a", headers);
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..100 {
        endless.write_all(chunk.as_bytes()).unwrap();
    }
    endless.write_all(b"0\r\n\r\n").unwrap();
    let mut start = [0; 12];
    endless.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    // A client that asks first sends nothing.
    let headers =
        "content-type: application/json\r\ncontent-length: 104857600\r\nexpect: 100-continue\r\n";
    let mut asking = server.raw("POST", "/v1/stream/a", headers);
    asking.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    assert_eq!(server.look("a").body, "[]");
}

#[test]
fn many_large_entries_at_once_arrive_whole() {
    let server = TestServer::new();
    server.make("a");
    let body = |number: usize| format!("\"{}\"", number.to_string().repeat(3 << 20));
    server.block_on(async {
        let client = reqwest::Client::new();
        let sent = (0..8).map(|number| {
            let url = format!("{}/v1/stream/a", server.url);
            let request = client.post(url).bearer_auth(&server.key);
            request.header(JSON.0, JSON.1).body(body(number)).send()
        });
        for answer in futures_util::future::join_all(sent).await {
            assert_eq!(answer.unwrap().status().as_u16(), 204);
        }
    });
    let mut seen = Vec::new();
    let mut from = "-1".to_owned();
    while seen.len() < 8 {
        let page = server.look(&format!("a?offset={from}")).ok();
        let messages: Vec<String> = serde_json::from_str(&page.body).unwrap();
        from = page.next();
        for message in messages {
            assert_eq!(message.len(), 3 << 20);
            seen.push(message.get(..1).unwrap().to_owned());
        }
    }
    seen.sort();
    assert_eq!(seen.concat(), "01234567");
}

#[test]
fn bodies_of_the_wrong_kind_are_refused() {
    let server = TestServer::new();
    server.make("a");
    let post = |headers: &[(&str, &str)], body: &'static str| {
        server.stream(&server.key, Method::POST, "a", headers, body)
    };
    assert_eq!(post(&[JSON], "{").refused(400), "json_invalid");
    assert_eq!(post(&[JSON], "").refused(400), "empty");
    assert_eq!(post(&[JSON], "[]").refused(400), "empty");
    assert_eq!(post(&[], "x").refused(400), "content_type_missing");
    let text = [("content-type", "text/plain")];
    assert_eq!(post(&text, "x").refused(409), "content_type");
    let nonsense = [("content-type", "json")];
    assert_eq!(post(&nonsense, "1").refused(400), "content_type_invalid");
    // What is malformed for a stream that is not there, or not of JSON, is answered as that.
    let missing = server.stream(&server.key, Method::POST, "none", &[JSON], "{");
    assert_eq!(missing.refused(404), "not_found");
    server.stream(&server.key, Method::PUT, "t", &text, "").ok();
    let other = server.stream(&server.key, Method::POST, "t", &[JSON], "{");
    assert_eq!(other.refused(409), "content_type");
    assert_eq!(server.look("a").body, "[]");
}

#[test]
fn a_producer_is_stored_once_and_hears_of_gaps() {
    let server = TestServer::new();
    server.make("a");
    let post = |epoch: &str, seq: &str| {
        let headers = [
            JSON,
            ("producer-id", "p"),
            ("producer-epoch", epoch),
            ("producer-seq", seq),
        ];
        server.stream(&server.key, Method::POST, "a", &headers, "1")
    };
    assert_eq!(post("0", "0").status, 200);
    let again = post("0", "0");
    assert_eq!(
        (again.status, again.header("producer-seq")),
        (204, Some("0"))
    );
    let gap = post("0", "3");
    assert_eq!(gap.refused(409), "producer_gap");
    assert_eq!(gap.header("producer-expected-seq"), Some("1"));
    assert_eq!(gap.header("producer-received-seq"), Some("3"));
    assert_eq!(post("2", "1").refused(400), "producer_epoch");
    assert_eq!(post("2", "0").status, 200);
    let stale = post("1", "0");
    assert_eq!(stale.refused(403), "producer_stale");
    assert_eq!(stale.header("producer-epoch"), Some("2"));
    assert_eq!(server.look("a").body, "[1,1]");
}

#[test]
fn strange_headers_are_refused_before_anything_is_stored() {
    let server = TestServer::new();
    server.make("a");
    let long = "x".repeat(300);
    let table: [(&str, &str); 9] = [
        ("producer-id", "alone"),
        ("producer-seq", "1"),
        ("stream-seq", &long),
        ("stream-seq", ""),
        ("stream-seq", "\u{e9}"),
        ("stream-ttl", "-1"),
        ("stream-expires-at", "tomorrow"),
        ("stream-fork-offset", "0000000000000001_0000000000000001"),
        ("stream-fork-sub-offset", "1"),
    ];
    for (name, value) in table {
        let method = if name.starts_with("producer") || name == "stream-seq" {
            Method::POST
        } else {
            Method::PUT
        };
        let path = if method == Method::POST { "a" } else { "b" };
        let answer = server.stream(&server.key, method, path, &[JSON, (name, value)], "1");
        assert_eq!(answer.status, 400, "{name}: {value}: {answer:?}");
    }
    let mut twice = server.raw(
        "POST",
        "/v1/stream/a",
        "content-type: application/json\r\nstream-seq: a\r\nstream-seq: b\r\ncontent-length: 1\r\nconnection: close\r\n",
    );
    twice.write_all(b"1").unwrap();
    let mut answer = String::new();
    twice.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(server.look("a").body, "[]");
    assert_eq!(server.look("b").refused(404), "not_found");
    let patch = server.stream(&server.key, Method::PATCH, "a", &[], "");
    assert_eq!(patch.refused(405), "method");
    assert!(patch.header("allow").unwrap().contains("POST"));
}

/// Zero bytes are kept where they may be, over both stores, and refused in words where they may not.
#[test]
fn nul_bytes_are_kept_or_refused() {
    nul_bytes(&TestServer::new());
    if let Some(postgres) = PostgresServer::start() {
        let url = Hidden::new(postgres.url());
        nul_bytes(&TestServer::with(|config| {
            config.streams = StreamsPlace::Postgres { url };
        }));
    }
}

fn nul_bytes(server: &TestServer) {
    let all: Vec<u8> = (0..=255).collect();
    let bytes = [("content-type", "application/octet-stream")];
    let send = |method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>| {
        server.stream(&server.key, method, path, headers, body)
    };
    send(Method::PUT, "bytes", &bytes, all.clone()).ok();
    send(Method::POST, "bytes", &bytes, vec![0; 3]).ok();
    let read = server.block_on(async {
        let url = format!("{}/v1/stream/bytes", server.url);
        let request = reqwest::Client::new().get(url).bearer_auth(&server.key);
        request.send().await.unwrap().bytes().await.unwrap()
    });
    assert_eq!(read, [all, vec![0; 3]].concat());
    let text = [("content-type", "text/plain")];
    send(Method::PUT, "text", &text, b"a\0b".to_vec()).ok();
    let mut events = server.events("text?offset=-1&live=sse", "");
    assert!(events.until("upToDate").contains("data:a\0b\n"));
    // In JSON they are written as an escape, or not at all.
    server.make("json");
    let raw = send(Method::POST, "json", &[JSON], b"\"a\0b\"".to_vec());
    assert_eq!(raw.refused(400), "json_invalid");
    server.add("json", r#"["a\u0000b"]"#).ok();
    assert_eq!(server.look("json").body, r#"["a\u0000b"]"#);
    let made = server.post("/api/threads", serde_json::json!({ "id": "t" }));
    made.ok();
    let entry = |id: &str, payload: &str| {
        let entry = format!(r#"{{"id":"{id}","ts":0,"payload":{payload}}}"#);
        server.add("holm-thread-t", &entry)
    };
    entry("1", r#"{"type":"chat","text":"a\u0000b"}"#).ok();
    let kept = server.look("holm-thread-t");
    assert!(kept.body.contains(r#""text":"a\u0000b""#), "{kept:?}");
    for (id, payload) in [
        (r"\u0000", r#"{"type":"chat","text":"x"}"#),
        ("2", r#"{"type":"pi.\u0000"}"#),
        ("2", r#"{"type":"signal.thread.updated","tags":["\u0000"]}"#),
        (
            "2",
            r#"{"type":"signal.thread.updated","sandboxId":"\u0000"}"#,
        ),
        (
            "2",
            r#"{"type":"signal.thread.status_changed","status":"running","runId":"\u0000"}"#,
        ),
    ] {
        assert_eq!(
            entry(id, payload).refused(400),
            "entry_invalid",
            "{payload}"
        );
    }
    for id in ["%00", "a%00b"] {
        let answer = server.look(&format!("/api/threads/{id}"));
        assert!(matches!(answer.status, 400 | 404), "{answer:?}");
    }
    // The server is as well as before.
    entry("3", r#"{"type":"chat","text":"x"}"#).ok();
}
