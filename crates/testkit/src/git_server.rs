//! A stand-in for GitHub: repositories over HTTP, which default branch they have, and pull requests.
//!
//! It listens at an address of this machine that boxes can be allowed to reach, which loopback is not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A running server. It ends with the process of its test.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    repositories: Mutex<BTreeMap<String, Served>>,
    seen: Mutex<Vec<String>>,
}

/// A repository that is served.
#[derive(Debug, Clone)]
pub struct Served {
    /// The folder of the repository, bare or not.
    pub path: PathBuf,
    /// What a client has to give as its password, if anything.
    pub token: Option<String>,
    /// Whether it may be pushed to.
    pub push: Push,
}

/// Whether a repository may be pushed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    Allowed,
    Refused,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl GitServer {
    /// Starts one at an address of this host that is not loopback.
    #[expect(clippy::new_without_default, reason = "making one binds a port")]
    pub fn new() -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Sends nothing: the kernel only chooses the way.
        socket.connect("203.0.113.1:9").unwrap();
        Self::at(socket.local_addr().unwrap().ip())
    }

    pub fn at(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = Arc::clone(&serving);
                // A client that goes away is no failure here.
                std::thread::spawn(move || drop(serving.answer(stream)));
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where repositories are, and their API.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves a repository as `owner/name`.
    pub fn serve(&self, name: &str, served: Served) {
        let mut all = self.shared.repositories.lock().unwrap();
        all.insert(name.to_owned(), served);
    }

    /// What it was asked, one request in each line: method, path, credentials and, where there are few, the bytes.
    pub fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Shared {
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = read_request(&mut reader, &mut stream)? {
            self.remember(&request);
            let answer = self.route(&request);
            stream.write_all(&answer)?;
        }
        Ok(())
    }

    fn remember(&self, request: &Request) {
        let credentials = request.headers.get("authorization");
        let credentials = credentials.map(String::as_str).unwrap_or("-");
        let mut line = format!("{} {} {credentials}", request.method, request.path);
        if request.path.starts_with("/repos/") {
            line.push(' ');
            line.push_str(&String::from_utf8_lossy(&request.body));
        }
        self.seen.lock().unwrap().push(line);
    }

    fn route(&self, request: &Request) -> Vec<u8> {
        let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["repos", owner, name] => self.repository(&format!("{owner}/{name}"), request),
            ["repos", owner, name, "pulls"] => {
                let url = format!("https://github.com/{owner}/{name}/pull/1");
                json(201, &format!("{{\"html_url\":\"{url}\"}}"))
            }
            [owner, name, ..] if name.ends_with(".git") => {
                let name = format!("{owner}/{}", name.trim_end_matches(".git"));
                let found = self.repositories.lock().unwrap().get(&name).cloned();
                match found {
                    Some(served) => serve_git(&served, request),
                    None => json(404, "{\"message\":\"Not Found\"}"),
                }
            }
            _ => json(404, "{\"message\":\"Not Found\"}"),
        }
    }

    fn repository(&self, name: &str, request: &Request) -> Vec<u8> {
        let found = self.repositories.lock().unwrap().get(name).cloned();
        let is_allowed = |served: &Served| match &served.token {
            Some(token) => request.headers.get("authorization") == Some(&format!("Bearer {token}")),
            None => true,
        };
        match found.filter(is_allowed) {
            Some(served) => {
                let branch = git(&served.path, &["symbolic-ref", "--short", "HEAD"]);
                json(200, &format!("{{\"default_branch\":\"{branch}\"}}"))
            }
            None => json(404, "{\"message\":\"Not Found\"}"),
        }
    }
}

fn json(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn git(path: &Path, arguments: &[&str]) -> String {
    let output = git_command(path).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn git_command(path: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(path)
        .args(["-c", "safe.directory=*"]);
    command
}

fn serve_git(served: &Served, request: &Request) -> Vec<u8> {
    if let Some(token) = &served.token {
        let expected = format!("Basic {}", STANDARD.encode(format!("git:{token}")));
        if request.headers.get("authorization") != Some(&expected) {
            return b"HTTP/1.1 401 X\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
    }
    let is_push = request.path.ends_with("git-receive-pack")
        || request.query.contains("service=git-receive-pack");
    if is_push && served.push == Push::Refused {
        return json(403, "{\"message\":\"no\"}");
    }
    let git_dir = git(&served.path, &["rev-parse", "--absolute-git-dir"]);
    let inside = request.path.split(".git").nth(1).unwrap_or_default();
    let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
    let mut child = git_command(&served.path)
        .args(["-c", "http.receivepack=true", "http-backend"])
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", inside)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("GIT_PROJECT_ROOT", git_dir)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "git")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = request.body.clone();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    from_cgi(&output.stdout)
}

/// What a CGI program says, as an answer of HTTP.
fn from_cgi(output: &[u8]) -> Vec<u8> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = output.split_at(end.map_or(output.len(), |end| end + 4));
    let head = String::from_utf8_lossy(head);
    let mut status = "200 OK".to_owned();
    let mut headers = String::new();
    for line in head.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("Status: ") {
            Some(text) => text.clone_into(&mut status),
            None => headers.push_str(&format!("{line}\r\n")),
        }
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    stream: &mut TcpStream,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.contains_key("expect") {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if headers.contains_key("transfer-encoding") {
        read_chunks(reader, &mut body)?;
    } else if let Some(length) = headers.get("content-length") {
        body.resize(length.parse().unwrap_or_default(), 0);
        reader.read_exact(&mut body)?;
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Ok(Some(Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body,
    }))
}

fn read_chunks(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or_default();
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        body.extend_from_slice(&chunk[..length]);
    }
}
