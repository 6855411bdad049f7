//! The end of a server, and the next one on the same data.

use std::time::{Duration, Instant};

use reqwest::Method;

use crate::support::{TestServer, wait_until};

#[test]
fn followers_are_let_go_at_once_and_go_on_with_the_next_server() {
    let server = TestServer::new();
    server.make("a");
    server.add("a", "1").ok();
    let mut followers: Vec<_> = (0..5)
        .map(|_| server.events("a?offset=-1&live=sse", ""))
        .collect();
    for follower in &mut followers {
        follower.until("upToDate");
    }
    let id = followers.first().unwrap().last_id().to_owned();
    let waiting = server.raw(
        "GET",
        "/v1/stream/a?offset=now&live=long-poll",
        "connection: close\r\n",
    );
    wait_until("all of them wait", || {
        let figures = server.get("/metrics").ok();
        figures.as_str().unwrap().contains("holm_requests_open 7\n")
    });
    let began = Instant::now();
    let data = server.stop();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    let answer = super::Events {
        stream: waiting,
        seen: String::new(),
    };
    let answer = answer.rest();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    for follower in followers {
        // Ended in order, so that the reader knows that it has everything.
        assert!(follower.rest().ends_with("0\r\n\r\n"));
    }
    let server = TestServer::at(data, |_| {});
    server.add("a", "2").ok();
    let header = format!("last-event-id: {id}\r\n");
    let mut follower = server.events("a?offset=-1&live=sse", &header);
    let seen = follower.until("upToDate");
    assert!(seen.contains("data:[2]"), "{seen}");
    assert!(!seen.contains("data:[1]"), "{seen}");
}

#[test]
fn a_producer_is_known_to_the_next_server() {
    let headers = [
        ("content-type", "application/json"),
        ("producer-id", "p"),
        ("producer-epoch", "0"),
        ("producer-seq", "0"),
    ];
    let server = TestServer::new();
    server.make("a");
    let post =
        |server: &TestServer| server.stream(&server.key, Method::POST, "a", &headers, "{\"n\":1}");
    assert_eq!(post(&server).status, 200);
    let server = TestServer::at(server.stop(), |_| {});
    assert_eq!(post(&server).status, 204);
    assert_eq!(server.look("a").body, "[{\"n\":1}]");
}
