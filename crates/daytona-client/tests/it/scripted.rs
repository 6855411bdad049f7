//! A server that does with each request what a test says, down to resetting the connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::SinkExt as _;
use holm_daytona_client::wire::sandbox::Sandbox;
use holm_daytona_client::{Client, RetryPolicy, Settings, Toolbox};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_util::task::AbortOnDropHandle;

pub(crate) const KEY: &str = "dtn_scripted_0123456789";

/// What the server does with a request.
pub(crate) enum Reply {
    Json(u16, Value),
    /// With headers of its own.
    With(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes, as they are, and then a reset.
    Cut(Vec<u8>),
    /// These bytes, as they are, and then nothing, for ever.
    Stall(Vec<u8>),
    /// These bytes, as they are, and then the others again and again, until the client has gone.
    Endless(Vec<u8>, Vec<u8>),
    /// A WebSocket with this subprotocol, if any.
    Socket(Option<&'static str>, Vec<Frame>),
}

/// What the server sends on a WebSocket.
pub(crate) enum Frame {
    Binary(Vec<u8>),
    Text(String),
    Close(u16, &'static str),
    Reset,
    Silence,
}

impl Reply {
    /// As if the server had died after taking the request.
    pub(crate) fn reset() -> Self {
        Self::Cut(Vec::new())
    }

    pub(crate) fn hang() -> Self {
        Self::Stall(Vec::new())
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Json(status, json!({ "message": "as scripted" }))
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

pub(crate) struct Scripted {
    pub(crate) origin: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _serving: AbortOnDropHandle<()>,
}

type Script = Box<dyn FnMut(&Seen) -> Reply + Send>;

impl Scripted {
    pub(crate) async fn start(script: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, script)
    }

    pub(crate) fn start_on(
        listener: TcpListener,
        script: impl FnMut(&Seen) -> Reply + Send + 'static,
    ) -> Self {
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let remembered = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&script), Arc::clone(&remembered)));
            }
        });
        Self {
            origin,
            seen,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Replies in this order; after the last one, whatever comes is not found.
    pub(crate) async fn replying(replies: Vec<Reply>) -> Self {
        let mut replies = replies.into_iter();
        Self::start(move |_| replies.next().unwrap_or_else(|| Reply::status(404))).await
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(format!("{}/api", self.origin), KEY);
        settings.retry = RetryPolicy {
            pause_first: Duration::from_millis(2),
            ..RetryPolicy::default()
        };
        settings
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).unwrap()
    }

    /// The toolbox of a sandbox `box`, without asking for it.
    pub(crate) async fn toolbox(&self) -> Toolbox {
        self.toolbox_of(&self.client()).await
    }

    pub(crate) async fn toolbox_of(&self, client: &Client) -> Toolbox {
        let sandbox = Sandbox {
            id: "box".to_owned(),
            toolbox_proxy_url: format!("{}/toolbox", self.origin),
            ..Sandbox::default()
        };
        client.toolbox(&sandbox).await.unwrap()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>, seen: Arc<Mutex<Vec<Seen>>>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    seen.lock().unwrap().push(request.clone());
    let reply = (script.lock().unwrap())(&request);
    match reply {
        Reply::Json(status, body) => {
            let headers = vec![("Content-Type", "application/json".to_owned())];
            answer(&mut stream, status, headers, body.to_string().as_bytes()).await;
        }
        Reply::With(status, headers, body) => answer(&mut stream, status, headers, &body).await,
        Reply::Cut(bytes) => {
            drop(stream.write_all(&bytes).await);
            reset(stream).await;
        }
        Reply::Stall(bytes) => {
            drop(stream.write_all(&bytes).await);
            std::future::pending::<()>().await;
        }
        Reply::Endless(bytes, again) => {
            drop(stream.write_all(&bytes).await);
            while stream.write_all(&again).await.is_ok() {}
        }
        Reply::Socket(subprotocol, frames) => {
            socket(stream, &request, subprotocol, frames).await;
        }
    }
}

async fn reset(stream: TcpStream) {
    // What was written arrives before the reset.
    tokio::time::sleep(Duration::from_millis(20)).await;
    stream.set_zero_linger().unwrap();
}

async fn answer(stream: &mut TcpStream, status: u16, headers: Vec<(&str, String)>, body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    drop(stream.write_all(head.as_bytes()).await);
    drop(stream.write_all(body).await);
    drop(stream.shutdown().await);
    // Until the client has read it all.
    drop(stream.read(&mut [0; 1]).await);
}

async fn socket(
    mut stream: TcpStream,
    request: &Seen,
    subprotocol: Option<&str>,
    frames: Vec<Frame>,
) {
    let accept = derive_accept_key(request.header("Sec-WebSocket-Key").unwrap().as_bytes());
    let mut head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n"
    );
    if let Some(subprotocol) = subprotocol {
        head.push_str(&format!("Sec-WebSocket-Protocol: {subprotocol}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    for frame in frames {
        let message = match frame {
            Frame::Binary(bytes) => Message::Binary(bytes.into()),
            Frame::Text(text) => Message::Text(text.into()),
            Frame::Close(code, reason) => Message::Close(Some(CloseFrame {
                code: code.into(),
                reason: reason.into(),
            })),
            Frame::Reset => {
                reset(socket.into_inner()).await;
                return;
            }
            // Not even pings are answered.
            Frame::Silence => return std::future::pending().await,
        };
        drop(socket.send(message).await);
    }
    // The client says goodbye too.
    let mut stream = socket.into_inner();
    drop(stream.read_to_end(&mut Vec::new()).await);
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end;
        }
        read_more(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut body = bytes.split_off(end + 4);
    let mut words = head.split(' ');
    let mut request = Seen {
        method: words.next().unwrap().to_owned(),
        path: words.next().unwrap().to_owned(),
        head: head.clone(),
        body: Vec::new(),
    };
    let length = request.header("Content-Length");
    let length = length.map(|length| length.parse::<usize>().unwrap());
    if request.header("Transfer-Encoding").is_some() {
        while find(&body, b"0\r\n\r\n").is_none() {
            read_more(stream, &mut body).await?;
        }
    }
    while length.is_some_and(|length| body.len() < length) {
        read_more(stream, &mut body).await?;
    }
    request.body = body;
    Some(request)
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let count = stream.read_buf(bytes).await.ok()?;
    (count > 0).then_some(())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
