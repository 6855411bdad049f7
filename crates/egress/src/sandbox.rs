//! One sandbox as the gateway knows it, and the only way out of it: [`Sandbox::dial`].
//!
//! **Invariant:** every connection of a sandbox to the outside is made here, to an address that the
//! policy has just allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::answer::Failure;
use crate::gateway::Shared;
use crate::host::Host;
use crate::limits::Limits;
use crate::policy::{Candidate, Grant, Place, Policy, Reason, Verdict, decide, refuse_unresolved};
use crate::record::Record;
use crate::secret::SecretRule;
use crate::target::Destination;
use crate::tasks::Tasks;

/// A name may lead to any number of addresses; more than these are not looked at.
pub(crate) const CANDIDATES_MAX: usize = 16;

pub(crate) struct Sandbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) policy: watch::Receiver<Arc<Policy>>,
    pub(crate) secrets: watch::Receiver<Arc<Vec<SecretRule>>>,
    pub(crate) limits: Limits,
    pub(crate) record: Arc<Record>,
    pub(crate) lookups: Semaphore,
    pub(crate) tasks: Tasks,
}

/// A connection to the outside that was allowed.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) stream: TcpStream,
    pub(crate) way: Way,
}

/// Where a connection leads and why; enough to ask again when the policy changes.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) destination: Destination,
    candidate: Candidate,
    pub(crate) by: Grant,
}

/// Whether the name that is spoken to was seen to be the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameCheck {
    Done,
    NotDone,
}

impl Sandbox {
    pub(crate) fn current_secrets(&self) -> Arc<Vec<SecretRule>> {
        Arc::clone(&self.secrets.borrow())
    }

    fn current_policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(crate) async fn dial(&self, destination: &Destination) -> Result<Dialed, Failure> {
        let policy = self.current_policy();
        if let Some(reason) = refuse_unresolved(&policy, &destination.host) {
            return Err(Failure::Refused(reason));
        }
        let candidates = self.candidates(&destination.host).await?;
        // The policy may have changed while the name was looked up.
        let policy = self.current_policy();
        let (host, port) = (&destination.host, destination.port);
        let verdict = decide(&policy, &self.shared.rules, host, &candidates, port);
        let (addresses, by) = match verdict {
            Verdict::Allow { addresses, by } => (addresses, by),
            Verdict::Refuse(reason) => return Err(Failure::Refused(reason)),
        };
        let (stream, address) = self.connect(&addresses).await?;
        let candidate = Candidate {
            address: address.ip(),
            place: place(address.ip()),
        };
        let way = Way {
            destination: destination.clone(),
            candidate,
            by,
        };
        Ok(Dialed { stream, way })
    }

    async fn candidates(&self, host: &Host) -> Result<Vec<Candidate>, Failure> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.look_up(name).await?,
        };
        let candidate = |address| Candidate {
            address,
            place: place(address),
        };
        let looked_at = addresses.into_iter().take(CANDIDATES_MAX);
        Ok(looked_at.map(candidate).collect())
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Failure> {
        let found = timeout(self.limits.connect_timeout, async {
            let _permit = self.lookups.acquire().await;
            self.shared.resolver.resolve(name).await
        });
        match found.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(Failure::Outside(format!(
                "its name has no address: {error}"
            ))),
            Err(_) => Err(Failure::TooLate("its name was not resolved".to_owned())),
        }
    }

    /// Tries the addresses in their order; each gets its share of the time.
    async fn connect(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failure> {
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let share = self.limits.connect_timeout / count;
        let mut failure = Failure::Refused(Reason::NoAddress);
        for &address in addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    without_delay(&stream);
                    return Ok((stream, address));
                }
                Ok(Err(error)) => failure = Failure::Outside(format!("{address}: {error}")),
                Err(_) => failure = Failure::TooLate(format!("{address} does not answer")),
            }
        }
        Err(failure)
    }

    /// Whether the policy of this moment allows what an earlier one did.
    pub(crate) fn objection(&self, way: &Way, check: NameCheck) -> Option<Reason> {
        let policy = self.current_policy();
        let destination = &way.destination;
        let candidates = [way.candidate];
        let rules = &self.shared.rules;
        match decide(
            &policy,
            rules,
            &destination.host,
            &candidates,
            destination.port,
        ) {
            Verdict::Refuse(reason) => Some(reason),
            // Nobody looked at the name when the tunnel began, and now only the name allows it.
            Verdict::Allow {
                by: Grant::Domain, ..
            } if check == NameCheck::NotDone => Some(Reason::NameUnknown),
            Verdict::Allow { .. } => None,
        }
    }

    /// Ends when a policy comes that does not allow this way any more, and says so in the record.
    pub(crate) async fn until_refused(&self, way: &Way, check: NameCheck) {
        let mut policy = self.policy.clone();
        policy.mark_changed();
        while policy.changed().await.is_ok() {
            if let Some(reason) = self.objection(way, check) {
                self.record.refused(&way.destination.to_string(), &reason);
                return;
            }
        }
        // Whoever could change the policy is gone.
        std::future::pending::<()>().await;
    }
}

/// Small writes are what a proxy has; waiting to join them only delays. A stream that cannot be told
/// so works all the same.
pub(crate) fn without_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
}

/// Asks the kernel whether an address is one of this machine's, without sending anything: only
/// those can be bound to, except where the administrator allows all.
pub(crate) fn place(address: IpAddr) -> Place {
    let foreign = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    let is_bindable = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    let is_own_source = || {
        let unspecified = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
            socket.connect((address, 9))?;
            socket.local_addr()
        });
        source.is_ok_and(|source| source.ip() == address)
    };
    if is_bindable(address) && !is_bindable(foreign) || is_own_source() {
        Place::ThisHost
    } else {
        Place::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_its_addresses() {
        assert_eq!(place("127.0.0.1".parse().unwrap()), Place::ThisHost);
        assert_eq!(place("127.9.9.9".parse().unwrap()), Place::ThisHost);
        assert_eq!(place("8.8.8.8".parse().unwrap()), Place::Elsewhere);
        assert_eq!(place("2606:4700::1".parse().unwrap()), Place::Elsewhere);
    }
}
