//! Connections, from the first byte to the last.
//!
//! ```text
//! accept ──▶ (TLS handshake) ──▶ requests ──▶ closed
//!    ▲                             │  └──▶ taken over by a WebSocket or a tunnel
//!    └── as many as the limit      └── told to finish when the server stops
//! ```
//!
//! - A connection counts until its socket is closed, also after it was taken over.
//! - Headers have to be there in time, and a connection that is idle for as long is closed: before a request was read,
//!   so a client may safely send it again.
//! - A request that was read is answered, unless the drain at the end takes too long.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::config::ServerLimits;
use crate::metrics::{Metrics, OpenGuard};

const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the kernel holds for a client that takes nothing, beside what is on its way. It would be megabytes otherwise, all of them read for
/// nobody; those who take what they get are sent as much as before.
const UNSENT_BYTES_MAX: u32 = 256 * 1024;

/// Connections that the kernel keeps for us: a burst of clients is not turned away.
const BACKLOG: u32 = 4_096;

/// How far the end of the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    NotYet,
    /// No more requests; those that were read are answered.
    Drain,
    /// At once.
    Cut,
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Whether a connection whose client takes nothing is given up. A request that is answered with more than fits into buffers asks for it;
/// terminals and tunnels may be as quiet as they like.
#[derive(Debug, Clone, Default)]
pub(crate) struct WritePatience(Arc<AtomicBool>);

impl WritePatience {
    pub(crate) fn limit(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn lift(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn is_limited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What connections are served with.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) app: App,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) limits: ServerLimits,
    pub(crate) metrics: Arc<Metrics>,
}

/// Takes an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A server that starts again need not wait for connections of its earlier life to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the server stops, and returns when all of them have ended.
pub(crate) async fn run(listener: TcpListener, serving: Serving, mut stop: watch::Receiver<Stop>) {
    let permits = Arc::new(Semaphore::new(serving.limits.connections_max));
    let connections = TaskTracker::new();
    let mut stopping = stop.clone();
    let mut stopped = pin!(reached(&mut stopping, Stop::Drain));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut stopped => break,
        };
        let (stream, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let counted = Counted {
            inner: stream,
            _permit: permit,
            _open: serving.metrics.connection_opened(),
            patience: WritePatience::default(),
            silence_max: serving.limits.silence_max,
            stuck: None,
        };
        let serving = serving.clone();
        let mut cut = stop.clone();
        let stop = stop.clone();
        connections.spawn(async move {
            tokio::select! {
                () = serving.connection(counted, peer, stop) => {}
                () = reached(&mut cut, Stop::Cut) => {}
            }
        });
    }
    drop(listener);
    connections.close();
    let ended = tokio::time::timeout(serving.limits.drain, connections.wait());
    tokio::select! {
        ended = ended => if ended.is_err() {
            tracing::warn!(connections = connections.len(), "requests were cut off at the shutdown");
        },
        () = reached(&mut stop, Stop::Cut) => {}
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Never closed. Without a permit nothing is accepted: more connections wait in the kernel.
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    // Answers are written whole; waiting for more to send only delays them.
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    Ok((stream, peer, permit))
}

/// Waits until the server is to stop in this way, or its handle is gone.
pub(crate) async fn reached(stop: &mut watch::Receiver<Stop>, wanted: Stop) {
    let is_reached = |now: &Stop| *now == wanted || *now == Stop::Cut;
    drop(stop.wait_for(is_reached).await);
}

impl Serving {
    async fn connection(
        self,
        stream: Counted<TcpStream>,
        peer: SocketAddr,
        stop: watch::Receiver<Stop>,
    ) {
        let patience = stream.patience.clone();
        match &self.tls {
            None => self.requests(stream, peer, patience, stop).await,
            // Apart, because it is large: connections without it need not have its size.
            Some(tls) => Box::pin(self.over_tls(tls, stream, peer, stop)).await,
        }
    }

    async fn over_tls(
        &self,
        tls: &TlsAcceptor,
        stream: Counted<TcpStream>,
        peer: SocketAddr,
        stop: watch::Receiver<Stop>,
    ) {
        let patience = stream.patience.clone();
        match tokio::time::timeout(HANDSHAKE_PATIENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.requests(stream, peer, patience, stop).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
        }
    }

    async fn requests<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        patience: WritePatience,
        mut stop: watch::Receiver<Stop>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let app = self.app.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            patience.lift();
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(patience.clone());
            // In memory of its own, which is free again while an answer goes on: most connections only wait.
            let answer = Box::pin(app.clone().answer(request.map(Body::new)));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_patience)
            .max_buf_size(self.limits.header_bytes_max)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = reached(&mut stop, Stop::Drain) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    }
}

/// A socket that counts as a connection until it is closed, whoever has it then.
#[derive(Debug)]
struct Counted<S> {
    inner: S,
    _permit: OwnedSemaphorePermit,
    _open: OpenGuard,
    patience: WritePatience,
    silence_max: Duration,
    /// Since when the client takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Counted<S> {
    /// Gives a write up that has waited for too long.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() || !self.patience.is_limited() {
            self.stuck = None;
            return written;
        }
        let silence_max = self.silence_max;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(silence_max)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
