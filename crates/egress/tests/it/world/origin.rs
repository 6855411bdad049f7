//! Servers in the outside world: one that says what it was asked, with and without TLS, one that
//! returns every byte, and one that only writes down.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use holm_egress::Roots;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// TLS as a program in the box speaks it, trusting one authority.
pub(crate) async fn speak_tls(
    trusted_pem: &str,
    name: &str,
    stream: TcpStream,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let roots = Roots::none().with_pem(trusted_pem).unwrap();
    let mut config = roots.client_config().unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// A server whose tasks end with the test's runtime.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Everything that came in, for the server that writes down.
    pub(crate) heard: Arc<Mutex<Vec<u8>>>,
}

impl Origin {
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// `name:port`.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{name}:{}", self.port())
    }

    pub(crate) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    async fn start<F, T>(serve: F) -> Self
    where
        F: Fn(TcpStream, Arc<Mutex<Vec<u8>>>) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            heard: Arc::default(),
        };
        let connections = Arc::clone(&origin.connections);
        let heard = Arc::clone(&origin.heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&heard)));
            }
        });
        origin
    }

    pub(crate) async fn http() -> Self {
        Self::start(|stream, _| answer(stream)).await
    }

    pub(crate) async fn https(config: &Arc<ServerConfig>) -> Self {
        let acceptor = TlsAcceptor::from(Arc::clone(config));
        Self::start(move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream).await;
                }
            }
        })
        .await
    }

    /// Returns what it gets.
    pub(crate) async fn echo() -> Self {
        Self::start(|mut stream, _| async move {
            let (mut reader, mut writer) = stream.split();
            tokio::io::copy(&mut reader, &mut writer).await.ok();
        })
        .await
    }

    /// Says the same bytes to every head, and closes.
    pub(crate) async fn saying(answer: &'static str) -> Self {
        Self::start(move |mut stream, _| async move {
            crate::world::read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.ok();
        })
        .await
    }

    /// Writes down what it gets, and answers each read with an empty response.
    pub(crate) async fn scribe() -> Self {
        Self::start(|mut stream, heard| async move {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                heard.lock().unwrap().extend_from_slice(&buffer[..count]);
                if buffer[..count].ends_with(b"\n") {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(answer).await.ok();
                }
            }
        })
        .await
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(respond))
        .with_upgrades();
    connection.await.ok();
}

async fn respond(mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.headers().contains_key("upgrade") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(upgraded) = upgrade.await {
                let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
                tokio::io::copy(&mut reader, &mut writer).await.ok();
            }
        });
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
            .headers_mut()
            .insert("connection", "upgrade".parse().unwrap());
        response
            .headers_mut()
            .insert("upgrade", "websocket".parse().unwrap());
        return Ok(response);
    }
    match request.uri().path() {
        "/endless" => Ok(Response::new(endless())),
        // Sends back the body as it comes, so that both directions are open at once.
        "/mirror" => {
            let body = request.into_body().map_err(|error| panic!("{error}"));
            Ok(Response::new(body.boxed_unsync()))
        }
        _ => Ok(Response::new(
            Full::from(describe(request).await).boxed_unsync(),
        )),
    }
}

/// The request in words.
async fn describe(request: Request<Incoming>) -> String {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        text += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
    }
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    text + "\n" + &String::from_utf8_lossy(&body)
}

fn endless() -> Body {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let block = Bytes::from(vec![b'x'; 64 * 1024]);
        while sender.send(block.clone()).await.is_ok() {}
    });
    let stream = Blocks(receiver);
    StreamBody::new(stream).boxed_unsync()
}

struct Blocks(tokio::sync::mpsc::Receiver<Bytes>);

impl futures_core::Stream for Blocks {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let next = self.0.poll_recv(context);
        next.map(|block| block.map(|bytes| Ok(Frame::data(bytes))))
    }
}
