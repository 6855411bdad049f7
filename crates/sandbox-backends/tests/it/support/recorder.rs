//! Everything that a client sends to a server, as it is sent: a test sees which requests were made, and in which order.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Stands between a client and a server. It ends with the process of its test.
#[derive(Debug)]
pub(crate) struct Recorder {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    /// `server` is an address with a port.
    pub(crate) fn in_front_of(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let recording = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(&server).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let recording = Arc::clone(&recording);
                std::thread::spawn(move || {
                    carry(from, to, |bytes| {
                        recording.lock().unwrap().extend_from_slice(bytes);
                    });
                });
                std::thread::spawn(move || carry(server, client, |_| {}));
            }
        });
        Self { address, sent }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that was sent until now, as text.
    pub(crate) fn sent(&self) -> String {
        String::from_utf8_lossy(&self.sent.lock().unwrap()).into_owned()
    }

    /// Forgets what was sent until now.
    pub(crate) fn forget(&self) {
        self.sent.lock().unwrap().clear();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, look: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    // Either side may go at any time.
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        look(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Write));
}
