//! The way out: only through the gateway, only where the settings allow, and with secrets put in on the way.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::TestServer;

/// An address of this host that is not loopback.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Sends nothing: the kernel only chooses the way.
    socket.connect("203.0.113.1:9").unwrap();
    socket.local_addr().unwrap().ip()
}

/// A web server that remembers what it was asked.
struct Web {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<String>>,
}

impl Web {
    fn at(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let reader = BufReader::new(stream.try_clone().unwrap());
                for line in reader.lines().map_while(Result::ok) {
                    if line.is_empty() {
                        break;
                    }
                    log.lock().unwrap().push_str(&format!("{line}\n"));
                }
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
                // A client that has gone is no failure here.
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }
}

/// What `curl` in a sandbox gets, or the status that it got.
fn fetch(server: &TestServer, id: &str, url: &str, more: &str) -> String {
    let script = format!("curl -s -m 20 -w ' %{{http_code}}' {more} {url} || true");
    server.run(id, &script)
}

fn set(server: &TestServer, id: &str, settings: Value) {
    server
        .post(&format!("/api/sandbox/{id}/network-settings"), settings)
        .ok();
}

#[test]
fn a_place_is_reached_only_when_it_is_allowed() {
    let server = TestServer::new();
    let id = server.sandbox();
    let web = Web::at(own_address());
    let url = format!("http://{}/", web.address);
    // An address of the host is private: no list, no way.
    assert!(fetch(&server, &id, &url, "").ends_with(" 403"));
    let network = format!("{}/32", web.address.ip());
    set(&server, &id, json!({ "networkAllowList": network }));
    assert_eq!(fetch(&server, &id, &url, ""), "hello 200");
    set(&server, &id, json!({ "networkBlockAll": true }));
    assert!(fetch(&server, &id, &url, "").ends_with(" 403"));
    let shown = server.get(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(shown["networkBlockAll"], true);
    assert_eq!(shown["networkAllowList"], Value::Null);
    // Around the gateway there is nothing.
    let around = server.execute(&id, &format!("curl -s -m 5 --noproxy '*' {url}"));
    assert_ne!(around.0, 0, "{around:?}");
}

#[test]
fn the_hosts_loopback_and_the_server_itself_are_never_reached() {
    let server = TestServer::new();
    let id = server.sandbox_from(json!({ "networkAllowList": "127.0.0.0/8,0.0.0.0/0" }));
    let web = Web::at(IpAddr::from([127, 0, 0, 1]));
    for url in [
        format!("http://{}/", web.address),
        format!("{}/health", server.url),
    ] {
        let got = fetch(&server, &id, &url, "--noproxy ''");
        assert!(got.ends_with(" 403"), "{url}: {got}");
    }
    assert_eq!(web.seen(), "");
    server
        .post("/api/sandbox", json!({ "networkAllowList": "everything" }))
        .refused(400);
    let many = ["10.0.0.0/8"; 11].join(",");
    server
        .post("/api/sandbox", json!({ "networkAllowList": many }))
        .refused(400);
}

/// That its hosts do see it is tested with the gateway, where names can be made to lead anywhere.
#[test]
fn a_secret_is_seen_by_neither_the_sandbox_nor_other_hosts() {
    const VALUE: &str = "s3cr3t-of-the-owner-0123456789";
    let server = TestServer::new();
    let web = Web::at(own_address());
    let url = format!("http://{}/", web.address);
    let made = json!({ "name": "token", "value": VALUE, "hosts": ["api.example.com"] });
    let made = server.post("/api/secret", made).ok();
    assert!(!made.to_string().contains(VALUE), "{made}");
    let placeholder = made["placeholder"].as_str().unwrap();
    let id = server.sandbox_from(json!({
        "secrets": [{ "TOKEN": "token" }],
        "networkAllowList": format!("{}/32", web.address.ip()),
    }));
    assert_eq!(server.run(&id, "echo $TOKEN"), placeholder);
    let header = "-H \"X-Token: $TOKEN\"";
    assert_eq!(fetch(&server, &id, &url, header), "hello 200");
    assert!(web.seen().contains(placeholder), "{}", web.seen());
    assert!(!web.seen().contains(VALUE), "{}", web.seen());
    // Nowhere inside: the script has it in two halves, so that it does not find itself.
    let (beginning, end) = VALUE.split_at(10);
    let look = format!(
        "v={beginning}; v=$v{end}; env | grep -v ^v= | grep -c $v; cat /proc/*/environ 2>/dev/null | grep -ac $v; grep -rs $v /home /tmp /run /etc | grep -c .; true"
    );
    assert_eq!(server.run(&id, &look), "0\n0\n0");
    // Taken away, its variable is gone.
    let path = format!("/api/sandbox/{id}/secrets");
    server.put(&path, json!({ "secrets": [] })).ok();
    assert_eq!(server.run(&id, "echo [$TOKEN]"), "[]");
    let unknown = json!({ "secrets": [{ "TOKEN": "nope" }] });
    server.put(&path, unknown).refused(400);
    // A secret without places would go anywhere.
    let open = json!({ "name": "open", "value": VALUE, "hosts": [] });
    server.post("/api/secret", open).refused(400);
}
