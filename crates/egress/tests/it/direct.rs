//! The server's own connections: to whom a name belongs, at public addresses, and not for ever.

use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_egress::{DirectError, Host, Limits, Rules};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::world::origin::Origin;
use crate::world::{PATIENCE, World, read_all, vouched};

type Connected = Result<TlsStream<TcpStream>, DirectError>;

async fn connect(world: &World, name: &str, port: u16, patience: Duration) -> Connected {
    let host = Host::parse(name).unwrap();
    world.gateway.connect_tls(&host, port, patience).await
}

#[tokio::test]
async fn a_host_is_spoken_to_by_tls() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    let connected = connect(&world, "api.test", origin.port(), PATIENCE).await;
    let mut stream = connected.unwrap();
    let request = "GET /hook HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.contains("GET /hook HTTP/1.1"), "{answer}");
}

#[tokio::test]
async fn who_is_not_vouched_for_is_told_apart_from_who_is_not_there() {
    let world = World::new().await;
    let impostor = Origin::https(&vouched().config).await;
    let ours = Origin::https(&world.vouched.config).await;
    // Of an authority that is not known; of one that is, for another name.
    for (name, origin) in [("api.test", &impostor), ("deep.sub.test", &ours)] {
        let failed = connect(&world, name, origin.port(), PATIENCE).await;
        let error = failed.unwrap_err();
        assert!(error.to_string().contains("speak TLS with"), "{error}");
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains("certificate"), "{cause}");
    }
    let nobody = connect(&world, "api.test", 1, PATIENCE).await;
    let error = nobody.unwrap_err();
    assert!(error.to_string().contains("reach"), "{error}");
}

#[tokio::test]
async fn what_is_not_public_is_not_even_connected_to() {
    let world = World::with(Rules::new(Vec::new()), Limits::default()).await;
    let origin = Origin::https(&world.vouched.config).await;
    world.names.lead("inside.test", &["10.0.0.1"]);
    world.names.lead("metadata.test", &["169.254.169.254"]);
    for name in [
        "api.test",
        "127.0.0.1",
        "inside.test",
        "metadata.test",
        "[::ffff:127.0.0.1]",
    ] {
        let refused = connect(&world, name, origin.port(), PATIENCE).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, DirectError::Refused(_)), "{refused:?}");
    }
    assert_eq!(origin.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_host_that_says_nothing_is_given_up() {
    let world = World::new().await;
    // Connections are made by the kernel, and nobody looks at them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let patience = Duration::from_millis(200);
    let late = connect(&world, "api.test", port, patience).await;
    assert!(matches!(late, Err(DirectError::TooLate { .. })), "{late:?}");
}
