//! Readers that take nothing cost a server their sockets, and its writers nothing.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use serde_json::json;

use crate::server::{Client, KEY, Serving};
use crate::support::{TestEnvironment, wait_until};

const READERS: usize = 200;
/// What one of them may hold: a page of events, and what its connection has of the one before.
const READER_KIB_MAX: u64 = 256;
const ENTRY_BYTES: usize = 20_000;

fn resident_kib(server: &mut Serving<'_>) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child().id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.unwrap().trim().trim_end_matches(" kB");
    text.parse().unwrap()
}

/// What the server has used of the processor, in hundredths of a second.
fn processor_ticks(server: &mut Serving<'_>) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.child().id())).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    let used = fields.skip(11).take(2);
    used.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// A reader that asks for everything, has a small buffer, and reads nothing.
fn stuck(address: &str) -> OwnedFd {
    let address: SocketAddr = address.parse().unwrap();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 16 * 1024).unwrap();
    connect(&socket, &address).unwrap();
    let request = format!(
        "GET /v1/stream/s?offset=-1&live=sse HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\r\n"
    );
    let mut stream = TcpStream::from(socket);
    stream.write_all(request.as_bytes()).unwrap();
    stream.into()
}

/// Appends so many entries, one after the other; how long one of them takes.
fn append(client: &Client, count: u32) -> Duration {
    let body = json!("x".repeat(ENTRY_BYTES));
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let began = Instant::now();
            client.post("/v1/stream/s", &body);
            began.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn open_requests(client: &Client) -> usize {
    let figures = client.get("/metrics").ok();
    let figures = figures.as_str().unwrap();
    let open = figures
        .lines()
        .find_map(|line| line.strip_prefix("holm_requests_open "));
    open.unwrap().parse().unwrap()
}

#[test]
fn stuck_readers_cost_their_sockets_and_nothing_else() {
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let mut server = Serving::start(&env, &[]);
    let client = server.client();
    let made = client.ask("PUT", "/v1/stream/s", &json!(["first"]));
    assert!(made.unwrap().is_ok());
    // More than the buffers of a connection hold, so that readers are stuck in the middle of it.
    append(&client, 600);
    let alone = append(&client, 200);
    let before = resident_kib(&mut server);
    let readers: Vec<_> = (0..READERS).map(|_| stuck(&server.address)).collect();
    wait_until("all of them are being answered", || {
        open_requests(&client) > READERS
    });
    // Until nothing more goes into their sockets: the server has had nothing to do for a while.
    let mut idle = 0;
    let mut spent = processor_ticks(&mut server);
    wait_until("they are stuck", || {
        let now = processor_ticks(&mut server);
        idle = if now == spent { idle + 1 } else { 0 };
        spent = now;
        idle == 30
    });
    let beside = append(&client, 200);
    let grown = resident_kib(&mut server).saturating_sub(before);
    eprintln!(
        "{READERS} stuck readers: {grown} KiB; an append takes {beside:?} beside them, {alone:?} without"
    );
    let most = u64::try_from(READERS).unwrap() * READER_KIB_MAX;
    assert!(grown < most, "{grown} KiB");
    assert!(beside < alone * 3 + Duration::from_millis(5));
    assert!(open_requests(&client) > READERS, "they were all there");
    drop(readers);
    wait_until("they are gone", || open_requests(&client) == 1);
}
