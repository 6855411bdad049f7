//! `CONNECT`, and the name that is spoken to inside.

use tokio::io::AsyncWriteExt;

use crate::world::origin::{Origin, speak_tls};
use crate::world::{World, exchange, read_all, read_head, until};

#[tokio::test]
async fn a_tunnel_carries_anything_where_no_name_decides() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    let mut tunnel = world.tunnel(&origin.at("api.test")).await.unwrap();
    assert_eq!(
        exchange(&mut tunnel, "\u{0}any bytes").await,
        "\u{0}any bytes"
    );
    world.allow("127.0.0.1/32", "");
    assert_eq!(exchange(&mut tunnel, "still").await, "still");
    tunnel.shutdown().await.unwrap();
    assert_eq!(read_all(&mut tunnel).await, "");
    assert_eq!(world.handle.counters().tunnels, 1);
    until("the connection is gone", || {
        world.handle.counters().connections_open == 0
    })
    .await;
}

#[tokio::test]
async fn bytes_that_came_with_the_connect_are_not_lost() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    let at = origin.at("api.test");
    let mut stream = world.connect().await;
    let request = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\nearly");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut stream).await;
    assert_eq!(exchange(&mut stream, " late").await, "early");
}

#[tokio::test]
async fn a_name_that_decides_must_be_the_name_that_is_spoken_to() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.allow("", "api.test");
    let at = origin.at("api.test");
    let trusted = &world.vouched.authority_pem;

    let tunnel = world.tunnel(&at).await.unwrap();
    let mut tls = speak_tls(trusted, "api.test", tunnel).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
    tls.write_all(request).await.unwrap();
    assert!(read_head(&mut tls).await.starts_with("HTTP/1.1 200 "));

    let tunnel = world.tunnel(&at).await.unwrap();
    let error = speak_tls(trusted, "other.test", tunnel).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(
        world.last_reason(),
        "the TLS connection names `other.test`, but the tunnel was opened to `api.test`; both must be the same"
    );

    // An address instead of a name is sent as no name at all.
    let tunnel = world.tunnel(&at).await.unwrap();
    assert!(speak_tls(trusted, "127.0.0.1", tunnel).await.is_err());
    assert!(
        world
            .last_reason()
            .contains("`domainAllowList` cannot be checked")
    );
    assert_eq!(
        origin.connections.load(std::sync::atomic::Ordering::SeqCst),
        3
    );
}

#[tokio::test]
async fn where_a_name_decides_other_protocols_are_refused() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    world.allow("", "api.test");
    let at = origin.at("api.test");
    let mut tunnel = world.tunnel(&at).await.unwrap();
    let ssh = "SSH-2.0-x\r\n";
    assert_eq!(exchange(&mut tunnel, ssh).await, ssh);
    let mut tunnel = world.tunnel(&at).await.unwrap();
    tunnel
        .write_all(b"\0\0\0\x08\x04\xd2\x16\x2f")
        .await
        .unwrap();
    assert_eq!(read_all(&mut tunnel).await, "");
    assert!(
        world
            .last_reason()
            .contains("`domainAllowList` cannot be checked")
    );
    // Where the address is named, nothing depends on the name.
    world.allow("127.0.0.0/8", "api.test");
    let mut tunnel = world.tunnel(&at).await.unwrap();
    assert_eq!(exchange(&mut tunnel, "any bytes").await, "any bytes");
}

/// Node.js sends plain requests in this way, and so do many clients of web sockets.
#[tokio::test]
async fn where_a_name_decides_plain_requests_in_a_tunnel_are_for_its_host() {
    let world = World::new().await;
    let origin = Origin::http().await;
    world.allow("", "api.test");
    let at = origin.at("api.test");
    let say = async |request: String| {
        let mut tunnel = world.tunnel(&at).await.unwrap();
        tunnel.write_all(request.as_bytes()).await.unwrap();
        read_all(&mut tunnel).await
    };
    let answer = say(format!(
        "GET /a HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
    ))
    .await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("GET /a HTTP/1.1"),
        "{answer}"
    );
    let answer = say("GET /a HTTP/1.1\r\nHost: evil.com\r\n\r\n".to_owned()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let answer = say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );

    let mut tunnel = world.tunnel(&at).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {at}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    tunnel.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut tunnel).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(exchange(&mut tunnel, "frames").await, "frames");
    world.block();
    assert_eq!(read_all(&mut tunnel).await, "");
}

#[tokio::test]
async fn a_new_policy_ends_the_tunnels_that_it_does_not_allow() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    let mut by_name = world.tunnel(&origin.at("api.test")).await.unwrap();
    let mut by_address = world.tunnel(&origin.at("127.0.0.1")).await.unwrap();
    assert_eq!(exchange(&mut by_name, "hello").await, "hello");
    assert_eq!(exchange(&mut by_address, "hello").await, "hello");
    world.allow("127.0.0.0/8", "other.test");
    assert_eq!(exchange(&mut by_name, "still").await, "still");
    // Allowed by its name from here on, which nobody has looked at.
    world.allow("", "api.test");
    assert_eq!(read_all(&mut by_name).await, "");
    assert_eq!(read_all(&mut by_address).await, "");
    assert_eq!(world.handle.counters().refusals, 2);
    assert!(
        world
            .tunnel(&origin.at("127.0.0.1"))
            .await
            .unwrap_err()
            .contains(" 403 ")
    );
}
