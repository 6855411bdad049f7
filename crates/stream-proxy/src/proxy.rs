//! Connections of clients, from the first byte to the last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::http::uri::PathAndQuery;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{BodyError, Flowing};
use crate::patience::Patient;
use crate::upstream::Connector;
use crate::{ProxyConfig, ProxyError, ProxyLimits, headers, place};

/// What the protocol of streams uses.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::OPTIONS,
];
/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The last answer's end may still be on its way when the next request comes.
const REUSE_WAIT: Duration = Duration::from_millis(100);

type Answer = Response<UnsyncBoxBody<Bytes, BodyError>>;

/// A proxy that listens.
#[derive(Debug)]
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    connector: ConnectorHandle,
    limits: ProxyLimits,
}

/// Hides what cannot be shown.
#[derive(Clone)]
struct ConnectorHandle(Arc<Connector>);

impl std::fmt::Debug for ConnectorHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Connector")
    }
}

impl Proxy {
    pub async fn listen(config: ProxyConfig) -> Result<Self, ProxyError> {
        let failed = |source| ProxyError::Listen {
            address: config.listen,
            source,
        };
        let connector = Connector::new(
            config.upstream,
            config.extra_roots_pem.as_deref(),
            config.limits,
        )?;
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            connector: ConnectorHandle(Arc::new(connector)),
            limits: config.limits,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is told to stop; requests in flight may end then, for a while.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let permits = Arc::new(Semaphore::new(self.limits.connections_max));
        let connections = TaskTracker::new();
        let stopping = CancellationToken::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.listener, &permits) => accepted,
                () = &mut stop => break,
            };
            let (stream, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let session = Session {
                connector: Arc::clone(&self.connector.0),
                limits: self.limits,
                kept: Mutex::default(),
            };
            let stream = Patient::new(stream, self.limits.client_silence, permit);
            connections.spawn(serve(stream, session, stopping.clone()));
        }
        drop(self.listener);
        stopping.cancel();
        connections.close();
        if timeout(self.limits.drain, connections.wait())
            .await
            .is_err()
        {
            tracing::debug!(connections = connections.len(), "connections are cut off");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    // Without a permit nothing is accepted: more connections wait in the kernel.
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

async fn serve(stream: Patient, session: Session, stopping: CancellationToken) {
    let limits = session.limits;
    let session = Arc::new(session);
    let service = service_fn(move |request| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_patience)
        .max_buf_size(limits.header_bytes_max)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// One client's connection, and the one to the server that belongs to it.
struct Session {
    connector: Arc<Connector>,
    limits: ProxyLimits,
    kept: Mutex<Option<SendRequest<Flowing>>>,
}

/// Why there is no answer of the server's own.
#[derive(Debug)]
enum Failure {
    Unreachable,
    /// Somebody is there who does not prove to be the server.
    Untrusted,
    Late,
    /// The client did not send what it announced.
    Unfinished,
    Broken,
}

impl Session {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if !METHODS.contains(request.method()) {
            let mut answer = refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "streams know no such method",
            );
            let allowed = METHODS.map(|method| method.to_string()).join(", ");
            if let Ok(allowed) = allowed.parse() {
                answer.headers_mut().insert(hyper::header::ALLOW, allowed);
            }
            return answer;
        }
        if !place::is_below_streams(request.uri().path()) {
            return refusal(
                StatusCode::NOT_FOUND,
                "no_stream",
                "this proxy leads to streams only: below /v1/stream/ and /api/stream/, by names that need no `..`, `//` or encoded slashes",
            );
        }
        match self.forward(request).await {
            Ok(answer) => answer,
            Err(failure) => describe(&failure),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Answer, Failure> {
        let (mut parts, body) = request.into_parts();
        headers::for_server(&mut parts.headers, self.connector.authority());
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        parts.version = Version::HTTP_11;
        let (body, ended) = Flowing::watched(body, self.limits.client_silence);
        let request = Request::from_parts(parts, body);
        let late = async {
            // An error means that the body is gone, which is its end.
            drop(ended.await);
            tokio::time::sleep(self.limits.answer_patience).await;
        };
        let mut response = tokio::select! {
            response = self.send(request) => response?,
            () = late => return Err(Failure::Late),
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // Nobody asked for it.
            return Err(Failure::Broken);
        }
        headers::for_client(response.headers_mut());
        let silence_max = self.limits.server_silence;
        Ok(response.map(|body| Flowing::new(body, silence_max).boxed_unsync()))
    }

    async fn send(&self, mut request: Request<Flowing>) -> Result<Response<Incoming>, Failure> {
        if let Some(mut sender) = self.reusable().await {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    *self.kept() = Some(sender);
                    return Ok(response);
                }
                // The server closed the connection before it saw anything of the request.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(&error.into_error())),
                },
            }
        }
        let mut sender = self.connector.connect().await.map_err(|error| {
            tracing::warn!(error = chain(&error), "the server is not reached");
            if holm_client_tls::is_untrusted(&error) {
                Failure::Untrusted
            } else {
                Failure::Unreachable
            }
        })?;
        let sent = sender.send_request(request).await;
        let response = sent.map_err(|error| broken(&error))?;
        *self.kept() = Some(sender);
        Ok(response)
    }

    async fn reusable(&self) -> Option<SendRequest<Flowing>> {
        let mut sender = self.kept().take()?;
        timeout(REUSE_WAIT, sender.ready()).await.ok()?.ok()?;
        Some(sender)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<SendRequest<Flowing>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What broke off: the client's body, or the server.
fn broken(error: &hyper::Error) -> Failure {
    tracing::debug!(error = chain(error), "a request broke off");
    let is_silence = std::iter::successors(Some(error as &dyn std::error::Error), |error| {
        error.source()
    })
    .any(|cause| matches!(cause.downcast_ref(), Some(BodyError::Silence(_))));
    if is_silence {
        Failure::Unfinished
    } else {
        Failure::Broken
    }
}

fn describe(failure: &Failure) -> Answer {
    match failure {
        Failure::Unreachable => refusal(
            StatusCode::BAD_GATEWAY,
            "server_unreachable",
            "the server behind this proxy is not reached; see whether it runs. The proxy's log says more. Try again later: nothing was sent to it",
        ),
        Failure::Untrusted => refusal(
            StatusCode::BAD_GATEWAY,
            "server_untrusted",
            "whoever answers behind this proxy has no certificate that the proxy's machine trusts: nothing was sent to it. Whoever runs the proxy adds the root of the server's certificate to that machine, or names its file in SSL_CERT_FILE",
        ),
        Failure::Late => refusal(
            StatusCode::GATEWAY_TIMEOUT,
            "server_late",
            "the server behind this proxy did not answer in time; it may have done what was asked",
        ),
        Failure::Unfinished => refusal(
            StatusCode::REQUEST_TIMEOUT,
            "body_unfinished",
            "the body of the request did not come to its end",
        ),
        Failure::Broken => refusal(
            StatusCode::BAD_GATEWAY,
            "server_broke_off",
            "the server behind this proxy broke off; it may have done what was asked",
        ),
    }
}

/// In the form in which servers refuse requests about streams.
fn refusal(status: StatusCode, code: &str, message: &str) -> Answer {
    let text = serde_json::json!({ "error": { "code": code, "message": message } }).to_string();
    let body = Full::from(text).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    answer
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, json);
    answer
}

/// One line of all causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
