//! Connections: who gets one, how long it may take, and how it ends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holm_sandbox_linux::{Engine, raise_descriptor_limit};
use holm_server::{ServeError, Server, ServerConfig, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{TestServer, wait_until};

/// Opens a connection and writes to it.
fn open(server: &TestServer, text: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// All that comes until the other side closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ask(server: &TestServer, text: &str) -> String {
    rest(&mut open(server, text))
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[test]
fn health_is_told_to_everybody() {
    let server = TestServer::new();
    for path in ["/health", "/api/health"] {
        let answer = ask(&server, &HEALTH.replace("/health", path));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(r#""status":"ok""#), "{answer}");
        assert!(answer.contains(r#""version":"0."#), "{answer}");
    }
}

#[test]
fn every_answer_has_an_id() {
    let server = TestServer::new();
    let id = |header: &str| {
        let request = HEALTH.replace("host: x", &format!("host: x{header}"));
        let answer = ask(&server, &request);
        let line = answer
            .lines()
            .find_map(|line| line.strip_prefix("x-request-id: "));
        line.unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    assert_eq!(id("").len(), 16);
    assert_ne!(id(""), id(""));
    assert_eq!(id("\r\nx-request-id: my-id.1"), "my-id.1");
    // What could forge a line of the log is replaced.
    assert_eq!(id("\r\nx-request-id: a b").len(), 16);
}

#[test]
fn figures_are_for_those_with_a_key() {
    let server = TestServer::new();
    let refused = ask(&server, &HEALTH.replace("/health", "/metrics"));
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    server.get("/api/sandbox").ok();
    server.get("/api/sandbox/none").refused(404);
    let figures = server.get("/metrics").ok();
    let figures = figures.as_str().unwrap();
    for line in [
        r#"holm_requests_total{plane="control",status="2xx"} 1"#,
        r#"holm_requests_total{plane="control",status="4xx"} 1"#,
        r#"holm_request_duration_seconds_count{plane="control"} 2"#,
        "holm_requests_open 1",
        "holm_sandboxes_created_total 0",
        "holm_store_errors_total 0",
    ] {
        assert!(figures.contains(&format!("{line}\n")), "{line}: {figures}");
    }
}

#[test]
fn headers_that_do_not_come_in_time_or_are_too_large_end_a_connection() {
    let server = TestServer::with(|config| {
        config.limits.header_patience = Duration::from_millis(300);
    });
    let mut slow = open(&server, "GET /health HTTP/1.1\r\nhost: x\r\n");
    let mut silent = open(&server, "");
    let mut idle = open(&server, &HEALTH.replace("connection: close\r\n", ""));
    assert!(!rest(&mut slow).contains("200"));
    assert_eq!(rest(&mut silent), "");
    assert!(rest(&mut idle).starts_with("HTTP/1.1 200"));
    let many = format!("x: {}\r\n\r\n", "y".repeat(1024 * 1024));
    let mut large = open(&server, "GET /health HTTP/1.1\r\nhost: x\r\n");
    // It may be refused while we still write.
    drop(large.write_all(many.as_bytes()));
    drop(large.shutdown(Shutdown::Write));
    let mut answer = [0; 12];
    if large.read_exact(&mut answer).is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}

#[test]
fn more_connections_than_allowed_wait() {
    let server = TestServer::with(|config| config.limits.connections_max = 2);
    let first = open(&server, "");
    let second = open(&server, "");
    let mut third = open(&server, HEALTH);
    third
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let waited = third.read(&mut [0; 1]).unwrap_err();
    assert_eq!(waited.kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    third
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert!(rest(&mut third).starts_with("HTTP/1.1 200"));
    drop(second);
}

#[test]
fn thousands_of_idle_connections_keep_nobody_out() {
    raise_descriptor_limit().unwrap();
    let server = TestServer::with(|config| config.limits.connections_max = 6_000);
    let idle: Vec<TcpStream> = (0..5_000).map(|_| open(&server, "")).collect();
    server.get("/api/sandbox").ok();
    let figures = || server.get("/metrics").ok().as_str().unwrap().to_owned();
    wait_until("all are counted", || {
        figures().contains("holm_connections_open 5001\n")
    });
    drop(idle);
    wait_until("none is left", || {
        figures().contains("holm_connections_open 1\n")
    });
}

#[test]
fn a_request_in_flight_is_answered_at_the_end() {
    let server = TestServer::new();
    let body = "{}";
    let request = format!(
        "PUT /api/sandbox/none/labels HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{",
        server.key
    );
    let mut stream = open(&server, &request);
    let mut idle = open(&server, "");
    let open_requests = || server.get("/metrics").ok();
    wait_until("the request is being read", || {
        open_requests()
            .as_str()
            .unwrap()
            .contains("holm_requests_open 2\n")
    });
    let stopping = std::thread::spawn(move || server.stop());
    // Idle connections end at once: that is how we know that the end has begun.
    assert_eq!(rest(&mut idle), "");
    stream.write_all(&body.as_bytes()[1..]).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    drop(stopping.join().unwrap());
}

fn tls_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name)
}

fn tls_files(certificate: &str, key: &str) -> TlsFiles {
    TlsFiles {
        certificate: tls_file(certificate),
        key: tls_file(key),
    }
}

#[test]
fn tls_is_spoken_with_the_given_files() {
    use rustls::pki_types::ServerName;

    let server =
        TestServer::with(|config| config.tls = Some(tls_files("server.pem", "server.key")));
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let certificate = std::fs::read_to_string(tls_file("server.pem")).unwrap();
    let roots = holm_egress::Roots::none().with_pem(&certificate).unwrap();
    let client = roots.client_config().unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    server.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    // Nothing is answered in the clear.
    assert!(!ask(&server, HEALTH).contains("HTTP"));
    drop(server.stop());
}

#[test]
fn wrong_tls_files_are_told() {
    let refused = |files: TlsFiles| {
        let data = tempfile::tempdir().unwrap();
        let engine = Engine::start().unwrap();
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), data.path().join("d"));
        config.tls = Some(files);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = Server::open(config, engine).unwrap();
        let error: ServeError = runtime.block_on(server.start()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        let text = error.to_string();
        (text.rsplit('/').next().unwrap().to_owned(), cause)
    };
    let (file, cause) = refused(tls_files("server.pem", "other.key"));
    assert_eq!(file, "other.key`");
    assert_eq!(cause, "the key belongs to another certificate");
    let (file, cause) = refused(tls_files("server.key", "server.key"));
    assert_eq!(file, "server.key`");
    assert_eq!(cause, "there is no certificate in it");
    let (file, _) = refused(tls_files("server.pem", "server.pem"));
    assert_eq!(file, "server.pem`");
    let (file, cause) = refused(tls_files("missing.pem", "server.key"));
    assert_eq!(file, "missing.pem`");
    assert!(cause.contains("No such file"), "{cause}");
}
