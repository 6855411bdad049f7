//! A host of the outside world that speaks TLS, by an authority of the test's own, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

pub(super) struct Origin {
    pub(super) address: SocketAddr,
    /// The certificate of whom it is vouched for by.
    pub(super) authority_pem: String,
    seen: Arc<Mutex<String>>,
}

impl Origin {
    /// Listens at an address of this machine that is not loopback, which no box ever reaches.
    pub(super) fn start(names: &[&str]) -> Self {
        let (config, authority_pem) = vouched(names);
        let listener = TcpListener::bind((own_address(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone, or that does not trust us, is no failure here.
                drop(answer(stream, Arc::clone(&config), &log));
            }
        });
        Self {
            address,
            authority_pem,
            seen,
        }
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

fn vouched(names: &[&str]) -> (Arc<ServerConfig>, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters
        .distinguished_name
        .push(rcgen::DnType::CommonName, "The world of a test");
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = parameters.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(parameters, key);
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let leaf = rcgen::CertificateParams::new(names).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(leaf_key.serialize_der()).unwrap(),
        )
        .unwrap();
    (Arc::new(config), authority_pem)
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    log: &Mutex<String>,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        log.lock().unwrap().push_str(&line);
        line.clear();
    }
    let mut stream = reader.into_inner();
    stream.write_all(ANSWER)?;
    stream.conn.send_close_notify();
    stream.flush()
}
