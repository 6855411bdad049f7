//! A way to a server's streams, and to nothing else: for boxes that may reach this machine and not the server.
//!
//! ```text
//! client ──▶ place (is it below the streams?) ──▶ headers ──▶ upstream ──▶ server
//!    ◀────────────────── bodies as they come, in both directions ──────────────┘
//! ```
//!
//! It forwards method, path, query, body and `Authorization` as they are. It verifies nothing, holds no secret, keeps
//! nothing, and knows nothing of Holm but where streams are.
//!
//! - A client's connection has one connection to the server, and shares it with nobody: nothing of one client can be taken
//!   for a part of another's.
//! - Everything has a limit: connections, headers, silence in either direction, and the time for an answer. Memory does
//!   not grow with bodies.

mod body;
mod headers;
mod patience;
mod place;
mod proxy;
mod upstream;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use holm_client_tls::TrustError;

pub use proxy::Proxy;
pub use upstream::Upstream;

/// Where to listen, and for whom.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    pub listen: SocketAddr,
    pub upstream: Upstream,
    /// Trusted besides the roots of this machine.
    pub extra_roots_pem: Option<String>,
    pub limits: ProxyLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// At once; more wait in the kernel.
    pub connections_max: usize,
    /// All headers of a request together, or of an answer.
    pub header_bytes_max: usize,
    /// Until the headers of a request are there, also the next one's on the same connection.
    pub header_patience: Duration,
    pub connect_patience: Duration,
    /// From the end of a request to the beginning of its answer: longer than servers let a long poll wait.
    pub answer_patience: Duration,
    /// In the middle of a request's body, and of a client that does not take its answer.
    pub client_silence: Duration,
    /// In the middle of an answer's body: longer than servers let server-sent events be quiet.
    pub server_silence: Duration,
    /// For requests in flight, when the proxy stops.
    pub drain: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            header_bytes_max: 64 * 1024,
            header_patience: Duration::from_secs(30),
            connect_patience: Duration::from_secs(10),
            answer_patience: Duration::from_secs(120),
            client_silence: Duration::from_secs(60),
            server_silence: Duration::from_secs(120),
            drain: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("`{text}` is no address of a server: {problem}")]
    Upstream { text: String, problem: &'static str },
    #[error("could not listen at {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("could not make ready to speak TLS with the server")]
    Tls(#[from] TrustError),
}

impl ProxyError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Upstream { .. } => Some(
                "write it as `https://holm.example.org`: the paths of requests are added to it as they are",
            ),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("something else listens there; choose another port, or port 0 for any")
            }
            Self::Listen { .. } | Self::Tls(_) => None,
        }
    }
}
