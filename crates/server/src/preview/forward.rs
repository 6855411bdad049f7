//! One request, to a program in a box and back.

use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, Version};
use axum::response::Response;
use holm_sandbox_linux::EngineError;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use super::{headers, page};
use crate::accept::Peer;
use crate::machines::{ActivityGuard, Machine};
use crate::sandboxes::Sandbox;
use crate::state::AppState;

/// All headers of an answer together.
const HEADER_BYTES_MAX: usize = 256 * 1024;
const SKIP_ACTIVITY: &str = "x-daytona-skip-last-activity-update";

/// Why there is no answer of the program's own.
enum Failure {
    NothingListens,
    /// It listens, and what it does is not HTTP.
    Unintelligible,
    TooSlow,
}

/// Passes a request on, and its answer back.
pub(super) async fn forward(
    state: &AppState,
    mut parts: Parts,
    body: Body,
    sandbox: &Arc<Sandbox>,
    port: u16,
) -> Response {
    let machine = match sandbox.machine() {
        Ok(machine) => machine,
        Err(error) => {
            return page::of_parts(&parts, StatusCode::SERVICE_UNAVAILABLE, &error.message);
        }
    };
    let skips = parts
        .headers
        .remove(SKIP_ACTIVITY)
        .is_some_and(|value| value == "true");
    let awake = (!skips).then(|| sandbox.activity.begin());
    let wanted = headers::is_upgrade(&parts.headers);
    let ours = parts.extensions.remove::<OnUpgrade>().filter(|_| wanted);
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    headers::for_box(&mut parts.headers, peer, state.scheme());
    parts.version = Version::HTTP_11;
    let shown = parts.clone();
    let request = Request::from_parts(parts, body);
    let patience = state.config.limits.preview_patience;
    let answered = tokio::time::timeout(patience, exchange(&machine, port, request)).await;
    let answered = answered
        .unwrap_or(Err(Failure::TooSlow))
        .and_then(|response| back(response, ours, awake).ok_or(Failure::Unintelligible));
    answered.unwrap_or_else(|failure| {
        let (status, message) = describe(&failure, port);
        page::of_parts(&shown, status, &message)
    })
}

fn describe(failure: &Failure, port: u16) -> (StatusCode, String) {
    match failure {
        Failure::NothingListens => (
            StatusCode::BAD_GATEWAY,
            format!(
                "Nothing listens on port {port} in this sandbox. Start a program that listens on 127.0.0.1:{port} \
                 or 0.0.0.0:{port}, and ask again."
            ),
        ),
        Failure::Unintelligible => (
            StatusCode::BAD_GATEWAY,
            format!("What listens on port {port} in this sandbox did not answer with HTTP/1.1."),
        ),
        Failure::TooSlow => (
            StatusCode::GATEWAY_TIMEOUT,
            format!("What listens on port {port} in this sandbox did not answer in time."),
        ),
    }
}

/// A connection of its own for each request: nothing of one can be taken for part of another.
async fn exchange(
    machine: &Arc<Machine>,
    port: u16,
    request: Request,
) -> Result<hyper::Response<Incoming>, Failure> {
    let connecting = Arc::clone(machine);
    let connected = tokio::task::spawn_blocking(move || connecting.inner().connect(port)).await;
    let socket = match connected {
        Ok(Ok(socket)) => socket,
        Ok(Err(EngineError::NothingListens { .. })) => return Err(Failure::NothingListens),
        Ok(Err(error)) => {
            tracing::debug!(
                port,
                error = crate::error::chain(&error),
                "no connection into a box"
            );
            return Err(Failure::TooSlow);
        }
        Err(_) => return Err(Failure::TooSlow),
    };
    let stream = tokio::net::TcpStream::from_std(TcpStream::from(socket));
    let stream = stream.map_err(|_| Failure::Unintelligible)?;
    // Small frames of a WebSocket are not to wait for each other.
    drop(stream.set_nodelay(true));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEADER_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Failure::Unintelligible)?;
    // Ends with the answer's body, or when it is dropped.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.map_err(|error| {
        tracing::debug!(
            port,
            error = crate::error::chain(&error),
            "no answer from a box"
        );
        Failure::Unintelligible
    })
}

/// The answer for the client. None: the program agreed to what was not asked.
fn back(
    mut response: hyper::Response<Incoming>,
    ours: Option<OnUpgrade>,
    awake: Option<ActivityGuard>,
) -> Option<Response> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        headers::for_client(response.headers_mut());
        let kept = |body| {
            Body::new(Kept {
                body,
                _awake: awake,
            })
        };
        return Some(response.map(kept));
    }
    let ours = ours.filter(|_| headers::is_upgrade(response.headers()))?;
    let theirs = hyper::upgrade::on(&mut response);
    headers::for_client_upgrade(response.headers_mut());
    tokio::spawn(async move {
        let _awake = awake;
        if let Ok((ours, theirs)) = tokio::try_join!(ours, theirs) {
            tunnel(ours, theirs).await;
        }
    });
    Some(response.map(|_| Body::empty()))
}

/// Hands bytes on in both directions until one side has enough.
async fn tunnel(ours: Upgraded, theirs: Upgraded) {
    let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
    // Sides that hang up in the middle are usual.
    let _ended = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
}

/// A body that keeps its sandbox awake.
#[derive(Debug)]
struct Kept {
    body: Incoming,
    _awake: Option<ActivityGuard>,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
