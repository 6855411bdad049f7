//! A WebSocket of a test.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::TestServer;

const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const VERSION: (&str, &str) = ("X-Daytona-SDK-Version", "0.226.1");

/// An open WebSocket.
pub(super) struct Socket<'a> {
    server: &'a TestServer,
    stream: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    /// The subprotocol that the server chose.
    pub(super) chosen: Option<String>,
}

impl<'a> Socket<'a> {
    /// Opens one, or gives the status of the refusal.
    pub(super) fn open(
        server: &'a TestServer,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("{}{path}", server.url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        let key = format!("Bearer {}", server.key);
        let all = [("Authorization", key.as_str())];
        for (name, value) in all.iter().chain(headers) {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        let opened = server.block_on(tokio_tungstenite::connect_async(request));
        match opened {
            Ok((stream, response)) => Ok(Self {
                server,
                stream,
                chosen: response
                    .headers()
                    .get("Sec-WebSocket-Protocol")
                    .map(|value| value.to_str().unwrap().to_owned()),
            }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn send(&mut self, message: Message) {
        self.server.block_on(self.stream.send(message)).unwrap();
    }

    /// The next message that is no ping.
    pub(super) fn next(&mut self) -> Option<Message> {
        let stream = &mut self.stream;
        self.server.block_on(async {
            let next = async {
                loop {
                    match stream.next().await {
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(message)) => return Some(message),
                        Some(Err(_)) | None => return None,
                    }
                }
            };
            tokio::time::timeout(PATIENCE, next)
                .await
                .expect("waited in vain for a message")
        })
    }

    /// All data up to the end, and the code and the reason of the close.
    pub(super) fn rest(mut self) -> (Vec<Message>, Option<(u16, String)>) {
        let mut all = Vec::new();
        while let Some(message) = self.next() {
            if let Message::Close(close) = message {
                let close = close.map(|close| (close.code.into(), close.reason.to_string()));
                return (all, close);
            }
            all.push(message);
        }
        (all, None)
    }
}
