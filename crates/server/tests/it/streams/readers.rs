//! Reading: pages, waiting, events, and clients that do not behave.

use std::io::Read;
use std::time::{Duration, Instant};

use reqwest::Method;

use crate::support::{TestServer, wait_until};

#[test]
fn a_browser_resumes_where_it_was() {
    let server = TestServer::new();
    server.make("a");
    server.add("a", r#"{"n":1}"#).ok();
    let mut first = server.events("a?offset=-1&live=sse", "");
    first.until("upToDate");
    let id = first.last_id().to_owned();
    drop(first);
    server.add("a", r#"[{"n":2},{"n":3}]"#).ok();
    // The address is the same as before: only the header says what was seen.
    let header = format!("last-event-id: {id}\r\n");
    let mut second = server.events("a?offset=-1&live=sse", &header);
    let seen = second.until("upToDate");
    assert!(seen.contains(r#"data:[{"n":2},{"n":3}]"#), "{seen}");
    assert!(!seen.contains(r#"{"n":1}"#), "{seen}");
    server.add("a", r#"{"n":4}"#).ok();
    second.until(r#"data:[{"n":4}]"#);
    // A browser that knows everything of an ended stream is told to stay away.
    let close = [("stream-closed", "true")];
    server
        .stream(&server.key, Method::POST, "a", &close, "")
        .ok();
    let seen = second.until("streamClosed").to_owned();
    let id = seen
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .next_back()
        .unwrap();
    let again = [("last-event-id", id)];
    let ended = server.stream(&server.key, Method::GET, "a?offset=-1&live=sse", &again, "");
    assert_eq!(
        (ended.status, ended.header("stream-closed")),
        (204, Some("true"))
    );
}

#[test]
fn ids_that_are_none_are_refused() {
    let server = TestServer::new();
    server.make("a");
    server.make("b");
    let other = server.add("b", "1").next();
    for (id, code) in [("nonsense", "offset_invalid"), (&*other, "offset_foreign")] {
        let header = [("last-event-id", id)];
        let path = "a?offset=-1&live=sse";
        let answer = server.stream(&server.key, Method::GET, path, &header, "");
        assert_eq!(answer.refused(400), code);
        let path = format!("a?offset={id}");
        assert_eq!(server.look(&path).refused(400), code);
    }
}

#[test]
fn pages_follow_each_other_and_can_be_kept() {
    let server = TestServer::new();
    server.make("a");
    let large = format!("\"{}\"", "x".repeat(700_000));
    for _ in 0..3 {
        server.add("a", &large).ok();
    }
    let mut from = "0".to_owned();
    let mut read = 0;
    let mut pages = 0;
    loop {
        let page = server.look(&format!("a?offset={from}")).ok();
        let messages: Vec<String> = serde_json::from_str(&page.body).unwrap();
        read += messages.len();
        pages += 1;
        from = page.next();
        let caching = page.header("cache-control").unwrap();
        if page.header("stream-up-to-date") == Some("true") {
            assert_eq!(caching, "private, no-cache");
            break;
        }
        assert!(caching.contains("max-age=60"), "{caching}");
    }
    assert_eq!((read, pages), (3, 3));
}

#[test]
fn lines_and_arrays_are_two_forms_of_the_same() {
    let server = TestServer::new();
    server.make("a");
    server.add("a", "[{\"n\":\n1},2]").ok();
    let lines = [("accept", "application/x-ndjson")];
    let page = server.stream(
        &server.key,
        Method::GET,
        "/api/stream/a?offset=0",
        &lines,
        "",
    );
    assert_eq!(page.body, "{\"n\": 1}\n2\n");
    assert_eq!(page.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(page.header("vary"), Some("accept"));
    let array = server.look("a");
    assert_eq!(array.body, "[{\"n\":\n1},2]");
    let tags = [page.header("etag").unwrap(), array.header("etag").unwrap()];
    assert_ne!(tags[0], tags[1]);
    let known = [("if-none-match", tags[1])];
    let same = server.stream(&server.key, Method::GET, "a", &known, "");
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    let known = [("if-none-match", tags[1]), lines[0]];
    let other = server.stream(&server.key, Method::GET, "a", &known, "");
    assert_eq!(other.status, 200);
}

#[test]
fn a_waiting_reader_hears_of_entries_and_of_the_end() {
    let server = TestServer::with(|config| config.long_poll_timeout = Duration::from_secs(15));
    server.make("a");
    let ask = |offset: &str| {
        let path = format!("/v1/stream/a?offset={offset}&live=long-poll");
        server.raw("GET", &path, "connection: close\r\n")
    };
    let read = |mut stream: std::net::TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    // Three readers of two kinds, one wake-up.
    let mut follower = server.events("a?offset=now&live=sse", "");
    follower.until("upToDate");
    let waiting = [ask("now"), ask("-1")];
    wait_until("all wait", || open_requests(&server) == 3);
    server.add("a", "7").ok();
    follower.until("data:[7]");
    drop(follower);
    for reader in waiting {
        let answer = read(reader);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("[7]"), "{answer}");
        assert!(answer.contains("stream-cursor: "), "{answer}");
    }
    wait_until("none is left", || open_requests(&server) == 0);
    let waiting = ask("now");
    wait_until("it waits", || open_requests(&server) == 1);
    let close = [("stream-closed", "true")];
    server
        .stream(&server.key, Method::POST, "a", &close, "")
        .ok();
    let answer = read(waiting);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(answer.contains("stream-closed: true"), "{answer}");
}

/// Requests that are being answered, besides the one that asks.
fn open_requests(server: &TestServer) -> u64 {
    let figures = server.get("/metrics").ok();
    let line = figures
        .as_str()
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("holm_requests_open "))
        .unwrap();
    line.parse::<u64>().unwrap() - 1
}

#[test]
fn readers_that_never_read_hold_nobody_up_and_are_cut_off() {
    let server = TestServer::with(|config| {
        config.limits.silence_max = Duration::from_millis(700);
    });
    server.make("a");
    // More than fits into all buffers on the way.
    let large = format!("\"{}\"", "x".repeat(4_000_000));
    for _ in 0..8 {
        server.add("a", &large).ok();
    }
    let mut stuck: Vec<_> = (0..8)
        .map(|_| server.events("a?offset=-1&live=sse", ""))
        .collect();
    for reader in &mut stuck {
        // It is being answered, and takes no more than this.
        reader.until("HTTP/1.1 200");
    }
    let began = Instant::now();
    server.add("a", "1").ok();
    assert!(began.elapsed() < Duration::from_secs(5));
    wait_until("they are cut off", || open_requests(&server) == 0);
    drop(stuck);
    // One that reads is not, however much there is.
    let mut reader = server.events("a?offset=-1&live=sse", "");
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < 32_000_000 {
        let count = reader.stream.read(&mut buffer).unwrap();
        assert!(count > 0, "ended after {read} bytes");
        read += count;
    }
}

#[test]
fn a_follower_of_a_removed_stream_hears_of_it_when_it_comes_again() {
    let server = TestServer::new();
    server.make("a");
    let mut follower = server.events("a?offset=-1&live=sse", "connection: close\r\n");
    follower.until("upToDate");
    server
        .stream(&server.key, Method::DELETE, "a", &[], "")
        .ok();
    let seen = follower.rest();
    assert!(seen.ends_with("0\r\n\r\n"), "{seen}");
    let gone = server.look("a?offset=-1&live=sse");
    assert_eq!(gone.refused(404), "not_found");
}

#[test]
fn pages_of_other_origins_may_ask() {
    let server = TestServer::new();
    // Without a key: browsers send none before they may.
    let asked = server.block_on(async {
        reqwest::Client::new()
            .request(Method::OPTIONS, format!("{}/v1/stream/a", server.url))
            .send()
            .await
            .unwrap()
    });
    assert_eq!(asked.status().as_u16(), 204);
    let header = |name: &str| asked.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("access-control-allow-origin"), "*");
    for allowed in [
        "authorization",
        "if-none-match",
        "last-event-id",
        "producer-seq",
    ] {
        assert!(header("access-control-allow-headers").contains(allowed));
    }
    let refused = server.look("none");
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
}
