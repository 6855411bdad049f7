//! A host of the outside world that speaks TLS, by an authority of the test's own, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use holm_testkit::TlsDoor;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

pub(super) struct Origin {
    pub(super) door: TlsDoor,
    seen: Arc<Mutex<String>>,
}

impl Origin {
    /// Listens at an address of this machine that is not loopback, which no box ever reaches.
    pub(super) fn start(names: &[&str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let door = TlsDoor::at(own_address(), names, listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone is no failure here.
                drop(answer(stream, &log));
            }
        });
        Self { door, seen }
    }

    /// What it was asked since the last look.
    pub(super) fn take(&self) -> String {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Sends nothing: the kernel only chooses the way.
    socket.connect("203.0.113.1:9").unwrap();
    socket.local_addr().unwrap().ip()
}

fn answer(stream: TcpStream, log: &Mutex<String>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        log.lock().unwrap().push_str(&line);
        line.clear();
    }
    reader.into_inner().write_all(ANSWER)
}
