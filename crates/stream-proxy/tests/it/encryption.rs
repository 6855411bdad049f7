//! A server that speaks TLS, and somebody who only says to be it.

use holm_stream_proxy::{Proxy, ProxyConfig, ProxyLimits};
use holm_testkit::TlsDoor;
use tokio::net::TcpListener;

use crate::support::{Setting, status};

/// Whom the proxy is told to trust.
enum Trust {
    TheDoor,
    SomebodyElse,
}

async fn setting(trust: Trust, host: &str) -> (Setting, TlsDoor) {
    let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = server.local_addr().unwrap();
    let door = TlsDoor::before(address);
    let trusted = match trust {
        Trust::TheDoor => door.authority_pem.clone(),
        Trust::SomebodyElse => TlsDoor::before(address).authority_pem.clone(),
    };
    let upstream = format!("https://{host}:{}", door.address.port());
    let setting = Setting::before(server, &upstream, Some(trusted), ProxyLimits::default()).await;
    (setting, door)
}

#[tokio::test]
async fn events_and_bodies_come_through_tls_as_they_are() {
    let (setting, door) = setting(Trust::TheDoor, "localhost").await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a?offset=-1&live=sse HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer x\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    let head = server.head().await.to_ascii_lowercase();
    let host = format!("host: localhost:{}\r\n", door.address.port());
    assert!(head.contains(&host), "{head}");
    assert!(head.contains("authorization: bearer x\r\n"), "{head}");
    server
        .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    assert_eq!(status(&client.head().await), 200);
    // Each is sent when the one before has arrived: no record of TLS is kept back.
    for number in 0..50 {
        let event = format!("data: {number}\n\n");
        server
            .send(&format!("{:x}\r\n{event}\r\n", event.len()))
            .await;
        assert!(client.until("\n\n").await.ends_with(&event));
    }
    server.send("0\r\n\r\n").await;
    client.until("0\r\n\r\n").await;
    // The same connection, and its TLS, serve the next request.
    client
        .send("POST /v1/stream/a HTTP/1.1\r\nHost: p\r\nContent-Length: 3\r\n\r\nabc")
        .await;
    server.until("abc").await;
    server.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(status(&client.head().await), 204);
}

#[tokio::test]
async fn whoever_is_not_vouched_for_gets_nothing() {
    for (trust, host) in [
        (Trust::SomebodyElse, "localhost"),
        // Vouched for, and for another name.
        (Trust::TheDoor, "127.0.0.1"),
    ] {
        let (setting, _door) = setting(trust, host).await;
        let mut client = setting.client().await;
        client
            .send("POST /v1/stream/a HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
            .await;
        assert_eq!(status(&client.head().await), 502);
        let told = client.rest().await;
        assert!(told.contains("\"server_untrusted\""), "{told}");
        assert!(told.contains("nothing was sent"), "{told}");
        setting.assert_untouched().await;
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_the_clear() {
    let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let upstream = format!("https://{}", server.local_addr().unwrap());
    let setting = Setting::before(server, &upstream, None, ProxyLimits::default()).await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer x\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(status(&client.head().await), 502);
    let heard = server.rest().await;
    assert!(!heard.contains("Bearer"), "{heard:?}");
}

#[tokio::test]
async fn roots_that_are_none_are_refused_at_the_start() {
    let config = ProxyConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        upstream: "https://localhost".parse().unwrap(),
        extra_roots_pem: Some("hello".to_owned()),
        limits: ProxyLimits::default(),
    };
    let error = Proxy::listen(config).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("PEM"), "{cause}");
}
