//! Clients and servers that are slow, stuck, or many.

use std::time::Duration;

use holm_stream_proxy::ProxyLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::{PATIENCE, Setting, status};

fn impatient() -> ProxyLimits {
    ProxyLimits {
        header_patience: Duration::from_millis(200),
        client_silence: Duration::from_millis(200),
        answer_patience: Duration::from_millis(200),
        server_silence: Duration::from_millis(200),
        ..ProxyLimits::default()
    }
}

#[tokio::test]
async fn headers_that_do_not_end_are_not_waited_for() {
    let setting = Setting::with(impatient()).await;
    let mut client = setting.client().await;
    client.send("GET /v1/stream/a HTTP/1.1\r\nHost: ").await;
    client.rest().await;
    setting.assert_untouched().await;
}

#[tokio::test]
async fn a_body_that_does_not_end_is_not_waited_for() {
    let setting = Setting::with(impatient()).await;
    let mut client = setting.client().await;
    client
        .send("POST /v1/stream/a HTTP/1.1\r\nHost: p\r\nContent-Length: 10\r\n\r\nabc")
        .await;
    let mut server = setting.accept().await;
    server.until("abc").await;
    assert_eq!(status(&client.head().await), 408);
    // The server gets no half request that looks whole.
    assert_eq!(server.rest().await, "");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let setting = Setting::with(impatient()).await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    assert_eq!(status(&client.head().await), 504);
}

#[tokio::test]
async fn an_answer_that_stops_is_broken_off() {
    let setting = Setting::with(impatient()).await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        .await;
    client.head().await;
    // Not taken for the whole answer: its length is known.
    assert_eq!(client.rest().await, "abc");
}

#[tokio::test]
async fn connections_have_a_limit_and_an_end_makes_room() {
    let limits = ProxyLimits {
        connections_max: 2,
        ..ProxyLimits::default()
    };
    let setting = Setting::with(limits).await;
    let request = "GET /nothing HTTP/1.1\r\nHost: p\r\n\r\n";
    let (mut one, mut two) = (setting.client().await, setting.client().await);
    for client in [&mut one, &mut two] {
        client.send(request).await;
        assert_eq!(status(&client.head().await), 404);
    }
    let mut three = setting.client().await;
    three.send(request).await;
    let early = timeout(Duration::from_millis(100), three.head()).await;
    assert!(early.is_err(), "a third connection is served");
    drop(one);
    assert_eq!(status(&three.head().await), 404);
}

/// What the process has in memory, in bytes.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test]
async fn a_huge_body_costs_no_memory() {
    const BYTES: usize = 256 << 20;
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send(&format!(
            "POST /v1/stream/a HTTP/1.1\r\nHost: p\r\nContent-Length: {BYTES}\r\n\r\n"
        ))
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    let before = resident_bytes();
    let sending = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..BYTES / piece.len() {
            client.stream.write_all(&piece).await.unwrap();
        }
        client
    });
    let mut buffer = vec![0; 1 << 20];
    let (mut received, mut most) = (0, 0);
    while received < BYTES {
        let count = timeout(PATIENCE, server.stream.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(count > 0, "it ended after {received} bytes");
        received += count;
        most = most.max(resident_bytes().saturating_sub(before));
    }
    assert!(most < 32 << 20, "{most} bytes more");
    server.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(status(&sending.await.unwrap().head().await), 204);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_up_the_server_and_is_given_up() {
    let limits = ProxyLimits {
        client_silence: Duration::from_millis(500),
        ..ProxyLimits::default()
    };
    let setting = Setting::with(limits).await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        .await;
    let before = resident_bytes();
    let piece = vec![b'x'; 1 << 20];
    let mut written = 0;
    // Ends when the proxy gives up and closes.
    let flooding = async {
        while let Ok(count) = server.stream.write(&piece).await {
            written += count;
        }
    };
    timeout(PATIENCE, flooding).await.unwrap();
    let more = resident_bytes().saturating_sub(before);
    assert!(
        written < 64 << 20,
        "{written} bytes were taken from the server"
    );
    assert!(more < 32 << 20, "{more} bytes more");
}
