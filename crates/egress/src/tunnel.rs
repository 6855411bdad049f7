//! Tunnels: bytes in both directions, after a look at their beginning where something depends on it.
//!
//! ```text
//! CONNECT ─▶ allowed? ─▶ connected ─▶ 200 ─▶ neither a name nor a secret matters ─────▶ relay
//!               │            │           └─▶ look: SSH ───────────────────────────────▶ relay
//!               ▼            ▼                 ├─▶ TLS to the host asked for, no secret ─▶ relay
//!              403          502                ├─▶ TLS to the host asked for, a secret ─▶ requests
//!                                              ├─▶ plain HTTP ───────────────────────▶ requests
//!                                              └─▶ anything else, if a name decided ───▶ end
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Body, Failure, empty};
use crate::connection::{Client, Session, serve_http};
use crate::opening::{self, Protocol};
use crate::policy::{Grant, Reason};
use crate::sandbox::{Dialed, NameCheck, Way};
use crate::secret::{Scheme, wants_interception};
use crate::target::{Destination, Origin};
use crate::watched::Rewound;

/// A TLS alert: fatal, access denied. The only words that a client understands at this point.
const TLS_ACCESS_DENIED: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31];

/// Held for each direction of a tunnel.
const RELAY_BYTES: usize = 32 * 1024;

/// What is done with a tunnel that wants to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secret {
    Wanted,
    NotWanted,
}

pub(crate) async fn open(
    client: &Client,
    destination: &Destination,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    let dialed = client.sandbox.dial(destination).await?;
    let secrets = client.sandbox.current_secrets();
    let secret = match wants_interception(&secrets, &destination.host) {
        true => Secret::Wanted,
        false => Secret::NotWanted,
    };
    let client_side = hyper::upgrade::on(&mut request);
    client
        .sandbox
        .record
        .tunnels
        .fetch_add(1, Ordering::Relaxed);
    client
        .sandbox
        .tasks
        .spawn(run(client.clone(), dialed, secret, client_side));
    Ok(empty(StatusCode::OK))
}

/// Boxed, because what is inside a tunnel is served by what opens tunnels.
fn run(
    client: Client,
    dialed: Dialed,
    secret: Secret,
    client_side: OnUpgrade,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let wait = client.sandbox.limits.header_timeout;
        let stream = match timeout(wait, client_side).await {
            Ok(Ok(upgraded)) => TokioIo::new(upgraded),
            Ok(Err(_)) | Err(_) => return,
        };
        if secret == Secret::NotWanted && dialed.way.by != Grant::Domain {
            pass_on(&client, dialed, NameCheck::NotDone, stream).await;
            return;
        }
        look(client, dialed, secret, stream).await;
    })
}

async fn look<S>(client: Client, dialed: Dialed, secret: Secret, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &client.sandbox.limits;
    let reading = opening::read(&mut stream, limits.header_bytes);
    let Ok(Ok(opening)) = timeout(limits.header_timeout, reading).await else {
        return;
    };
    let host = &dialed.way.destination.host;
    let by_name = dialed.way.by == Grant::Domain;
    let objection = match &opening.protocol {
        Protocol::Tls { name: Some(name) } if name == host => None,
        Protocol::Tls { name: Some(name) } => Some(Reason::NameDiffers {
            asked: host.to_string(),
            found: name.to_string(),
        }),
        Protocol::Tls { name: None } | Protocol::Other if by_name => Some(Reason::NameUnknown),
        // Each request will be looked at.
        Protocol::Http => None,
        Protocol::Tls { name: None } | Protocol::Other | Protocol::Ssh => None,
    };
    if let Some(reason) = objection {
        let target = dialed.way.destination.to_string();
        client.sandbox.record.refused(&target, &reason);
        if matches!(opening.protocol, Protocol::Tls { .. }) {
            let told = timeout(limits.header_timeout, stream.write_all(&TLS_ACCESS_DENIED)).await;
            tracing::trace!(?told, "told a client that its tunnel is refused");
        }
        return;
    }
    let stream = Rewound::new(opening.bytes, stream);
    match opening.protocol {
        Protocol::Tls { .. } if secret == Secret::Wanted => stand_in(client, dialed, stream).await,
        Protocol::Http => serve_inside(client, dialed, Scheme::Http, stream).await,
        Protocol::Tls { name: Some(_) } | Protocol::Ssh => {
            pass_on(&client, dialed, NameCheck::Done, stream).await;
        }
        Protocol::Tls { name: None } | Protocol::Other => {
            pass_on(&client, dialed, NameCheck::NotDone, stream).await;
        }
    }
}

async fn pass_on<S>(client: &Client, dialed: Dialed, check: NameCheck, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Dialed {
        stream: outside,
        way,
    } = dialed;
    relay(client, &way, check, stream, outside).await;
}

/// Answers in place of the host, so that a secret can be put into the requests to it.
async fn stand_in<S>(client: Client, dialed: Dialed, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let sandbox = Arc::clone(&client.sandbox);
    let host = dialed.way.destination.host.clone();
    let config = match sandbox.shared.authority.server_config(&host) {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!(%error, %host, "could not stand in for a host");
            return;
        }
    };
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = match timeout(sandbox.limits.header_timeout, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, %host, "a program in the box does not trust the gateway");
            return;
        }
        Err(_) => return,
    };
    serve_inside(client, dialed, Scheme::Https, stream).await;
}

/// Serves the requests in a tunnel, which are all for its host.
async fn serve_inside<S>(client: Client, dialed: Dialed, scheme: Scheme, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let sandbox = Arc::clone(&client.sandbox);
    let way = dialed.way.clone();
    let origin = Origin {
        scheme,
        destination: way.destination.clone(),
    };
    let session = Session::inside(client, origin, dialed);
    tokio::select! {
        () = serve_http(session, stream) => {}
        () = sandbox.until_refused(&way, NameCheck::Done) => {}
    }
}

/// Copies in both directions until both have ended, nothing has moved for too long, or the policy
/// does not allow it any more.
pub(crate) async fn relay<I, O>(
    client: &Client,
    way: &Way,
    check: NameCheck,
    mut inside: I,
    mut outside: O,
) where
    I: AsyncRead + AsyncWrite + Unpin,
    O: AsyncRead + AsyncWrite + Unpin,
{
    let sandbox = &client.sandbox;
    tokio::select! {
        ended = copy_bidirectional_with_sizes(&mut inside, &mut outside, RELAY_BYTES, RELAY_BYTES) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a tunnel broke off");
            }
        }
        () = client.activity.idle(sandbox.limits.idle_timeout) => {
            tracing::debug!("a tunnel was idle for too long");
        }
        () = sandbox.until_refused(way, check) => {}
    }
}
