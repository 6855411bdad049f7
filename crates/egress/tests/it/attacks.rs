//! What a hostile box tries. Where nothing else is said, the rules are those of production.

use std::sync::atomic::Ordering;

use holm_egress::{Limits, Rules};
use tokio::io::AsyncWriteExt;

use crate::world::World;
use crate::world::origin::Origin;

#[tokio::test]
async fn no_spelling_of_loopback_is_reached() {
    let world = World::strict().await;
    world.names.lead("localhost", &["127.0.0.1"]);
    world.names.lead("home.evil.com", &["127.0.0.1"]);
    world.names.lead("six.evil.com", &["::1"]);
    world.names.lead("mapped.evil.com", &["::ffff:127.0.0.1"]);
    world.names.lead("metadata.evil.com", &["169.254.169.254"]);
    let origin = Origin::http().await;
    let hosts = [
        "127.0.0.1",
        "127.1.2.3",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[::ffff:a9fe:a9fe]",
        "[fe80::1]",
        "home.evil.com",
        "six.evil.com",
        "mapped.evil.com",
        "metadata.evil.com",
        "224.0.0.1",
        "255.255.255.255",
        "10.0.0.1",
        "[fd00:ec2::254]",
    ];
    // Also when everything that a list can name is named.
    for networks in ["", "0.0.0.0/0"] {
        world.allow(networks, "");
        for host in hosts {
            if networks == "0.0.0.0/0" && host == "10.0.0.1" {
                continue;
            }
            let at = origin.at(host);
            let refused = world.tunnel(&at).await.unwrap_err();
            assert!(
                refused.starts_with("HTTP/1.1 403 "),
                "CONNECT {at}: {refused}"
            );
            let refused = world.get(&at, "/").await;
            assert!(refused.starts_with("HTTP/1.1 403 "), "GET {at}: {refused}");
        }
    }
    assert_eq!(origin.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn numbers_that_only_some_read_as_addresses_are_refused_unread() {
    let world = World::new().await;
    let origin = Origin::http().await;
    for host in [
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "017700000001",
    ] {
        let at = origin.at(host);
        let refused = world.tunnel(&at).await.unwrap_err();
        assert!(
            refused.starts_with("HTTP/1.1 400 "),
            "CONNECT {at}: {refused}"
        );
        let refused = world.get(&at, "/").await;
        assert!(refused.starts_with("HTTP/1.1 400 "), "GET {at}: {refused}");
    }
    assert_eq!(world.names.asked.load(Ordering::SeqCst), 0);
    assert_eq!(origin.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let limits = Limits {
        connect_timeout: std::time::Duration::from_millis(300),
        ..Limits::default()
    };
    let world = World::with(Rules::new(Vec::new()), limits).await;
    let origin = Origin::http().await;
    // First public, as a check would see it, then loopback, as a connection would.
    world
        .names
        .lead("rebind.evil.com", &["192.0.2.1", "127.0.0.1"]);
    // The first answer is connected to, in vain; it is the only one asked for.
    let first = world.get(&origin.at("rebind.evil.com"), "/").await;
    assert!(first.starts_with("HTTP/1.1 50"), "{first}");
    assert!(first.contains("192.0.2.1"), "{first}");
    assert_eq!(world.names.asked.load(Ordering::SeqCst), 1);
    let second = world.get(&origin.at("rebind.evil.com"), "/").await;
    assert!(second.starts_with("HTTP/1.1 403 "), "{second}");
    assert_eq!(origin.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_server_itself_is_out_of_reach() {
    let origin = Origin::http().await;
    let rules = Rules::permit_loopback_for_tests(vec![origin.address]);
    let world = World::with(rules, Limits::default()).await;
    world.allow("0.0.0.0/0", "api.test");
    for host in ["127.0.0.1", "api.test", "[::ffff:127.0.0.1]"] {
        let refused = world.get(&origin.at(host), "/").await;
        assert!(
            refused.contains("is where the server itself listens"),
            "{refused}"
        );
    }
    let rules = Rules::permit_loopback_for_tests(vec![([0, 0, 0, 0], origin.port()).into()]);
    let world = World::with(rules, Limits::default()).await;
    let refused = world.get(&origin.at("127.0.0.3"), "/").await;
    assert!(
        refused.contains("is where the server itself listens"),
        "{refused}"
    );
}

#[tokio::test]
async fn targets_that_are_not_one_thing_are_refused() {
    let world = World::new().await;
    let origin = Origin::scribe().await;
    let at = origin.at("api.test");
    let targets = [
        format!("GET http://user:pass@{at}/ HTTP/1.1\r\nHost: {at}"),
        format!("GET http://{at}@evil.com/ HTTP/1.1\r\nHost: {at}"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: evil.com"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nHost: {at}"),
        format!("GET http://{at}/ HTTP/1.1\r\nX: y"),
        format!("GET https://{at}/ HTTP/1.1\r\nHost: {at}"),
        format!("GET ftp://{at}/ HTTP/1.1\r\nHost: {at}"),
        format!("GET / HTTP/1.1\r\nHost: {at}"),
        "OPTIONS * HTTP/1.1\r\nHost: api.test".to_owned(),
        format!("CONNECT api.test HTTP/1.1\r\nHost: {at}"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: evil.com"),
        format!("CONNECT u@{at} HTTP/1.1\r\nHost: {at}"),
        "CONNECT api.test:99999 HTTP/1.1\r\nHost: api.test".to_owned(),
        format!("CONNECT http://{at}/ HTTP/1.1\r\nHost: {at}"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX: a\r\n b"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX : a"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX: a\0b"),
        format!("GET http://{at}/a b HTTP/1.1\r\nHost: {at}"),
        format!("GET http://{at}/a\rX: y HTTP/1.1\r\nHost: {at}"),
        format!(
            "GET http://api.test%0d%0a:{}/ HTTP/1.1\r\nHost: {at}",
            origin.port()
        ),
        format!("GET http://{at}/ HTTP/2.0\r\nHost: {at}"),
    ];
    for target in targets {
        let answer = world.say(format!("{target}\r\n\r\n")).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{target:?}: {answer}"
        );
    }
    assert_eq!(origin.heard(), "");
}

/// What becomes of a request whose length can be read in two ways.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Refused,
    /// It arrives, with one length, and nothing is left over.
    Framed(&'static str),
}

#[tokio::test]
async fn a_request_hides_no_second_one() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let length = hidden.len();
    assert_eq!(length, 40);
    let chunked = Fate::Framed("transfer-encoding: chunked");
    let framings = [
        (
            format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
            Fate::Refused,
        ),
        (
            format!("Content-Length: 0, {length}\r\n\r\n{hidden}"),
            Fate::Refused,
        ),
        (
            format!("Content-Length: +{length}\r\n\r\n{hidden}"),
            Fate::Refused,
        ),
        (format!("Content-Length: -1\r\n\r\n{hidden}"), Fate::Refused),
        (
            format!("Transfer-Encoding: chunked, identity\r\n\r\n{hidden}"),
            Fate::Refused,
        ),
        (
            format!("Transfer-Encoding: xchunked\r\n\r\n{hidden}"),
            Fate::Refused,
        ),
        (
            format!(
                "Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
            ),
            Fate::Framed("transfer-encoding: chunked"),
        ),
        (
            format!(
                "Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n0\r\n\r\n{hidden}"
            ),
            chunked,
        ),
        (
            format!("Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n{hidden}"),
            Fate::Framed("content-length: 40"),
        ),
        (
            format!("Connection: Content-Length\r\nContent-Length: {length}\r\n\r\n{hidden}"),
            Fate::Framed("content-length: 40"),
        ),
    ];
    let world = World::new().await;
    for (framing, fate) in framings {
        let origin = Origin::scribe().await;
        let at = origin.at("api.test");
        let answer = world
            .say(format!(
                "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{framing}"
            ))
            .await;
        let heard = origin.heard().to_lowercase();
        let head = heard.split("\r\n\r\n").next().unwrap_or_default();
        let found = match heard.is_empty() {
            true => Fate::Refused,
            false => Fate::Framed(
                ["transfer-encoding: chunked", "content-length: 40"]
                    .into_iter()
                    .find(|line| head.contains(line))
                    .unwrap_or("nothing"),
            ),
        };
        assert_eq!(found, fate, "{framing:?}: {answer} {heard}");
        // What the origin hears is framed once, so that it reads no body as a head.
        let lengths = head.matches("content-length").count();
        let codings = head.matches("transfer-encoding").count();
        assert!(lengths + codings <= 1, "{framing:?}: {heard}");
        if head.contains("chunked") {
            assert!(!heard.contains("/hidden"), "{framing:?}: {heard}");
        }
    }
}

/// Requests that are almost right, many of them: none gets out, and the gateway goes on.
#[tokio::test]
async fn noise_does_no_harm() {
    let world = World::strict().await;
    let origin = Origin::http().await;
    world.names.lead("home.evil.com", &["127.0.0.1"]);
    let at = origin.at("home.evil.com");
    let seeds = [
        format!("GET http://{at}/a?b=c HTTP/1.1\r\nHost: {at}\r\nContent-Length: 3\r\n\r\nabc"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n"),
    ];
    // A small generator, so that a failure can be had again.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(limit).unwrap()).unwrap()
    };
    for round in 0..400 {
        let mut bytes = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..=next(4) {
            let position = next(bytes.len());
            match next(3) {
                0 => bytes[position] = u8::try_from(next(256)).unwrap(),
                1 => drop(bytes.remove(position)),
                _ => bytes.insert(position, b"\r\n @:/[]%\0"[next(10)]),
            }
        }
        let mut stream = world.connect().await;
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = crate::world::read_all(&mut stream).await;
        assert!(
            !answer.starts_with("HTTP/1.1 2"),
            "{:?}: {answer}",
            String::from_utf8_lossy(&bytes)
        );
    }
    assert_eq!(origin.connections.load(Ordering::SeqCst), 0);
    assert!(world.get(&at, "/").await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn http_2_does_not_get_in() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    let answer = world.say(preface).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    // An upgrade to it is answered as if it had not been asked for.
    let at = origin.at("api.test");
    let answer = world
        .say(format!(
            "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
             Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!answer.to_lowercase().contains("h2c"), "{answer}");
}

#[tokio::test]
async fn a_proxy_is_not_talked_into_talking_to_itself() {
    let world = World::strict().await;
    let proxy = world.proxy;
    assert!(
        world
            .tunnel(&proxy.to_string())
            .await
            .unwrap_err()
            .contains(" 403 ")
    );
}
