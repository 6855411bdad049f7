//! Plain requests through the proxy.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::origin::Origin;
use crate::world::{World, exchange, read_all, read_head, until};

#[tokio::test]
async fn a_request_arrives_as_an_origin_expects_it() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let answer = world
        .say(format!(
            "POST http://{at}/a/b?c=d HTTP/1.1\r\nHost: {at}\r\nX-Mine: 1\r\nProxy-Connection: keep-alive\r\n\
             Proxy-Authorization: Basic eA==\r\nTE: trailers\r\nX-Gone: 2\r\nConnection: close, X-Gone\r\n\
             Content-Length: 5\r\n\r\nhello"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let described = answer.split("\r\n\r\n").nth(1).unwrap();
    let expected =
        format!("POST /a/b?c=d HTTP/1.1\nhost: {at}\nx-mine: 1\ncontent-length: 5\n\nhello");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(described), sorted(&expected));
    let counters = world.handle.counters();
    assert_eq!(
        (counters.requests, counters.connections, counters.refusals),
        (1, 1, 0)
    );
    assert!(
        counters.bytes_from_box > 200 && counters.bytes_to_box > 100,
        "{counters:?}"
    );
}

#[tokio::test]
async fn both_legs_are_kept_alive() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    for number in 0..5 {
        let request = format!("GET http://{at}/{number} HTTP/1.1\r\nHost: {at}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap();
        let mut body = vec![0; length.lines().next().unwrap().parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(body.starts_with(&format!("GET /{number} ")), "{body}");
    }
    assert_eq!(world.handle.counters().connections, 1);
    assert_eq!(origin.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_origin_that_closes_silently_is_asked_again() {
    let world = World::new().await;
    let origin = Origin::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    for _ in 0..5 {
        let request = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 "));
        let mut body = [0; 2];
        stream.read_exact(&mut body).await.unwrap();
    }
    assert_eq!(origin.connections.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn bodies_stream_in_both_directions_at_once() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    let head = format!(
        "POST http://{at}/mirror HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The answer begins before the request has ended, and each part comes back by itself.
    assert_eq!(exchange(&mut stream, "5\r\nhello\r\n").await.len(), 10);
    let head_rest = read_head(&mut stream).await;
    assert!(head_rest.contains("\r\n\r\n"), "{head_rest}");
    let mut part = [0; 10];
    stream.read_exact(&mut part).await.unwrap();
    assert_eq!(&part, b"5\r\nhello\r\n");
    assert_eq!(
        exchange(&mut stream, "5\r\nworld\r\n").await,
        "5\r\nworld\r\n"
    );
    assert_eq!(exchange(&mut stream, "0\r\n\r\n").await, "0\r\n\r\n");
}

#[tokio::test]
async fn a_web_socket_goes_through() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    let request = format!(
        "GET http://{at}/chat HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await.to_lowercase();
    assert!(
        head.starts_with("http/1.1 101 ") && head.contains("upgrade: websocket"),
        "{head}"
    );
    assert_eq!(exchange(&mut stream, "\u{1}frames").await, "\u{1}frames");
    world.block();
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn a_refusal_says_which_rule_and_what_to_do() {
    let world = World::new().await;
    let origin = Origin::http().await;
    world.allow("", "api.test,*.sub.test");
    assert!(
        world
            .get(&origin.at("api.test"), "/")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        world
            .get(&origin.at("deep.sub.test"), "/")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    let refused = world.get(&origin.at("other.test"), "/").await;
    assert!(
        refused.starts_with("HTTP/1.1 403 egress to other.test:"),
        "{refused}"
    );
    let line = format!(
        "egress to other.test:{} refused: the name is not in `domainAllowList`; add it there, or its addresses to `networkAllowList`\n",
        origin.port()
    );
    assert!(refused.ends_with(&line), "{refused}");
    let refusals = world.handle.recent_refusals();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].target, origin.at("other.test"));
    assert_eq!(world.handle.counters().refusals, 1);
    // Its name was not even asked for.
    assert_eq!(world.names.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_new_policy_counts_at_once_also_on_an_open_connection() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let request = format!("HEAD http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let mut stream = world.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 "));
    world.allow("10.0.0.0/8", "");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 403 "));
    world.allow("127.0.0.0/8", "");
    assert!(world.get(&at, "/").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_download_ends_when_it_is_no_longer_allowed() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    let request = format!("GET http://{at}/endless HTTP/1.1\r\nHost: {at}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 "));
    let mut block = vec![0; 256 * 1024];
    stream.read_exact(&mut block).await.unwrap();
    world.block();
    // The chunked body breaks off without its end.
    assert!(!read_all(&mut stream).await.ends_with("0\r\n\r\n"));
    until("the connection is gone", || {
        world.handle.counters().connections_open == 0
    })
    .await;
}

#[tokio::test]
async fn a_dropped_handle_ends_everything() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    let mut tunnel = world.tunnel(&origin.at("api.test")).await.unwrap();
    assert_eq!(exchange(&mut tunnel, "hello").await, "hello");
    let proxy = world.proxy;
    drop(world);
    assert_eq!(read_all(&mut tunnel).await, "");
    let refused = tokio::net::TcpStream::connect(proxy).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn an_origin_that_is_not_there_is_a_bad_gateway() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let answer = world.get(&format!("api.test:{port}"), "/").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains(&format!(
        "could not reach api.test:{port}: 127.0.0.1:{port}: "
    )));
    let answer = world.get(&origin.at("unknown.test"), "/").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn answers_of_all_kinds_come_back_as_they_are() {
    let world = World::new().await;
    let cases = [
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
            "HTTP/1.1 304 ",
            "",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 ", ""),
        (
            "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            "HTTP/1.1 200 ",
            "until the end",
        ),
        ("HTTP/1.0 200 OK\r\n\r\nold", "HTTP/1.", "old"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok rest",
            "HTTP/1.1 200 ",
            "ok",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 201 ",
            "",
        ),
        (
            "HTTP/1.1 404 Nowhere\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 404 Nowhere\r\n",
            "",
        ),
        (
            "HTTP/1.1 101 Surprise\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "HTTP/1.1 502 ",
            "\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 502 ",
            "\n",
        ),
        ("SSH-2.0-no-http\r\n", "HTTP/1.1 502 ", "\n"),
        ("", "HTTP/1.1 502 ", "\n"),
    ];
    for (said, head, body) in cases {
        let origin = Origin::saying(said).await;
        let answer = world.get(&origin.at("api.test"), "/").await;
        assert!(answer.starts_with(head), "{said:?}: {answer}");
        let (_, rest) = answer.split_once("\r\n\r\n").unwrap();
        let is_chunked = answer.to_lowercase().contains("transfer-encoding: chunked");
        let expected = match is_chunked {
            true => format!("{:X}\r\n{body}\r\n0\r\n\r\n", body.len()),
            false => body.to_owned(),
        };
        assert!(rest.ends_with(&expected), "{said:?}: {answer}");
    }
}
