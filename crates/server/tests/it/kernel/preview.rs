//! Previews: programs in a sandbox, seen from outside.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestServer, wait_until};

/// Answers every request with what it got; speaks WebSocket frames back as they come; misbehaves when asked.
const PROGRAM: &str = r#"
import http.server, json, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        if self.headers.get("upgrade"):
            self.wfile.write(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            self.wfile.flush()
            while True:
                data = self.connection.recv(65536)
                if not data: return
                self.wfile.write(data.upper()); self.wfile.flush()
        if self.path.startswith("/stream"):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"9\r\ndata: 1\n\n\r\n"); self.wfile.flush()
            time.sleep(60)
            return
        raw = {"/garbage": b"\x00\x01nonsense\r\n\r\n", "/unasked": b"HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
               "/two": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"}.get(self.path)
        if self.path == "/never": time.sleep(60)
        if self.path == "/headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            try:
                while True: self.wfile.write(b"x: " + b"y" * 60000 + b"\r\n")
            except OSError: return
        if raw is not None:
            self.wfile.write(raw); self.wfile.flush(); self.close_connection = True
            return
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length).decode()
        if self.headers.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size).decode(); self.rfile.readline()
                if size == 0: break
        answer = json.dumps({"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.send_header("set-cookie", "a=1; Domain=localhost; Path=/")
        self.end_headers()
        self.wfile.write(answer)
    do_POST = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// A server with a sandbox in which the program listens on port 8000.
struct Preview {
    server: TestServer,
    id: String,
    token: String,
}

impl Preview {
    fn new() -> Self {
        Self::on(TestServer::new(), json!({}))
    }

    fn on(server: TestServer, request: Value) -> Self {
        let id = server.sandbox_from(request);
        let path = format!("/api/sandbox/{id}/ports/8000/preview-url");
        let shown = server.get(&path).ok();
        let preview = Self {
            token: shown["token"].as_str().unwrap().to_owned(),
            server,
            id,
        };
        let port = preview.server.url.rsplit(':').next().unwrap().to_owned();
        assert_eq!(
            shown["url"],
            format!("http://8000-{}.localhost:{port}", preview.id)
        );
        preview.listen(8000);
        preview
    }

    fn listen(&self, port: u16) {
        let program = PROGRAM.replace('\'', "'\\''");
        let command = format!("python3 -c '{program}' {port} >/dev/null 2>&1 &");
        let path = format!("/toolbox/{}/process/execute", self.id);
        self.server.post(&path, json!({ "command": command })).ok();
        let host = self.host(port);
        wait_until("the program listens", || {
            self.ask(&host, "/", &self.with_token()).0 != 502
        });
    }

    fn host(&self, port: u16) -> String {
        format!("{port}-{}.localhost", self.id)
    }

    fn with_token(&self) -> String {
        format!("x-daytona-preview-token: {}\r\n", self.token)
    }

    fn connect(&self) -> TcpStream {
        let address = self.server.url.strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        stream
    }

    fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Status, head and body of an answer.
    fn ask(&self, host: &str, path: &str, headers: &str) -> (u16, String, String) {
        let answer = self.raw(&format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n"
        ));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    fn ask_with_token(&self, path: &str) -> (u16, String, String) {
        self.ask(&self.host(8000), path, &self.with_token())
    }
}

#[test]
fn a_program_is_reached_and_learns_no_secret() {
    let preview = Preview::new();
    let host = preview.host(8000);
    let key = format!("authorization: Bearer {}\r\n", preview.server.key);
    let own = "authorization: Bearer app-token\r\ncookie: a=1; daytona-sandbox-auth-x=y\r\nx-forwarded-for: 8.8.8.8\r\n";
    let (status, head, body) = preview.ask(&host, "/a?b=1", &(preview.with_token() + own));
    assert_eq!(status, 200);
    assert!(head.contains("set-cookie: a=1; path=/"), "{head}");
    assert!(!head.contains("domain"), "{head}");
    let got: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(got["path"], "/a?b=1");
    assert_eq!(
        got["headers"],
        json!({
            "host": host,
            "authorization": "Bearer app-token",
            "cookie": "a=1",
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-host": host,
            "x-forwarded-proto": "http",
        })
    );
    // A key opens too, and stays outside.
    let (status, _, body) = preview.ask(&host, "/", &key);
    assert_eq!(status, 200);
    assert!(!body.contains("authorization"), "{body}");
    let request = format!(
        "POST /p?DAYTONA_SANDBOX_AUTH_KEY={}&c=d HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
        preview.token
    );
    let answer = preview.raw(&request);
    assert!(answer.contains(r#""path": "/p?c=d""#), "{answer}");
    assert!(answer.contains(r#""body": "hello""#), "{answer}");
}

#[test]
fn strangers_are_told_what_to_do() {
    let preview = Preview::new();
    let host = preview.host(8000);
    let other = format!(
        "authorization: Bearer {}\r\n",
        preview.server.key_of("other")
    );
    for shown in [
        "",
        "x-daytona-preview-token: wrong\r\n",
        "x-daytona-preview-token: \r\n",
        other.as_str(),
        "cookie: daytona-sandbox-auth-x=y\r\n",
    ] {
        let (status, _, body) = preview.ask(&host, "/", shown);
        assert_eq!(status, 401, "{shown}");
        assert!(body.contains("x-daytona-preview-token"), "{body}");
    }
    let (status, head, body) = preview.ask(&host, "/", "accept: text/html\r\n");
    assert_eq!(status, 401);
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(body.contains("<h1>Unauthorized</h1>"), "{body}");
    // What does not exist looks the same.
    let unknown = "8000-00000000-0000-4000-8000-000000000000.localhost";
    let known = preview.ask(&host, "/", "");
    assert_eq!(preview.ask(unknown, "/", "").2, known.2);
}

#[test]
fn a_browser_gets_a_cookie_for_the_token() {
    let preview = Preview::new();
    let host = preview.host(8000);
    let path = format!("/a?b=1&DAYTONA_SANDBOX_AUTH_KEY={}", preview.token);
    let (status, head, _) = preview.ask(&host, &path, "");
    assert_eq!(status, 307, "{head}");
    assert!(head.contains("\r\nlocation: /a?b=1\r\n"), "{head}");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        cookie.ends_with("; path=/; httponly; samesite=lax"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    let (status, _, body) = preview.ask(&host, "/", &format!("cookie: {pair}\r\n"));
    assert_eq!(status, 200);
    assert!(!body.contains(&preview.token), "{body}");
}

#[test]
fn signed_names_open_one_port_for_a_time() {
    let preview = Preview::new();
    preview.listen(8001);
    let base = format!("/api/sandbox/{}/ports/8000/signed-preview-url", preview.id);
    let signed = preview
        .server
        .get(&format!("{base}?expiresInSeconds=60"))
        .ok();
    let token = signed["token"].as_str().unwrap();
    let url = signed["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("http://8000-{token}.localhost:")),
        "{url}"
    );
    let open = |port: u16| preview.ask(&format!("{port}-{token}.localhost"), "/", "").0;
    assert_eq!((open(8000), open(8001)), (200, 401));
    // Somebody else can neither make nor end it.
    let other = preview.server.key_of("other");
    let expire = format!("{base}/{token}/expire");
    for (method, path) in [
        (Method::GET, base.as_str()),
        (Method::POST, expire.as_str()),
    ] {
        let answer = preview.server.ask_as(&other, method, path, None);
        assert_eq!(answer.status.as_u16(), 404, "{answer:?}");
    }
    preview.server.post(&expire, json!({})).ok();
    assert_eq!(open(8000), 401);
    preview.server.post(&expire, json!({})).refused(404);
    let short = preview
        .server
        .get(&format!("{base}?expiresInSeconds=1"))
        .ok();
    let host = format!("8000-{}.localhost", short["token"].as_str().unwrap());
    assert_eq!(preview.ask(&host, "/", "").0, 200);
    wait_until("the token has expired", || {
        preview.ask(&host, "/", "").0 == 401
    });
    for wrong in ["0", "86401", "x"] {
        preview
            .server
            .get(&format!("{base}?expiresInSeconds={wrong}"))
            .refused(400);
    }
    for wrong in ["0", "65536", "x"] {
        let path = format!("/api/sandbox/{}/ports/{wrong}/preview-url", preview.id);
        preview.server.get(&path).refused(400);
    }
}

#[test]
fn a_public_sandbox_is_open_but_for_ports_of_its_own() {
    let preview = Preview::on(TestServer::new(), json!({ "public": true }));
    assert_eq!(preview.ask(&preview.host(8000), "/", "").0, 200);
    for port in [2280, 22222, 33333] {
        assert_eq!(preview.ask(&preview.host(port), "/", "").0, 401);
    }
    // A key that was sent for no need stays outside as well.
    let key = format!(
        "authorization: Bearer {}\r\n",
        preview.server.key_of("other")
    );
    let (_, _, body) = preview.ask(&preview.host(8000), "/", &key);
    assert!(!body.contains("authorization"), "{body}");
}

#[test]
fn nothing_listens_or_nothing_runs() {
    let preview = Preview::new();
    let (status, _, body) = preview.ask(&preview.host(8123), "/", &preview.with_token());
    assert_eq!(status, 502);
    assert!(body.contains("Nothing listens on port 8123"), "{body}");
    let stop = format!("/api/sandbox/{}/stop", preview.id);
    preview.server.post(&stop, json!({})).ok();
    let key = format!("authorization: Bearer {}\r\n", preview.server.key);
    let (status, _, body) = preview.ask(&preview.host(8000), "/", &key);
    assert_eq!(status, 503);
    assert!(body.contains("not started"), "{body}");
}

#[test]
fn streams_are_not_held_back_and_websockets_are_tunnels() {
    let preview = Preview::new();
    let host = preview.host(8000);
    let mut stream = preview.connect();
    let head = format!(
        "GET /stream HTTP/1.1\r\nhost: {host}\r\n{}\r\n",
        preview.with_token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The program sleeps after the first event: it arrives all the same.
    read_until(&mut stream, "data: 1\n\n");
    drop(stream);
    let mut socket = preview.connect();
    let head = format!(
        "GET /?DAYTONA_SANDBOX_AUTH_KEY={} HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n",
        preview.token
    );
    socket.write_all(head.as_bytes()).unwrap();
    let answer = read_until(&mut socket, "\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    socket.write_all(b"hello").unwrap();
    read_until(&mut socket, "HELLO");
    // Hung up in the middle: the next one works.
    drop(socket);
    assert_eq!(preview.ask_with_token("/").0, 200);
}

fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) {
        let count = stream.read(&mut byte).unwrap();
        assert_eq!(count, 1, "{}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_box_that_answers_nonsense_harms_nobody() {
    let server = TestServer::with(|config| {
        config.limits.preview_patience = Duration::from_millis(500);
    });
    let preview = Preview::on(server, json!({}));
    for path in ["/garbage", "/unasked", "/headers"] {
        let (status, _, body) = preview.ask_with_token(path);
        assert_eq!(status, 502, "{path}: {body}");
    }
    assert_eq!(preview.ask_with_token("/never").0, 504);
    // A second answer on the same connection belongs to nobody.
    let answer = preview.raw(&format!(
        "GET /two HTTP/1.1\r\nhost: {0}\r\n{1}\r\nGET / HTTP/1.1\r\nhost: {0}\r\n{1}connection: close\r\n\r\n",
        preview.host(8000),
        preview.with_token()
    ));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert!(!answer.contains("forged"), "{answer}");
}

#[test]
fn no_second_request_is_smuggled() {
    let preview = Preview::new();
    let (host, token) = (preview.host(8000), preview.with_token());
    let both = preview.raw(&format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\n{token}content-length: 44\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: {host}\r\n\r\n"
    ));
    assert!(!both.contains("/smuggled\""), "{both}");
    for (name, request) in [
        (
            "two lengths",
            format!(
                "POST / HTTP/1.1\r\nhost: {host}\r\n{token}content-length: 5\r\ncontent-length: 6\r\n\r\nhello"
            ),
        ),
        (
            "signed length",
            format!("POST / HTTP/1.1\r\nhost: {host}\r\n{token}content-length: +5\r\n\r\nhello"),
        ),
        (
            "odd coding",
            format!(
                "POST / HTTP/1.1\r\nhost: {host}\r\n{token}transfer-encoding: chunked, x\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "two hosts",
            format!("GET / HTTP/1.1\r\nhost: {host}\r\nhost: localhost\r\n{token}\r\n"),
        ),
        (
            "another host in the address",
            format!("GET http://localhost/health HTTP/1.1\r\nhost: {host}\r\n{token}\r\n"),
        ),
        (
            "line break in a name",
            format!("GET / HTTP/1.1\r\nhost: {host}\r\n{token}a\rb: c\r\n\r\n"),
        ),
    ] {
        let answer = preview.raw(&request.replacen("\r\n", "\r\nconnection: close\r\n", 1));
        assert!(answer.starts_with("HTTP/1.1 400"), "{name}: {answer}");
    }
    let absolute = preview.raw(&format!(
        "GET http://{host}/x HTTP/1.1\r\nhost: {host}\r\n{token}connection: close\r\n\r\n"
    ));
    assert!(absolute.contains(r#""path": "/x""#), "{absolute}");
}

#[test]
fn names_below_the_domain_never_lead_to_the_api() {
    let preview = Preview::new();
    let key = format!("authorization: Bearer {}\r\n", preview.server.key);
    for host in [
        "x.localhost",
        "0-x.localhost",
        "65536-x.localhost",
        "127.0.0.1-x.localhost",
        "3000-a.b.localhost",
    ] {
        for path in [
            "/health",
            "/api/sandbox",
            "/api/socket.io/?EIO=4&transport=websocket",
        ] {
            assert_eq!(preview.ask(host, path, &key).0, 404, "{host}{path}");
        }
    }
    // Ports of the host are not those of a box.
    let port = preview
        .server
        .url
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(preview.ask(&preview.host(port), "/health", &key).0, 502);
}

#[test]
fn a_revoked_key_opens_nothing_more() {
    let preview = Preview::new();
    let store = holm_store::Store::open(&preview.server.data.path().join("data/holm.db")).unwrap();
    let text = holm_server::keys::KeyText::Random;
    let made = holm_server::keys::create(&store, "default", "second", text).unwrap();
    let host = preview.host(8000);
    let key = format!("authorization: Bearer {}\r\n", made.text.expose());
    let mut stream = preview.connect();
    let head = format!("GET /stream HTTP/1.1\r\nhost: {host}\r\n{key}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    read_until(&mut stream, "data: 1\n\n");
    holm_server::keys::revoke(&store, "default", "second").unwrap();
    assert_eq!(preview.ask(&host, "/", &key).0, 401);
}
