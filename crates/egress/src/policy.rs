//! Whether a sandbox may reach a place: a function of plain data.
//!
//! | policy | reaches |
//! | --- | --- |
//! | `Blocked` | nothing |
//! | `Open`, no list | every public address |
//! | `Open`, `networks` | the addresses in them, by whatever name |
//! | `Open`, `domains` | the names in them, at their public addresses |
//! | `Open`, both | what either of them allows |
//!
//! A private address is reached only when `networks` names it, also when a name in `domains` leads
//! to it. Loopback, link-local, multicast and the like are never reached, and neither are the
//! places where the server itself listens; see [`crate::Rules`].
//!
//! **Invariant:** the decision is made on the addresses that the name has led to, and only the
//! addresses in the verdict are connected to. A name that leads elsewhere the second time gains
//! nothing, because nobody asks a second time.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::address::{Kind, canonical, kind};
use crate::host::Host;
use crate::lists::{DomainPattern, Ipv4Net, ListError, parse_domains, parse_networks};
use crate::rules::Rules;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    Blocked,
    Open {
        networks: Option<Vec<Ipv4Net>>,
        domains: Option<Vec<DomainPattern>>,
    },
}

impl Policy {
    /// Every public address.
    pub fn unrestricted() -> Self {
        Self::Open {
            networks: None,
            domains: None,
        }
    }

    /// Reads the texts of a sandbox's network settings; an empty text is no list.
    pub fn from_lists(network_list: &str, domain_list: &str) -> Result<Self, ListError> {
        Ok(Self::Open {
            networks: parse_networks(network_list)?,
            domains: parse_domains(domain_list)?,
        })
    }
}

/// An address that a host has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub address: IpAddr,
    pub place: Place,
}

/// Where an address is, as the kernel's routes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Elsewhere,
    /// An address of the machine that the server runs on: treated like a private one.
    ThisHost,
}

/// What made a place reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// No list restricts.
    Unrestricted,
    /// The name; so the name must also be the one that is spoken to.
    Domain,
    /// The addresses.
    Network,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow {
        addresses: Vec<SocketAddr>,
        by: Grant,
    },
    Refuse(Reason),
}

/// Why something was refused, in words for whoever sits in the sandbox. No text here can hold a
/// secret's value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    #[error("all network access of this sandbox is blocked; set `networkBlockAll` to false")]
    Blocked,
    #[error(
        "the name is not in `domainAllowList`; add it there, or its addresses to `networkAllowList`"
    )]
    NameNotListed,
    #[error("the address {address} is not in `networkAllowList`; add `{address}/32` there")]
    AddressNotListed { address: IpAddr },
    #[error(
        "the address {address} is IPv6 and `networkAllowList` has IPv4 only; add the name to `domainAllowList`"
    )]
    SixNotListed { address: IpAddr },
    #[error("{address} is an address of a private network; it must be named in `networkAllowList`")]
    Private { address: IpAddr },
    #[error("{address} is {what}; no setting allows it")]
    Forbidden { address: IpAddr, what: &'static str },
    #[error("{address} is where the server itself listens; no setting allows it")]
    Own { address: SocketAddr },
    #[error("the name leads to no address")]
    NoAddress,
    #[error(
        "the TLS connection names `{found}`, but the tunnel was opened to `{asked}`; both must be the same"
    )]
    NameDiffers { asked: String, found: String },
    #[error(
        "the tunnel does not begin with TLS that names its server, nor with HTTP or SSH, so `domainAllowList` cannot be checked; add the address to `networkAllowList`"
    )]
    NameUnknown,
    #[error(
        "the secret `{placeholder}` would travel in clear text; use https, or give the secret the host `http://{host}`"
    )]
    ClearTextSecret { placeholder: String, host: String },
}

/// What can be said before a name is resolved. Asking about a name already tells its servers
/// something, so a name that cannot be allowed is not asked for.
pub fn refuse_unresolved(policy: &Policy, host: &Host) -> Option<Reason> {
    match policy {
        Policy::Blocked => Some(Reason::Blocked),
        Policy::Open {
            networks: None,
            domains: Some(domains),
        } if !domains.iter().any(|domain| domain.matches(host)) => Some(Reason::NameNotListed),
        Policy::Open { .. } => None,
    }
}

/// Decides on the addresses that `host` has led to.
pub fn decide(
    policy: &Policy,
    rules: &Rules,
    host: &Host,
    candidates: &[Candidate],
    port: u16,
) -> Verdict {
    if let Some(reason) = refuse_unresolved(policy, host) {
        return Verdict::Refuse(reason);
    }
    let Policy::Open { networks, domains } = policy else {
        return Verdict::Refuse(Reason::Blocked);
    };
    let is_listed = domains
        .as_ref()
        .is_some_and(|domains| domains.iter().any(|domain| domain.matches(host)));
    let by = match (is_listed, networks) {
        (true, _) => Grant::Domain,
        (false, Some(_)) => Grant::Network,
        (false, None) => Grant::Unrestricted,
    };
    let mut addresses = Vec::new();
    let mut all_named = Named::Yes;
    let mut first_reason = None;
    for candidate in candidates {
        let named = is_in(networks.as_deref(), candidate.address);
        match judge(rules, candidate, by, named, port) {
            Ok(address) => {
                addresses.push(address);
                if named == Named::No {
                    all_named = Named::No;
                }
            }
            Err(reason) => {
                first_reason.get_or_insert(reason);
            }
        }
    }
    if !addresses.is_empty() {
        // Where the addresses are enough, nothing depends on the name.
        let by = match all_named {
            Named::Yes => Grant::Network,
            Named::No => by,
        };
        return Verdict::Allow { addresses, by };
    }
    Verdict::Refuse(first_reason.unwrap_or(Reason::NoAddress))
}

/// Whether `networkAllowList` names the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Yes,
    No,
}

fn is_in(networks: Option<&[Ipv4Net]>, address: IpAddr) -> Named {
    let IpAddr::V4(four) = canonical(address) else {
        return Named::No;
    };
    match networks.is_some_and(|networks| networks.iter().any(|network| network.contains(four))) {
        true => Named::Yes,
        false => Named::No,
    }
}

fn judge(
    rules: &Rules,
    candidate: &Candidate,
    by: Grant,
    named: Named,
    port: u16,
) -> Result<SocketAddr, Reason> {
    let address = canonical(candidate.address);
    let destination = SocketAddr::new(address, port);
    if rules.is_own(destination, candidate.place) {
        return Err(Reason::Own {
            address: destination,
        });
    }
    let needs_naming = match kind(address) {
        Kind::Forbidden(what) => return Err(Reason::Forbidden { address, what }),
        Kind::Loopback if rules.permits_loopback() => false,
        Kind::Loopback => {
            let what = "the loopback of the server";
            return Err(Reason::Forbidden { address, what });
        }
        Kind::Private => true,
        Kind::Public => candidate.place == Place::ThisHost,
    };
    match (named, by) {
        (Named::Yes, _) => Ok(destination),
        (Named::No, Grant::Network) if address.is_ipv6() => Err(Reason::SixNotListed { address }),
        (Named::No, Grant::Network) => Err(Reason::AddressNotListed { address }),
        (Named::No, Grant::Unrestricted | Grant::Domain) if needs_naming => {
            Err(Reason::Private { address })
        }
        (Named::No, Grant::Unrestricted | Grant::Domain) => Ok(destination),
    }
}

#[cfg(test)]
mod tests;
