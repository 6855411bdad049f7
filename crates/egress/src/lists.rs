//! The two lists of a sandbox's network settings, as their comma-separated text and as values.
//!
//! `networkAllowList` holds IPv4 networks with their prefix length, `domainAllowList` holds names;
//! at most [`ENTRIES_MAX`] each. An empty text is no list: nothing is restricted by it.
//!
//! `*.example.com` covers every name below `example.com`, at any depth, and not `example.com`
//! itself: who wants both gives both. (Daytona's documentation shows the form and does not say.)

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use thiserror::Error;

use crate::host::{Host, HostError, ends_in_number, parse_name};

/// How many entries a list may have.
pub const ENTRIES_MAX: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    #[error("`{list}` has {count} entries; {ENTRIES_MAX} are allowed")]
    TooMany { list: &'static str, count: usize },
    #[error(
        "`{list}` has an empty entry; separate entries with one comma and leave the text empty for no list"
    )]
    EmptyEntry { list: &'static str },
    #[error("`networkAllowList` entry `{entry}` is not usable")]
    Network {
        entry: String,
        #[source]
        source: NetworkError,
    },
    #[error("`domainAllowList` entry `{entry}` is not usable")]
    Domain {
        entry: String,
        #[source]
        source: DomainError,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NetworkError {
    #[error("the prefix length is missing; write `/32` after a single address")]
    PrefixMissing,
    #[error("the prefix length is a number from 0 to 32")]
    BadPrefix,
    #[error("the address is four decimal numbers with dots; IPv6 is not supported here")]
    BadAddress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DomainError {
    #[error("`*.` stands once and in front, before a name such as `example.com`")]
    BadWildcard,
    #[error("an address is no domain; put it into `networkAllowList`")]
    IsAddress,
    #[error("a domain is a name alone, without scheme, port or path")]
    NotOnlyAName,
    #[error("the name is not valid")]
    Name(#[source] HostError),
}

/// An IPv4 network. Bits of the address behind the prefix are ignored, as Daytona does
/// (`192.168.1.0/16` is in its own examples).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Net {
    network: Ipv4Addr,
    prefix_length: u32,
}

impl Ipv4Net {
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.network.to_bits()
    }

    fn mask(self) -> u32 {
        mask(self.prefix_length)
    }
}

fn mask(prefix_length: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix_length).unwrap_or(0)
}

impl FromStr for Ipv4Net {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').ok_or(NetworkError::PrefixMissing)?;
        let address: Ipv4Addr = address.parse().map_err(|_| NetworkError::BadAddress)?;
        let is_short_number =
            matches!(prefix.len(), 1 | 2) && prefix.bytes().all(|byte| byte.is_ascii_digit());
        if !is_short_number {
            return Err(NetworkError::BadPrefix);
        }
        let prefix_length: u32 = prefix.parse().map_err(|_| NetworkError::BadPrefix)?;
        if prefix_length > 32 {
            return Err(NetworkError::BadPrefix);
        }
        Ok(Self {
            network: Ipv4Addr::from_bits(address.to_bits() & mask(prefix_length)),
            prefix_length,
        })
    }
}

impl fmt::Display for Ipv4Net {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.prefix_length)
    }
}

/// A name, or all names below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainPattern {
    Exactly(String),
    Below(String),
}

impl DomainPattern {
    pub fn matches(&self, host: &Host) -> bool {
        let Some(name) = host.name() else {
            return false;
        };
        match self {
            Self::Exactly(domain) => name == domain,
            Self::Below(domain) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|front| front.len() > 1 && front.ends_with('.')),
        }
    }
}

impl FromStr for DomainPattern {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let (domain, is_wildcard) = match text.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (text, false),
        };
        if domain.contains('*') {
            return Err(DomainError::BadWildcard);
        }
        if domain.parse::<std::net::IpAddr>().is_ok() {
            return Err(DomainError::IsAddress);
        }
        if domain.contains(['/', ':', '@', '?', '#']) {
            return Err(DomainError::NotOnlyAName);
        }
        let name = parse_name(domain).map_err(DomainError::Name)?;
        if ends_in_number(&name) {
            return Err(DomainError::IsAddress);
        }
        Ok(match is_wildcard {
            true => Self::Below(name),
            false => Self::Exactly(name),
        })
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(domain) => formatter.write_str(domain),
            Self::Below(domain) => write!(formatter, "*.{domain}"),
        }
    }
}

/// Reads a `networkAllowList`; `None` when the text is empty.
pub fn parse_networks(text: &str) -> Result<Option<Vec<Ipv4Net>>, ListError> {
    parse_list("networkAllowList", text, |entry| {
        entry.parse().map_err(|source| ListError::Network {
            entry: entry.to_owned(),
            source,
        })
    })
}

/// Reads a `domainAllowList`; `None` when the text is empty.
pub fn parse_domains(text: &str) -> Result<Option<Vec<DomainPattern>>, ListError> {
    parse_list("domainAllowList", text, |entry| {
        entry.parse().map_err(|source| ListError::Domain {
            entry: entry.to_owned(),
            source,
        })
    })
}

fn parse_list<T>(
    list: &'static str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, ListError>,
) -> Result<Option<Vec<T>>, ListError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let entries: Vec<&str> = text.split(',').map(str::trim).collect();
    if entries.len() > ENTRIES_MAX {
        let count = entries.len();
        return Err(ListError::TooMany { list, count });
    }
    if entries.contains(&"") {
        return Err(ListError::EmptyEntry { list });
    }
    let values: Result<Vec<T>, ListError> = entries.into_iter().map(parse).collect();
    values.map(Some)
}

#[cfg(test)]
mod tests;
