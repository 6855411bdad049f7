//! One connection of a sandbox, or what is inside a tunnel that was opened: requests one after the
//! other, each answered or passed on.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{Body, Failure};
use crate::forward::{Upstream, forward};
use crate::gateway::Seat;
use crate::sandbox::{Dialed, Sandbox};
use crate::target::{Origin, check_inside, of_absolute};
use crate::tunnel;
use crate::watched::Activity;

/// hyper takes no smaller buffer.
const BUFFER_BYTES_MIN: usize = 8 * 1024;
const HEADERS_MAX: usize = 128;

/// Who is being served; shared by everything that works on one connection of a sandbox.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) activity: Arc<Activity>,
    /// Held, not read: the connection counts until the last holder is gone.
    pub(crate) _seat: Arc<Seat>,
}

/// A sequence of requests that one client sends.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Where all requests go, inside a tunnel.
    inside: Option<Origin>,
    /// A connection that was made for the tunnel and waits for its first request.
    pub(crate) prepared: Mutex<Option<Dialed>>,
    /// The last connection to the outside, for the next request to the same origin.
    pub(crate) kept: Mutex<Option<Upstream>>,
}

impl Session {
    pub(crate) fn of_proxy(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            inside: None,
            prepared: Mutex::new(None),
            kept: Mutex::new(None),
        })
    }

    pub(crate) fn inside(client: Client, origin: Origin, prepared: Dialed) -> Arc<Self> {
        Arc::new(Self {
            client,
            inside: Some(origin),
            prepared: Mutex::new(Some(prepared)),
            kept: Mutex::new(None),
        })
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let record = Arc::clone(&self.client.sandbox.record);
        record.requests.fetch_add(1, Ordering::Relaxed);
        let (target, result) = self.route(request).await;
        match result {
            Ok(response) => response,
            Err(failure) => {
                if let Failure::Refused(reason) = &failure {
                    record.refused(&target, reason);
                }
                failure.respond(&target)
            }
        }
    }

    /// The answer, and the name of the place that was asked for.
    async fn route(&self, request: Request<Incoming>) -> (String, Result<Response<Body>, Failure>) {
        let (parts, body) = request.into_parts();
        let unusable = |error| ("the target".to_owned(), Err(Failure::Unusable(error)));
        if let Some(origin) = &self.inside {
            if let Err(error) = check_inside(&parts, origin) {
                return unusable(error);
            }
            let request = Request::from_parts(parts, body);
            let result = forward(self, origin, request).await;
            return (origin.destination.to_string(), result);
        }
        if parts.method == Method::CONNECT {
            let destination = match crate::target::of_connect(&parts) {
                Ok(destination) => destination,
                Err(error) => return unusable(error),
            };
            let request = Request::from_parts(parts, body);
            let result = tunnel::open(&self.client, &destination, request).await;
            return (destination.to_string(), result);
        }
        match of_absolute(&parts) {
            Ok(origin) => {
                let request = Request::from_parts(parts, body);
                let result = forward(self, &origin, request).await;
                (origin.destination.to_string(), result)
            }
            Err(error) => unusable(error),
        }
    }
}

/// Takes what is there; another request cannot be at work on it.
pub(crate) fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

pub(crate) fn put<T>(slot: &Mutex<Option<T>>, value: T) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

/// Serves requests on a stream until it ends or nothing has moved for too long.
pub(crate) async fn serve_http<S>(session: Arc<Session>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = session.client.clone();
    let limits = &client.sandbox.limits;
    let service = service_fn(move |request| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(BUFFER_BYTES_MIN))
        .max_headers(HEADERS_MAX)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection of a sandbox broke off");
            }
        }
        () = client.activity.idle(limits.idle_timeout) => {
            tracing::debug!("a connection of a sandbox was idle for too long");
        }
    }
}
