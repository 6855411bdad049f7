//! What nothing on this machine can be faster than: a process, and an answer over HTTP.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::routing::get;

use crate::http::Connection;

/// A server that does nothing but answer, made with what ours is made with.
#[derive(Debug)]
pub(crate) struct BareServer {
    runtime: tokio::runtime::Runtime,
    address: SocketAddr,
}

impl BareServer {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Runtime::new()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let app = Router::new().route("/health", get(|| async { "{\"status\":\"ok\"}" }));
        runtime.spawn(async move { axum::serve(listener, app).await });
        Ok(Self { runtime, address })
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, "")
    }

    pub(crate) fn stop(self) {
        self.runtime.shutdown_background();
    }
}

/// Starts `/bin/true` and waits for its end.
pub(crate) fn spawn_true() -> Result<Duration> {
    let begun = Instant::now();
    let status = Command::new("/bin/true")
        .stdin(Stdio::null())
        .status()
        .context("start /bin/true")?;
    if !status.success() {
        bail!("/bin/true ended with {status}");
    }
    Ok(begun.elapsed())
}

pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}
