//! Connections of the server's own, to places that its users name: to public addresses only.
//!
//! **Invariant:** as for sandboxes, what is connected to is what the policy has just allowed; a name that leads elsewhere a second
//! time gains nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::gateway::Gateway;
use crate::host::Host;
use crate::policy::{Candidate, Policy, Reason, Verdict, decide};
use crate::sandbox::{CANDIDATES_MAX, place, without_delay};

#[derive(Debug, Error)]
pub enum DirectError {
    #[error("the place may not be reached")]
    Refused(#[from] Reason),
    #[error("could not {doing} `{host}`")]
    Failed {
        doing: &'static str,
        host: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`{host}` took too long")]
    TooLate { host: String },
}

impl Gateway {
    /// Connects to a public address of a host, and speaks TLS with it.
    pub async fn connect_tls(
        &self,
        host: &Host,
        port: u16,
        patience: Duration,
    ) -> Result<TlsStream<TcpStream>, DirectError> {
        let connected = timeout(patience, async {
            let stream = self.connect(host, port).await?;
            let failed = |source| failed("speak TLS with", host, source);
            let name = match host {
                Host::Name(name) => ServerName::try_from(name.clone())
                    .map_err(|error| failed(std::io::Error::other(error)))?,
                Host::Address(address) => ServerName::from(*address),
            };
            let connector = TlsConnector::from(Arc::clone(&self.shared.upstream_tls));
            connector.connect(name, stream).await.map_err(failed)
        });
        connected.await.unwrap_or_else(|_| {
            Err(DirectError::TooLate {
                host: host.to_string(),
            })
        })
    }

    async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, DirectError> {
        let addresses: Vec<IpAddr> = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self
                .shared
                .resolver
                .resolve(name)
                .await
                .map_err(|source| failed("find", host, source))?,
        };
        let candidates: Vec<Candidate> = addresses
            .into_iter()
            .take(CANDIDATES_MAX)
            .map(|address| Candidate {
                address,
                place: place(address),
            })
            .collect();
        let policy = Policy::unrestricted();
        let verdict = decide(&policy, &self.shared.rules, host, &candidates, port);
        let addresses = match verdict {
            Verdict::Allow { addresses, .. } => addresses,
            Verdict::Refuse(reason) => return Err(reason.into()),
        };
        let stream = TcpStream::connect(addresses.as_slice())
            .await
            .map_err(|source| failed("reach", host, source))?;
        without_delay(&stream);
        Ok(stream)
    }
}

fn failed(doing: &'static str, host: &Host, source: std::io::Error) -> DirectError {
    DirectError::Failed {
        doing,
        host: host.to_string(),
        source,
    }
}
