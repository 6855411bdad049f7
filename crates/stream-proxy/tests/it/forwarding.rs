//! What is forwarded, and that it is forwarded as it is.

use crate::support::{Setting, status};

#[tokio::test]
async fn a_request_arrives_as_it_was_sent_and_so_does_its_answer() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send("POST /api/stream/holm-thread-1?offset=0&x=%20y HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer ey.J.x\r\n\
               Producer-Id: p\r\nProducer-Epoch: 1\r\nX-Forwarded-For: 1.2.3.4\r\nContent-Length: 7\r\n\r\n{\"a\":1}")
        .await;
    let mut server = setting.accept().await;
    let head = server.head().await.to_ascii_lowercase();
    let host = setting.server.local_addr().unwrap().to_string();
    assert!(
        head.starts_with("post /api/stream/holm-thread-1?offset=0&x=%20y http/1.1\r\n"),
        "{head}"
    );
    for expected in [
        "authorization: bearer ey.j.x\r\n",
        "producer-epoch: 1\r\n",
        &format!("host: {host}\r\n"),
        "content-length: 7\r\n",
    ] {
        assert!(head.contains(expected), "{expected} in {head}");
    }
    assert!(!head.contains("x-forwarded-for"), "{head}");
    assert_eq!(server.until("}").await, "{\"a\":1}");
    server
        .send("HTTP/1.1 409 Conflict\r\nStream-Closed: true\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nno")
        .await;
    let head = client.head().await.to_ascii_lowercase();
    assert_eq!(status(&head), 409);
    assert!(head.contains("stream-closed: true\r\n"), "{head}");
    assert!(!head.contains("keep-alive"), "{head}");
    assert_eq!(client.until("no").await, "no");
}

#[tokio::test]
async fn events_arrive_one_by_one() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a?offset=-1&live=sse HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    // The answer's head comes before any event.
    assert_eq!(status(&client.head().await), 200);
    // The next event is sent when the one before has arrived: none of them is kept back.
    for number in 0..200 {
        let event = format!("data: {number}\n\n");
        server
            .send(&format!("{:x}\r\n{event}\r\n", event.len()))
            .await;
        assert!(client.until("\n\n").await.ends_with(&event));
    }
    // When the client goes, so does the connection to the server.
    drop(client);
    assert_eq!(server.rest().await, "");
}

#[tokio::test]
async fn bodies_without_a_length_are_passed_on_as_they_come() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client.send("POST /v1/stream/a HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    let mut server = setting.accept().await;
    server.head().await;
    // The first piece arrives before the second is sent.
    server.until("abc").await;
    client.send("2\r\nde\r\n0\r\n\r\n").await;
    server.until("de\r\n0\r\n\r\n").await;
    server.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(status(&client.head().await), 204);
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_closed_one_is_replaced() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let request = "HEAD /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    client.send(request).await;
    let mut server = setting.accept().await;
    for _ in 0..3 {
        server.head().await;
        server.send(answer).await;
        client.head().await;
        client.send(request).await;
    }
    server.head().await;
    server.send(answer).await;
    client.head().await;
    drop(server);
    client.send(request).await;
    let mut server = setting.accept().await;
    server.head().await;
    server.send(answer).await;
    assert_eq!(status(&client.head().await), 200);
}

#[tokio::test]
async fn a_server_that_is_down_is_told_and_found_again() {
    let mut setting = Setting::new().await;
    let address = setting.server.local_addr().unwrap();
    let elsewhere = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    drop(std::mem::replace(&mut setting.server, elsewhere));
    let mut client = setting.client().await;
    let request = "GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n";
    client.send(request).await;
    let head = client.head().await;
    assert_eq!(status(&head), 502);
    let text = client.until("}}").await;
    assert!(
        text.contains("server_unreachable") && text.contains("see whether it runs"),
        "{text}"
    );
    // A box need not know where the server is.
    assert!(!text.contains(&address.to_string()), "{text}");
    setting.server = tokio::net::TcpListener::bind(address).await.unwrap();
    client.send(request).await;
    let mut server = setting.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(status(&client.head().await), 200);
}

#[tokio::test]
async fn stopping_lets_requests_end() {
    let mut setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .send("GET /v1/stream/a HTTP/1.1\r\nHost: p\r\n\r\n")
        .await;
    let mut server = setting.accept().await;
    server.head().await;
    let stopping = async {
        setting.stop().await;
    };
    let answering = async {
        server
            .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
        client.until("ok").await;
    };
    tokio::join!(stopping, answering);
    assert_eq!(client.rest().await, "");
}
