//! Writing: bodies that are cut, too large or of the wrong kind, and producers that come again.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

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
