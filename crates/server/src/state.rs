//! What all handlers share.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::HOST;
use holm_store::Store;
use holm_thread_log::StreamStore;
use tokio::sync::watch;

use crate::accept::Stop;
use crate::buffers::Buffers;
use crate::builds::Builds;
use crate::config::ServerConfig;
use crate::known_keys::KnownKeys;
use crate::metrics::Metrics;
use crate::sandboxes::Sandboxes;
use crate::streams::access::Gate;
use crate::streams::body::Bodies;
use crate::streams::pages::Pages;
use crate::streams::subscriptions::Keeper;
use crate::threads::Threads;
use crate::tokens::Shares;

/// The server, as handlers see it. Cheap to clone.
pub(crate) type AppState = Arc<Shared>;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) known_keys: KnownKeys,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) builds: Arc<Builds>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) buffers: Buffers,
    /// Where SSH is served.
    pub(crate) ssh: Option<SocketAddr>,
    /// Where streams are kept.
    pub(crate) streams: Arc<dyn StreamStore>,
    pub(crate) threads: Arc<Threads>,
    /// What threads add to streams.
    pub(crate) gate: Arc<dyn Gate>,
    /// The memory for what is added to them.
    pub(crate) bodies: Bodies,
    /// The memory for what is long in them.
    pub(crate) pages: Pages,
    /// What those who have tokens and tickets may occupy.
    pub(crate) shares: Shares,
    /// Those who are woken when streams have grown.
    pub(crate) subscriptions: Arc<Keeper>,
    /// How far the end of the server is: those who wait for streams need not wait any longer.
    pub(crate) stopping: watch::Receiver<Stop>,
}

impl Shared {
    /// How clients reach us: over TLS, by our own files or by those of a proxy before us.
    pub(crate) fn scheme(&self) -> &'static str {
        let is_https = match &self.config.public_url {
            Some(url) => url.starts_with("https://"),
            None => self.config.tls.is_some(),
        };
        if is_https { "https" } else { "http" }
    }

    /// Where a port of a sandbox is found, by its id or a signed token.
    pub(crate) fn preview_url(&self, port: u16, name: &str) -> String {
        let domain = crate::preview::domain(&self.config);
        format!("{}://{port}-{name}.{domain}", self.scheme())
    }

    /// What the client of this request calls us: an address that works for it.
    pub(crate) fn public_url(&self, headers: &HeaderMap) -> String {
        if let Some(url) = &self.config.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let scheme = self.scheme();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        match host.filter(|host| is_authority(host)) {
            Some(host) => format!("{scheme}://{host}"),
            None => format!("{scheme}://{}", self.config.listen),
        }
    }
}

/// Whether a `Host` header is a name and a port, and nothing that could change the meaning of an address.
fn is_authority(host: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    !host.is_empty() && host.len() <= 255 && host.bytes().all(is_fine)
}
