//! Clients that want more than streams.

use holm_stream_proxy::ProxyLimits;

use crate::support::{Setting, status};

async fn refused(setting: &Setting, request: &str) -> u16 {
    let mut client = setting.client().await;
    client.send(request).await;
    let head = client.head().await;
    status(&head)
}

#[tokio::test]
async fn other_places_are_not_reached() {
    let setting = Setting::new().await;
    for path in [
        "/",
        "/api/sandbox",
        "/metrics",
        "/v1/stream",
        "/v1/stream/../../api/sandbox",
        "/v1/stream/%2e%2e/%2e%2e/api/sandbox",
        "/v1/stream/a%2f..%2f..%2f..%2fapi/sandbox",
        "/v1/stream/..;/api",
        "/v1/stream//api/sandbox",
        "/v1/stream/%252e%252e/api",
        "http://127.0.0.1:1/api/sandbox",
        "http://evil.example/v1/stream/../x",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: p\r\n\r\n");
        assert_eq!(refused(&setting, &request).await, 404, "{path}");
    }
    setting.assert_untouched().await;
    // An absolute address is read as its path, and goes to the server and nowhere else.
    let mut client = setting.client().await;
    client
        .send("GET http://evil.example/v1/stream/a HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    let head = server.head().await;
    assert!(head.starts_with("GET /v1/stream/a HTTP/1.1\r\n"), "{head}");
    assert!(!head.contains("evil"), "{head}");
}

#[tokio::test]
async fn other_methods_and_protocols_are_not_forwarded() {
    let setting = Setting::new().await;
    for request in [
        "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: p\r\n\r\n",
        "TRACE /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n",
        "PATCH /v1/stream/a HTTP/1.1\r\nHost: p\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert_eq!(refused(&setting, request).await, 405, "{request}");
    }
    setting.assert_untouched().await;
    // A change of the protocol would hide what follows.
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    let head = server.head().await.to_ascii_lowercase();
    assert!(!head.contains("upgrade"), "{head}");
    server
        .send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await;
    assert_eq!(status(&client.head().await), 502);
}

/// Whatever a client calls the server, it gets its own name, once, and nothing of the way that a client made up.
#[tokio::test]
async fn a_server_is_called_by_its_own_name() {
    let setting = Setting::new().await;
    let host = setting.server.local_addr().unwrap().to_string();
    for lines in [
        "Host: p\r\nHost: internal.example",
        "Host: internal.example",
        "Host: p\r\nX-Forwarded-Host: internal.example\r\nForwarded: host=internal.example",
        "Host: p\r\nConnection: host",
        "hOsT: p\r\nX-Real-IP: internal.example",
    ] {
        let mut client = setting.client().await;
        let request = format!("GET /v1/stream/a HTTP/1.1\r\n{lines}\r\n\r\n");
        client.send(&request).await;
        let seen = tokio::select! {
            mut server = setting.accept() => Some(server.head().await.to_ascii_lowercase()),
            head = client.head() => {
                assert_eq!(status(&head), 400, "{lines:?}");
                None
            }
        };
        if let Some(head) = seen {
            assert_eq!(head.matches("host:").count(), 1, "{lines:?} became {head}");
            assert!(head.contains(&format!("\r\nhost: {host}\r\n")), "{head}");
            assert!(!head.contains("internal"), "{lines:?} became {head}");
        }
    }
}

/// HTTP/2 would be another way to divide what is sent.
#[tokio::test]
async fn other_versions_of_the_protocol_are_not_spoken() {
    let setting = Setting::new().await;
    for beginning in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /v1/stream/a HTTP/9.9\r\nHost: p\r\n\r\n",
        "GET /v1/stream/a\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        let mut client = setting.client().await;
        client.send(beginning).await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.stream)
            .await
            .unwrap();
        let answer = client.rest().await;
        assert!(answer.is_empty() || status(&answer) >= 400, "{answer}");
    }
    setting.assert_untouched().await;
}

/// Requests that two readers could divide differently. Either they are refused, or the server gets one request that has one
/// reading, and never the one that was hidden in it.
#[tokio::test]
async fn nothing_is_smuggled() {
    const HIDDEN: &str = "GET /api/sandbox HTTP/1.1\r\nHost: p\r\n\r\n";
    let length = HIDDEN.len();
    let setting = Setting::new().await;
    for framing in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"),
        format!("Content-Length: 0\r\nContent-Length: {length}"),
        format!("Content-Length: 0, {length}"),
        "Content-Length: +0".to_owned(),
        "Content-Length: 0x0".to_owned(),
        "Transfer-Encoding: xchunked".to_owned(),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding : chunked".to_owned(),
        "Transfer-Encoding:\tchunked\r\nTransfer-Encoding: x".to_owned(),
        "X: y\r\n Transfer-Encoding: chunked".to_owned(),
        format!("X: y\rContent-Length: {length}"),
        "Connection: content-length\r\nContent-Length: 0".to_owned(),
    ] {
        let mut client = setting.client().await;
        client
            .send(&format!(
                "POST /v1/stream/a HTTP/1.1\r\nHost: p\r\n{framing}\r\n\r\n0\r\n\r\n{HIDDEN}"
            ))
            .await;
        // If something arrives, it is answered, so that what would follow can follow.
        let arriving = async {
            let mut server = setting.accept().await;
            let head = server.head().await;
            let lower = head.to_ascii_lowercase();
            let framings = lower.matches("content-length:").count()
                + lower.matches("transfer-encoding:").count();
            assert!(framings <= 1, "{framing:?} became {head}");
            server
                .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .await;
            (head, server.rest().await)
        };
        let seen = tokio::select! {
            seen = arriving => Some(seen),
            _ = client.head() => None,
        };
        if let Some((head, rest)) = seen {
            assert!(
                head.starts_with("POST /v1/stream/a HTTP/1.1\r\n"),
                "{framing:?} became {head}"
            );
            // As a body it may arrive: then its length was told. As a request it may not.
            let is_body = head
                .to_ascii_lowercase()
                .contains(&format!("content-length: {}", length + 5));
            assert!(
                is_body || !rest.contains("/api/sandbox"),
                "{framing:?} became {head}{rest}"
            );
        }
    }
}

#[tokio::test]
async fn a_second_request_in_a_row_is_judged_by_itself() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send("HEAD /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\nGET /api/sandbox HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(status(&client.head().await), 200);
    assert_eq!(status(&client.head().await), 404);
    setting.assert_untouched().await;
}

#[tokio::test]
async fn an_answer_with_two_lengths_confuses_nobody() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        .await;
    let head = client.head().await.to_ascii_lowercase();
    let has_length = head.contains("content-length");
    let has_chunks = head.contains("transfer-encoding");
    assert!(has_length != has_chunks, "{head}");
}

#[tokio::test]
async fn headers_have_a_limit() {
    let limits = ProxyLimits {
        header_bytes_max: 16 * 1024,
        ..ProxyLimits::default()
    };
    let setting = Setting::with(limits).await;
    let large = "x".repeat(64 * 1024);
    let mut client = setting.client().await;
    let request = format!("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\nX: {large}\r\n\r\n");
    // The proxy may be gone before all of it was sent.
    drop(tokio::io::AsyncWriteExt::write_all(&mut client.stream, request.as_bytes()).await);
    let answer = client.rest().await;
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    setting.assert_untouched().await;
}
