//! The gateway of a server, and the doors it has: one listener for each sandbox.
//!
//! ```text
//! box │ program ──▶ 127.0.0.1:3128          │ outside
//!     │             a listener that lives in │
//!     │             the box's namespace ─────┼─▶ accept ─▶ policy ─▶ connect ─▶ the world
//! ```
//!
//! Who a connection belongs to is known by the listener that it came through, and by nothing that
//! it says. The gateway itself listens nowhere.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_client_tls::{Roots, TrustError};
use rustls::ClientConfig;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::authority::CertificateAuthority;
use crate::connection::{Client, Session, serve_http};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::record::{Counters, Record, Refusal};
use crate::resolve::Resolve;
use crate::rules::Rules;
use crate::sandbox::{Sandbox, without_delay};
use crate::secret::SecretRule;
use crate::tasks::Tasks;
use crate::watched::{Activity, Watched};

/// How long nothing is accepted after the kernel had no descriptor to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What all sandboxes of a server share.
#[derive(Debug)]
pub struct Settings {
    pub rules: Rules,
    pub resolver: Arc<dyn Resolve>,
    /// Whom upstream servers must be vouched for by, where the gateway opens a tunnel.
    pub roots: Roots,
    pub authority: Arc<CertificateAuthority>,
}

#[derive(Debug, Error)]
pub enum GatewayError {
    #[error("could not set up TLS for the way out")]
    Tls(#[source] TrustError),
}

pub struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) rules: Rules,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) authority: Arc<CertificateAuthority>,
    pub(crate) upstream_tls: Arc<ClientConfig>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gateway")
            .field("rules", &self.shared.rules)
            .field("resolver", &self.shared.resolver)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    pub fn new(settings: Settings) -> Result<Self, GatewayError> {
        let upstream_tls = settings.roots.http_config().map_err(GatewayError::Tls)?;
        Ok(Self {
            shared: Arc::new(Shared {
                rules: settings.rules,
                resolver: settings.resolver,
                authority: settings.authority,
                upstream_tls: Arc::new(upstream_tls),
            }),
        })
    }

    /// Serves the sandbox behind `listener` until the handle is dropped. A new policy counts at
    /// once and ends what it does not allow; new secrets count for the next request. Refusals are
    /// logged in the span of the caller. Must be called within a tokio runtime.
    pub fn serve(
        &self,
        listener: TcpListener,
        policy: watch::Receiver<Arc<Policy>>,
        secrets: watch::Receiver<Arc<Vec<SecretRule>>>,
        limits: Limits,
    ) -> Handle {
        let sandbox = Arc::new(Sandbox {
            shared: Arc::clone(&self.shared),
            policy,
            secrets,
            record: Arc::new(Record::new(limits.refusals_kept)),
            lookups: Semaphore::new(limits.lookups),
            tasks: Tasks::new(),
            limits,
        });
        sandbox.tasks.spawn(accept(listener, Arc::clone(&sandbox)));
        Handle { sandbox }
    }
}

/// A sandbox that is served. Dropping it closes the listener and every connection.
pub struct Handle {
    sandbox: Arc<Sandbox>,
}

impl Handle {
    /// The last refusals, oldest first.
    pub fn recent_refusals(&self) -> Vec<Refusal> {
        self.sandbox.record.recent()
    }

    pub fn counters(&self) -> Counters {
        self.sandbox.record.counters()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handle")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.sandbox.tasks.close();
    }
}

async fn accept(listener: TcpListener, sandbox: Arc<Sandbox>) {
    let seats = Arc::new(Semaphore::new(sandbox.limits.connections));
    loop {
        // Taken before accepting: who finds no seat waits in the kernel's queue.
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let seat = Seat::new(seat, Arc::clone(&sandbox.record));
                let connection = serve_connection(Arc::clone(&sandbox), stream, seat);
                sandbox.tasks.spawn(connection);
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection of a sandbox");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One of the sandbox's connections, from its accept to the end of the last task that works on it.
pub(crate) struct Seat {
    _permit: OwnedSemaphorePermit,
    record: Arc<Record>,
}

impl Seat {
    fn new(permit: OwnedSemaphorePermit, record: Arc<Record>) -> Self {
        record.connections.fetch_add(1, Ordering::Relaxed);
        record.connections_open.fetch_add(1, Ordering::Relaxed);
        Self {
            _permit: permit,
            record,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.record.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_connection(sandbox: Arc<Sandbox>, stream: TcpStream, seat: Seat) {
    without_delay(&stream);
    let activity = Arc::new(Activity::new());
    let record = Arc::clone(&sandbox.record);
    let stream = Watched::new(stream, Arc::clone(&activity), record);
    let client = Client {
        sandbox,
        activity,
        _seat: Arc::new(seat),
    };
    serve_http(Session::of_proxy(client), stream).await;
}
