//! A proxy, a server behind it that a test plays by hand, and clients that send what they like.

use std::net::SocketAddr;
use std::time::Duration;

use holm_stream_proxy::{Proxy, ProxyConfig, ProxyLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy before a server that the test plays.
pub(crate) struct Setting {
    pub(crate) server: TcpListener,
    pub(crate) proxy: SocketAddr,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Setting {
    pub(crate) async fn new() -> Self {
        Self::with(ProxyLimits::default()).await
    }

    pub(crate) async fn with(limits: ProxyLimits) -> Self {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let upstream = format!("http://{}", server.local_addr().unwrap());
        Self::before(server, &upstream, None, limits).await
    }

    /// The server is reached at an address of the test's choice.
    pub(crate) async fn before(
        server: TcpListener,
        upstream: &str,
        extra_roots_pem: Option<String>,
        limits: ProxyLimits,
    ) -> Self {
        let config = ProxyConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            upstream: upstream.parse().unwrap(),
            extra_roots_pem,
            limits,
        };
        let proxy = Proxy::listen(config).await.unwrap();
        let address = proxy.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(proxy.run(async { drop(stopped.await) }));
        Self {
            server,
            proxy: address,
            running: Some((stop, running)),
        }
    }

    pub(crate) async fn client(&self) -> Peer {
        Peer::new(TcpStream::connect(self.proxy).await.unwrap())
    }

    /// The next connection that the proxy makes.
    pub(crate) async fn accept(&self) -> Peer {
        let accepted = timeout(PATIENCE, self.server.accept()).await;
        Peer::new(accepted.unwrap().unwrap().0)
    }

    /// Nothing has come through.
    pub(crate) async fn assert_untouched(&self) {
        let accepted = timeout(Duration::from_millis(50), self.server.accept()).await;
        assert!(accepted.is_err(), "the server was reached");
    }

    pub(crate) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        stop.send(()).unwrap();
        timeout(PATIENCE, running).await.unwrap().unwrap();
    }
}

/// One side of a connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// Received, and not looked at.
    received: Vec<u8>,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Everything up to and with these bytes.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self
                .received
                .windows(end.len())
                .position(|window| window == end.as_bytes());
            if let Some(at) = found {
                let rest = self.received.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.received, rest);
                return String::from_utf8(taken).unwrap();
            }
            let mut buffer = [0; 4096];
            let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
            let count = read.unwrap().unwrap();
            let shown = String::from_utf8_lossy(&self.received).into_owned();
            assert!(count > 0, "the connection ended after {shown:?}");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    pub(crate) async fn head(&mut self) -> String {
        self.until("\r\n\r\n").await
    }

    /// What comes until the other side closes, or breaks off.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = std::mem::take(&mut self.received);
        let mut buffer = [0; 4096];
        while let Ok(count) = timeout(PATIENCE, self.stream.read(&mut buffer))
            .await
            .unwrap()
        {
            if count == 0 {
                break;
            }
            rest.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// The status of an answer.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}
