//! Passes one request on to its origin, and the response back; bodies stream in both directions.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::answer::{Body, Failure};
use crate::connection::{Client, Session, put, take};
use crate::headers::{strip, wanted_upgrade};
use crate::sandbox::{Dialed, NameCheck, Sandbox, Way};
use crate::secret::Scheme;
use crate::substitute::{SubstituteError, substitute};
use crate::target::Origin;
use crate::tunnel::relay;

/// The end of a response reaches the connection's own task a moment later.
const REUSE_WAIT: Duration = Duration::from_millis(50);

/// A connection to an origin, to send requests on.
#[derive(Debug)]
pub(crate) struct Upstream {
    origin: Origin,
    way: Way,
    sender: SendRequest<Incoming>,
}

pub(crate) async fn forward(
    session: &Session,
    origin: &Origin,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    let sandbox = &session.client.sandbox;
    let upgrade = wanted_upgrade(request.headers());
    let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    rewrite(&mut parts, origin, upgrade)?;
    let secrets = sandbox.current_secrets();
    substitute(
        &secrets,
        origin.scheme,
        &origin.destination.host,
        &mut parts,
    )
    .map_err(|error| match error {
        SubstituteError::Refused(reason) => Failure::Refused(reason),
        SubstituteError::Invalid { .. } => Failure::Outside(error.to_string()),
    })?;
    let (mut response, way) = send(session, origin, Request::from_parts(parts, body)).await?;

    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client_side) = client_side else {
            let problem = "it changed the protocol without being asked".to_owned();
            return Err(Failure::Outside(problem));
        };
        let server_side = hyper::upgrade::on(&mut response);
        let client = session.client.clone();
        let joined = join(client, way, client_side, server_side);
        sandbox.tasks.spawn(joined);
        // These headers are the upgrade.
        return Ok(response.map(Either::Right));
    }
    strip(response.headers_mut());
    Ok(response.map(Either::Right))
}

/// Brings a request into the form in which an origin gets it.
fn rewrite(
    parts: &mut Parts,
    origin: &Origin,
    upgrade: Option<HeaderValue>,
) -> Result<(), Failure> {
    strip(&mut parts.headers);
    let host = HeaderValue::try_from(origin.host_header())
        .map_err(|error| Failure::Outside(error.to_string()))?;
    parts.headers.insert(HOST, host);
    if let Some(protocol) = upgrade {
        parts
            .headers
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, protocol);
    }
    let path = parts.uri.path_and_query().cloned();
    parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    parts.version = Version::HTTP_11;
    Ok(())
}

async fn send(
    session: &Session,
    origin: &Origin,
    mut request: Request<Incoming>,
) -> Result<(Response<Incoming>, Way), Failure> {
    let outside = |error: hyper::Error| Failure::Outside(with_causes(&error));
    if let Some(mut upstream) = reusable(session, origin).await {
        match upstream.sender.try_send_request(request).await {
            Ok(response) => {
                let way = upstream.way.clone();
                put(&session.kept, upstream);
                return Ok((response, way));
            }
            // The origin closed the connection before it saw anything of the request.
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(outside(error.into_error())),
            },
        }
    }
    let mut upstream = open(session, origin).await?;
    let response = upstream
        .sender
        .send_request(request)
        .await
        .map_err(outside)?;
    let way = upstream.way.clone();
    put(&session.kept, upstream);
    Ok((response, way))
}

/// The connection of the request before, if it leads there, is free, and is still allowed.
async fn reusable(session: &Session, origin: &Origin) -> Option<Upstream> {
    let mut upstream = take(&session.kept)?;
    let sandbox = &session.client.sandbox;
    if upstream.origin != *origin || sandbox.objection(&upstream.way, NameCheck::Done).is_some() {
        return None;
    }
    timeout(REUSE_WAIT, upstream.sender.ready())
        .await
        .ok()?
        .ok()?;
    Some(upstream)
}

async fn open(session: &Session, origin: &Origin) -> Result<Upstream, Failure> {
    let client = &session.client;
    let sandbox = &client.sandbox;
    let dialed = match take(&session.prepared) {
        Some(dialed) if sandbox.objection(&dialed.way, NameCheck::Done).is_none() => dialed,
        Some(_) | None => sandbox.dial(&origin.destination).await?,
    };
    let Dialed { stream, way } = dialed;
    let sender = match origin.scheme {
        Scheme::Http => start(client, &way, stream).await?,
        Scheme::Https => {
            let stream = encrypt(sandbox, origin, stream).await?;
            start(client, &way, stream).await?
        }
    };
    Ok(Upstream {
        origin: origin.clone(),
        way,
        sender,
    })
}

/// Speaks TLS with the origin and checks who it is.
async fn encrypt(
    sandbox: &Sandbox,
    origin: &Origin,
    stream: tokio::net::TcpStream,
) -> Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>, Failure> {
    let name = origin.destination.host.to_string();
    let server = ServerName::try_from(name)
        .map_err(|error| Failure::Outside(format!("no name for TLS: {error}")))?;
    let connector = TlsConnector::from(Arc::clone(&sandbox.shared.upstream_tls));
    let handshake = connector.connect(server, stream);
    match timeout(sandbox.limits.connect_timeout, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Failure::Outside(format!("TLS: {error}"))),
        Err(_) => Err(Failure::TooLate("the TLS handshake did not end".to_owned())),
    }
}

/// Starts HTTP/1.1 on a connection, which ends when the policy does not allow it any more.
async fn start<S>(client: &Client, way: &Way, stream: S) -> Result<SendRequest<Incoming>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Failure::Outside(with_causes(&error)))?;
    let (way, held) = (way.clone(), client.clone());
    client.sandbox.tasks.spawn(async move {
        tokio::select! {
            ended = connection.with_upgrades() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to the outside broke off");
                }
            }
            () = held.sandbox.until_refused(&way, NameCheck::Done) => {}
        }
    });
    Ok(sender)
}

/// Joins both sides after a change of protocol.
async fn join(client: Client, way: Way, client_side: OnUpgrade, server_side: OnUpgrade) {
    let both = async { tokio::try_join!(client_side, server_side) };
    match timeout(client.sandbox.limits.header_timeout, both).await {
        Ok(Ok((inside, outside))) => {
            let (inside, outside) = (TokioIo::new(inside), TokioIo::new(outside));
            relay(&client, &way, NameCheck::Done, inside, outside).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a change of protocol broke off"),
        Err(_) => tracing::debug!("a change of protocol did not end"),
    }
}

/// hyper says what it did; the reason is in its sources.
fn with_causes(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
