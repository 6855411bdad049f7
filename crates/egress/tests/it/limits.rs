//! What one box can take is limited.

use std::time::Duration;

use holm_egress::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::origin::Origin;
use crate::world::{World, exchange, read_all, read_head, until};

/// Short, and long enough for a machine that is busy with other things.
fn limits() -> Limits {
    Limits {
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(3),
        connections: 3,
        refusals_kept: 2,
        ..Limits::default()
    }
}

#[tokio::test]
async fn who_is_slow_with_the_head_is_left() {
    let world = World::with_limits(limits()).await;
    let (mut reader, mut writer) = world.connect().await.into_split();
    // Never idle, and never done with the head.
    let dripping = tokio::spawn(async move {
        let mut head = "GET http://api.test/ HTTP/1.1\r\nX-"
            .bytes()
            .chain(std::iter::repeat(b'a'));
        while writer.write_all(&[head.next().unwrap()]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(!read_all(&mut reader).await.contains(" 200 "));
    dripping.abort();
    let mut silent = world.connect().await;
    assert_eq!(read_all(&mut silent).await, "");
    until("both are gone", || {
        world.handle.counters().connections_open == 0
    })
    .await;
}

#[tokio::test]
async fn who_says_nothing_in_a_tunnel_that_is_looked_at_is_left() {
    let world = World::with_limits(limits()).await;
    let origin = Origin::echo().await;
    world.allow("", "api.test");
    let mut tunnel = world.tunnel(&origin.at("api.test")).await.unwrap();
    tunnel.write_all(&[0x16, 3, 1]).await.unwrap();
    assert_eq!(read_all(&mut tunnel).await, "");
}

#[tokio::test]
async fn an_idle_tunnel_ends_and_a_busy_one_stays() {
    let world = World::with_limits(limits()).await;
    let origin = Origin::echo().await;
    let mut idle = world.tunnel(&origin.at("api.test")).await.unwrap();
    let mut busy = world.tunnel(&origin.at("api.test")).await.unwrap();
    let watching = tokio::spawn(async move { read_all(&mut idle).await });
    while !watching.is_finished() {
        assert_eq!(exchange(&mut busy, "x").await, "x");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(watching.await.unwrap(), "");
    assert_eq!(exchange(&mut busy, "still").await, "still");
}

#[tokio::test]
async fn who_never_reads_stops_the_flow_and_is_left() {
    let world = World::with_limits(limits()).await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let mut deaf = world.connect().await;
    let request = format!("GET http://{at}/endless HTTP/1.1\r\nHost: {at}\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();
    until("it is gone", || {
        let counters = world.handle.counters();
        counters.connections == 1 && counters.connections_open == 0
    })
    .await;
    // No more than what the kernel's buffers of both sockets hold.
    let sent = world.handle.counters().bytes_to_box;
    assert!(sent < 16 * 1024 * 1024, "{sent}");
}

#[tokio::test]
async fn giant_heads_are_refused() {
    let world = World::new().await;
    let origin = Origin::scribe().await;
    let at = origin.at("api.test");
    let giants = [
        format!("X: {}\r\n", "a".repeat(200 * 1024)),
        "X: a\r\n".repeat(2000),
        format!("{}: a\r\n", "a".repeat(100 * 1024)),
    ];
    for giant in giants {
        let mut stream = world.connect().await;
        let request = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{giant}\r\n");
        // The gateway may close before it has read everything.
        stream.write_all(request.as_bytes()).await.ok();
        let answer = read_all(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
    }
    assert_eq!(origin.heard(), "");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = Limits {
        connections: 3,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    let origin = Origin::echo().await;
    let at = origin.at("api.test");
    let mut tunnels = Vec::new();
    for _ in 0..3 {
        tunnels.push(world.tunnel(&at).await.unwrap());
    }
    let mut waiting = world.connect().await;
    let request = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    waiting.write_all(request.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.readable()).await;
    assert!(early.is_err(), "a fourth connection was served");
    assert_eq!(world.handle.counters().connections_open, 3);
    drop(tunnels.pop());
    assert!(read_head(&mut waiting).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn refusals_are_kept_up_to_a_limit_and_counted_beyond() {
    let world = World::with_limits(limits()).await;
    world.block();
    for number in 0..5 {
        let refused = world.get(&format!("n{number}.test"), "/").await;
        assert!(refused.contains("networkBlockAll"), "{refused}");
    }
    let kept: Vec<String> = world
        .handle
        .recent_refusals()
        .into_iter()
        .map(|refusal| refusal.target)
        .collect();
    assert_eq!(kept, ["n3.test:80", "n4.test:80"]);
    assert_eq!(world.handle.counters().refusals, 5);
}

#[tokio::test]
async fn an_upload_is_not_held_in_memory() {
    let world = World::new().await;
    // Accepts and never reads.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("api.test:{}", deaf.local_addr().unwrap().port());
    let mut stream = world.connect().await;
    let head =
        format!("PUT http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 999999999\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut accepted, _) = deaf.accept().await.unwrap();
    let block = vec![0; 1024 * 1024];
    let mut sent = 0;
    while let Ok(written) =
        tokio::time::timeout(Duration::from_millis(300), stream.write(&block)).await
    {
        sent += written.unwrap();
        assert!(sent < 64 * 1024 * 1024, "the gateway takes everything");
    }
    // The origin begins to read, and the flow goes on.
    let mut buffer = vec![0; 1024 * 1024];
    let reading = async {
        while accepted
            .read(&mut buffer)
            .await
            .is_ok_and(|count| count > 0)
        {}
    };
    tokio::select! {
        () = reading => panic!("the upload broke off"),
        written = stream.write_all(&block) => written.unwrap(),
    }
}
