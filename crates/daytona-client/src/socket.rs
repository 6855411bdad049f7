//! A WebSocket with an owner: one task reads and writes, queues to it are short, and a dead peer is noticed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::task::AbortOnDropHandle;

use crate::request::Attempts;
use crate::retry::Repeat;
use crate::{Client, ClientError, Result, answer};

/// Frames between the task and its user, each way.
const QUEUE_FRAMES: usize = 16;
/// The largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many pings go out in the longest silence.
const PINGS_PER_SILENCE: u32 = 3;
/// For the answer to a peer's goodbye, which nobody waits for.
const GOODBYE: Duration = Duration::from_millis(200);

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// What arrives.
#[derive(Debug)]
pub(crate) enum Incoming {
    Binary(Bytes),
    Text(String),
    /// The peer said goodbye.
    Closed(Closing),
}

/// A peer's goodbye.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closing {
    /// `None` for a goodbye without a code.
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
}

/// Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Socket {
    action: String,
    incoming: mpsc::Receiver<Result<Incoming>>,
    outgoing: mpsc::Sender<Message>,
    _task: AbortOnDropHandle<()>,
}

/// What to connect to, and as what.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) action: String,
    pub(crate) url: Url,
    pub(crate) subprotocols: Vec<String>,
    pub(crate) repeat: Repeat,
}

impl Socket {
    pub(crate) async fn open(client: &Client, opening: Opening) -> Result<Self> {
        let deadline = client.deadlines().request;
        let mut attempts = Attempts::new(client.shared().settings.retry, opening.repeat, deadline);
        let stream = loop {
            match attempts
                .limit(&opening.action, connect(client, &opening))
                .await
            {
                Ok(stream) => break stream,
                Err(error) => attempts.pause(error).await?,
            }
        };
        let (incoming_sender, incoming) = mpsc::channel(QUEUE_FRAMES);
        let (outgoing, outgoing_receiver) = mpsc::channel(QUEUE_FRAMES);
        let silence = client.deadlines().socket_silence;
        let action = opening.action.clone();
        let task = tokio::spawn(drive(
            stream,
            incoming_sender,
            outgoing_receiver,
            silence,
            opening.action,
        ));
        Ok(Self {
            action,
            incoming,
            outgoing,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Cancelling this loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Incoming> {
        match self.incoming.recv().await {
            Some(incoming) => incoming,
            None => Err(lost(&self.action, "it has ended already")),
        }
    }

    pub(crate) fn action(&self) -> &str {
        &self.action
    }

    pub(crate) fn outgoing(&self) -> &mpsc::Sender<Message> {
        &self.outgoing
    }
}

pub(crate) fn lost(action: &str, problem: impl Into<String>) -> ClientError {
    ClientError::Interrupted {
        action: action.to_owned(),
        source: problem.into().into(),
    }
}

impl Closing {
    pub(crate) fn is_normal(&self) -> bool {
        matches!(self.code, None | Some(1000))
    }

    /// A goodbye that says that something went wrong.
    pub(crate) fn into_error(self, action: &str) -> ClientError {
        let code = self.code.map_or_else(String::new, |code| code.to_string());
        lost(
            action,
            format!("the server closed it with code {code}: {}", self.reason),
        )
    }
}

async fn connect(
    client: &Client,
    opening: &Opening,
) -> Result<WebSocketStream<Box<dyn Transport>>> {
    let action = &opening.action;
    let request = request(client, opening)?;
    let transport = transport(client, opening).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    match tokio_tungstenite::client_async_with_config(request, transport, Some(config)).await {
        Ok((stream, _response)) => Ok(stream),
        Err(tungstenite::Error::Http(response)) => {
            let status = response.status().as_u16();
            let body = response.body().as_deref().unwrap_or_default();
            let key = &client.shared().settings.api_key;
            Err(answer::refusal(
                action,
                status,
                response.headers(),
                body,
                key,
            ))
        }
        Err(error) => Err(socket_error(action, error)),
    }
}

fn request(client: &Client, opening: &Opening) -> Result<tungstenite::handshake::client::Request> {
    let unusable = |problem: String| ClientError::Invalid {
        what: "request",
        problem,
    };
    let mut url = opening.url.clone();
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    url.set_scheme(scheme)
        .map_err(|()| unusable("its address is not one of the web".to_owned()))?;
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|error| unusable(error.to_string()))?;
    request
        .headers_mut()
        .extend(client.shared().headers.clone());
    if !opening.subprotocols.is_empty() {
        let offered = opening.subprotocols.join(", ");
        let mut offered =
            HeaderValue::from_str(&offered).map_err(|error| unusable(error.to_string()))?;
        // The environment of a terminal may be a part of it.
        offered.set_sensitive(true);
        let name = HeaderName::from_static("sec-websocket-protocol");
        request.headers_mut().insert(name, offered);
    }
    Ok(request)
}

async fn transport(client: &Client, opening: &Opening) -> Result<Box<dyn Transport>> {
    let unreachable = |source: crate::Cause| ClientError::Connect {
        action: opening.action.clone(),
        source,
    };
    let host = opening.url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = opening.url.port_or_known_default().unwrap_or(80);
    let connecting = async {
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        if opening.url.scheme() != "https" {
            return Ok::<Box<dyn Transport>, std::io::Error>(Box::new(tcp));
        }
        let name = rustls::pki_types::ServerName::try_from(host.to_owned())
            .map_err(std::io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&client.shared().tls));
        Ok(Box::new(connector.connect(name, tcp).await?))
    };
    match tokio::time::timeout(client.deadlines().connect, connecting).await {
        Ok(outcome) => outcome.map_err(|error| unreachable(error.into())),
        Err(elapsed) => Err(unreachable(elapsed.into())),
    }
}

/// Owns the connection until it ends or its user is gone.
async fn drive(
    stream: WebSocketStream<Box<dyn Transport>>,
    incoming: mpsc::Sender<Result<Incoming>>,
    outgoing: mpsc::Receiver<Message>,
    silence: Duration,
    action: String,
) {
    // Apart, so that a peer that does not read until it is read from gets what it waits for.
    let (sink, source) = stream.split();
    tokio::select! {
        () = read(source, &incoming, silence, &action) => {}
        () = write(sink, outgoing, silence / PINGS_PER_SILENCE) => {}
        () = incoming.closed() => {}
    }
}

async fn read(
    mut source: impl Stream<Item = tungstenite::Result<Message>> + Unpin,
    incoming: &mpsc::Sender<Result<Incoming>>,
    silence: Duration,
    action: &str,
) {
    loop {
        let arrived = match tokio::time::timeout(silence, source.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) => Ok(Incoming::Binary(bytes)),
            Ok(Some(Ok(Message::Text(text)))) => Ok(Incoming::Text(text.as_str().to_owned())),
            Ok(Some(Ok(Message::Close(frame)))) => Ok(Incoming::Closed(closing(frame))),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => continue,
            Ok(Some(Err(error))) => Err(socket_error(action, error)),
            Ok(None) => Err(lost(action, "it ended without a goodbye")),
            Err(_elapsed) => Err(lost(
                action,
                format!("nothing was heard of the server for {silence:?}"),
            )),
        };
        let is_last = matches!(&arrived, Err(_) | Ok(Incoming::Closed(_)));
        if incoming.send(arrived).await.is_err() || is_last {
            // The library answers a goodbye when it is asked for what comes after.
            drop(tokio::time::timeout(GOODBYE, source.next()).await);
            return;
        }
    }
}

/// Never ends by itself: what ends the connection is told by the reader.
async fn write(
    mut sink: impl Sink<Message, Error = tungstenite::Error> + Unpin,
    mut outgoing: mpsc::Receiver<Message>,
    ping_every: Duration,
) {
    let mut pings = tokio::time::interval(ping_every.max(Duration::from_millis(1)));
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pings.reset();
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => message,
            _ = pings.tick() => Some(Message::Ping(Bytes::new())),
        };
        match message {
            Some(message) => {
                if sink.send(message).await.is_err() {
                    break;
                }
            }
            None => break,
        }
    }
    std::future::pending::<()>().await;
}

fn closing(frame: Option<CloseFrame>) -> Closing {
    match frame {
        Some(frame) => Closing {
            code: Some(frame.code.into()),
            reason: frame.reason.as_str().to_owned(),
        },
        None => Closing {
            code: None,
            reason: String::new(),
        },
    }
}

fn socket_error(action: &str, error: tungstenite::Error) -> ClientError {
    use tungstenite::error::ProtocolError::{HandshakeIncomplete, ResetWithoutClosingHandshake};
    match error {
        tungstenite::Error::Io(_)
        | tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(HandshakeIncomplete | ResetWithoutClosingHandshake) => {
            ClientError::Interrupted {
                action: action.to_owned(),
                source: error.into(),
            }
        }
        tungstenite::Error::Capacity(_) => ClientError::TooLarge {
            action: action.to_owned(),
            bytes_max: MESSAGE_BYTES_MAX,
        },
        tungstenite::Error::Tls(_)
        | tungstenite::Error::Protocol(_)
        | tungstenite::Error::WriteBufferFull(_)
        | tungstenite::Error::Utf8(_)
        | tungstenite::Error::AttackAttempt
        | tungstenite::Error::Url(_)
        | tungstenite::Error::Http(_)
        | tungstenite::Error::HttpFormat(_) => ClientError::Protocol {
            action: action.to_owned(),
            problem: error.to_string(),
        },
    }
}
