//! A hostile box with one token: what it can take from others, which is its share and no more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{TestServer, wait_until};
use crate::threads::{Content, ThreadsClient, entry};

const STREAM: &str = "/v1/stream/holm-thread-t";
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread `t` with the run `r1`, and the token of a box.
fn attacked(server: TestServer) -> (ThreadsClient, String) {
    let client = ThreadsClient::of(server);
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let token = client.mint(&thread, json!({ "run": "r1" }));
    (client, token)
}

/// So many megabytes in one request, which are stored, and read, as one.
fn together(megabytes: usize) -> Value {
    let text = "x".repeat(1_000_000);
    (0..megabytes)
        .map(|number| entry(&number.to_string(), json!({ "type": "pi.a", "text": text })))
        .collect()
}

/// Sends the beginning of a request, and keeps the connection.
fn begin(client: &ThreadsClient, token: &str, request: &str, more: &str) -> TcpStream {
    let address = client.server.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("{request} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n{more}\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    socket
}

fn long_poll(client: &ThreadsClient, token: &str) -> TcpStream {
    begin(
        client,
        token,
        &format!("GET {STREAM}?offset=now&live=long-poll"),
        "",
    )
}

/// All that comes until the other side closes.
fn rest(socket: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Others are served as if nothing were.
#[track_caller]
fn others_are_served(client: &ThreadsClient) {
    let began = Instant::now();
    let other = client.server.key_of("other");
    let made = client.post(&other, "/api/threads", json!({}));
    let id = made.ok()["id"].as_str().unwrap().to_owned();
    let entries = format!("/api/threads/{id}/entries");
    client.post(&other, &entries, together(10)).ok();
    let first = client.get(&other, &entries).ok();
    let rest = first["nextOffset"].as_str().unwrap();
    let rest = client.get(&other, &format!("{entries}?offset={rest}")).ok();
    assert_eq!(rest["entries"].as_array().unwrap().len(), 10);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn requests_in_flight_have_a_limit_that_renewing_does_not_lift() {
    let (client, token) = attacked(TestServer::with(|config| {
        config.limits.thread_requests_max = 8;
        config.limits.thread_viewers_max = 2;
    }));
    let renewed = client.post(&token, "/api/threads/t/tokens/renew", json!({}));
    let renewed = renewed.ok()["jwt"].as_str().unwrap().to_owned();
    let ticket = |bearer: &str| {
        let ticket = client.post(bearer, "/api/threads/t/read-tickets", json!({}));
        ticket.ok()["ticket"].as_str().unwrap().to_owned()
    };
    let tickets = [&token, client.key(), client.key()].map(ticket);
    let waiting: Vec<TcpStream> = (0..8)
        .map(|number| long_poll(&client, [&token, &renewed][number % 2]))
        .collect();
    let refused = || {
        let answer = client.get(&renewed, STREAM);
        answer.status == StatusCode::TOO_MANY_REQUESTS
    };
    wait_until("all of them wait", refused);
    // The refused one hears when to come again, and frees its connection.
    let answer = rest(&mut long_poll(&client, &token)).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 429"), "{answer}");
    for header in ["retry-after: 1\r\n", "connection: close\r\n"] {
        assert!(answer.contains(header), "{answer}");
    }
    let beat = client.send(
        Some(&token),
        Method::POST,
        "/api/threads/t/heartbeat",
        Content::Nothing,
        &[],
    );
    assert_eq!(beat.refused(429), "too_many_requests");
    // Viewers by tickets have a share of their own, whoever made the tickets, and the owner has none.
    let watching: Vec<TcpStream> = tickets[..2]
        .iter()
        .map(|ticket| {
            let mut socket = begin(
                &client,
                "",
                &format!("GET {STREAM}?offset=-1&live=sse&ticket={ticket}"),
                "",
            );
            let mut head = [0; 12];
            socket.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
            socket
        })
        .collect();
    let third = format!("{STREAM}?offset=-1&live=sse&ticket={}", tickets[2]);
    let third = client.send(None, Method::GET, &third, Content::Nothing, &[]);
    assert_eq!(third.refused(429), "too_many_requests");
    client.get(client.key(), STREAM).ok();
    others_are_served(&client);
    // Who goes makes room.
    drop((waiting, watching));
    wait_until("there is room", || !refused());
}

#[test]
fn hundreds_of_connections_of_one_token_are_turned_away() {
    let (client, token) = attacked(TestServer::with(|config| {
        config.limits.connections_max = 256;
    }));
    // One after the other: those beyond the share are answered and closed, so that the server never runs out of connections.
    let mut waiting = Vec::new();
    for _ in 0..400 {
        waiting.push(long_poll(&client, &token));
    }
    others_are_served(&client);
    let turned_away = waiting.iter_mut().rev().take(300).filter(|socket| {
        let mut socket: &TcpStream = socket;
        let mut head = [0; 12];
        socket.read_exact(&mut head).is_ok() && &head == b"HTTP/1.1 429"
    });
    assert_eq!(turned_away.count(), 300);
}

#[test]
fn a_thread_grows_to_its_share_and_no_further() {
    let (client, token) = attacked(TestServer::with(|config| {
        config.limits.thread_bytes_max = 1 << 20;
    }));
    let thread = "/api/threads/t";
    let big = |id: u32| {
        entry(
            &id.to_string(),
            json!({ "type": "pi.a", "text": "x".repeat(100_000) }),
        )
    };
    let stored =
        (0..20).take_while(|id| client.append(&token, thread, big(*id)).status.is_success());
    let stored = stored.count();
    assert!((9..=10).contains(&stored), "{stored}");
    let full = client.append(&token, thread, big(20));
    assert!(full.message().contains("1048576 bytes"), "{full:?}");
    assert_eq!(full.refused(507), "thread_full");
    let by_stream = client.send(
        Some(&token),
        Method::POST,
        STREAM,
        Content::Json(big(21)),
        &[],
    );
    assert_eq!(by_stream.refused(507), "thread_full");
    // It may still read and say that it lives; its owner may write.
    client.get(&token, &format!("{thread}/entries")).ok();
    client
        .post(&token, &format!("{thread}/heartbeat"), json!({}))
        .ok();
    client.append(client.key(), thread, big(22)).ok();
    others_are_served(&client);
    // And it may say that it has ended, once and in few words.
    let end = |id: &str, reason: &str| {
        let payload = json!({ "type": "signal.thread.status_changed", "status": "completed", "runId": "r1", "reason": reason });
        entry(id, payload)
    };
    let wordy = client.append(&token, thread, end("e1", &"x".repeat(100_000)));
    assert_eq!(wordy.refused(507), "thread_full");
    client.append(&token, thread, end("e2", "done")).ok();
    let row = client.get(client.key(), thread).ok();
    assert_eq!(row["status"], "completed");
    let again = client.append(&token, thread, end("e3", "done"));
    assert_eq!(again.refused(403), "run_ended");
}

/// Sends as much as is taken within a while, and keeps the connection.
fn flood(mut socket: TcpStream, bytes: usize) -> (TcpStream, usize) {
    socket
        .set_write_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    while sent < bytes {
        match socket.write(&piece) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    (socket, sent)
}

#[test]
fn bodies_that_never_end_take_the_memory_of_nobody_else() {
    let (client, token) = attacked(TestServer::with(|config| {
        // They are not waited for at the end of the test.
        config.limits.drain = Duration::from_secs(1);
    }));
    const LENGTH: usize = 15 << 20;
    let more = format!("Content-Type: application/json\r\nContent-Length: {LENGTH}\r\n");
    let request = format!("POST {STREAM}");
    let floods: Vec<_> = (0..20)
        .map(|_| {
            let socket = begin(&client, &token, &request, &more);
            std::thread::spawn(move || flood(socket, LENGTH - 1))
        })
        .collect();
    let floods: Vec<(TcpStream, usize)> = floods
        .into_iter()
        .map(|flood| flood.join().unwrap())
        .collect();
    let sent: usize = floods.iter().map(|(_, sent)| sent).sum();
    let taken = sent.saturating_sub(held_by_kernel(&client));
    // Its share is 32 MiB; each connection has a little beside it.
    assert!(taken < 64 << 20, "{} MiB were taken", taken >> 20);
    assert!(taken > 16 << 20, "only {} MiB were taken", taken >> 20);
    others_are_served(&client);
}

/// What was sent to the server and lies in the kernel, on either side: megabytes for each connection, if it likes.
fn held_by_kernel(client: &ThreadsClient) -> usize {
    let (_, port) = client.server.url.rsplit_once(':').unwrap();
    let port = format!(":{:04X}", port.parse::<u16>().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let held = table.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (to_send, received) = columns[4].split_once(':').unwrap();
        let bytes = if columns[2].ends_with(&port) {
            to_send
        } else if columns[1].ends_with(&port) {
            received
        } else {
            "0"
        };
        usize::from_str_radix(bytes, 16).unwrap()
    });
    held.sum()
}

/// What the process has in memory, in bytes.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn long_entries_that_nobody_takes_do_not_fill_the_memory() {
    let (client, token) = attacked(TestServer::new());
    let page = client.get(client.key(), "/api/threads/t/entries").ok();
    let offset = page["nextOffset"].as_str().unwrap();
    client.append(&token, "/api/threads/t", together(15)).ok();
    let before = resident_bytes();
    let kinds = ["", "&live=sse", "&live=long-poll"];
    let stuck: Vec<TcpStream> = (0..60)
        .map(|number| {
            let live = kinds[number % kinds.len()];
            begin(
                &client,
                &token,
                &format!("GET {STREAM}?offset={offset}{live}"),
                "",
            )
        })
        .collect();
    others_are_served(&client);
    let more = resident_bytes().saturating_sub(before);
    // Without a bound it would be 60 times the entry, at least.
    assert!(more < 400 << 20, "{} MiB more", more >> 20);
    drop(stuck);
}
