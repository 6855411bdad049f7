//! The host of a request, read strictly: a name or an address, and nothing that only some programs
//! take for an address.
//!
//! **Invariant:** a [`Host`] that is a name is lower-case ASCII without a final dot, and its last
//! label is no number. `0x7f.1` and `2130706433`, which C libraries read as 127.0.0.1, are refused
//! here, so that they never reach a resolver.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// The longest name in DNS, without the final dot.
const NAME_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Lower case, no final dot. International names are in their ASCII form (`xn--…`), which is
    /// compared as it stands.
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostError {
    #[error("the host is empty")]
    Empty,
    #[error("the host is longer than {NAME_LENGTH_MAX} characters")]
    TooLong,
    #[error("the host has a part that is empty or longer than {LABEL_LENGTH_MAX} characters")]
    BadLabel,
    #[error(
        "the host may have letters, digits, `-`, `_` and dots only; international names are given as `xn--…`"
    )]
    BadCharacter,
    #[error("an address is written as four decimal numbers (`192.0.2.1`) or as `[2001:db8::1]`")]
    BadAddress,
}

impl Host {
    /// Reads the host of a URL or of a `CONNECT`: without port, with brackets around IPv6.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::BadAddress)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::BadAddress)?;
            return Ok(Self::Address(IpAddr::V6(address)));
        }
        let name = parse_name(text)?;
        if ends_in_number(&name) {
            // Only the one form that everybody reads alike. The final dot is not part of it.
            let address: Ipv4Addr = text.parse().map_err(|_| HostError::BadAddress)?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(name))
    }

    /// The name, when it is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Checks a DNS name and brings it into the form that is compared.
pub(crate) fn parse_name(text: &str) -> Result<String, HostError> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if text.len() > NAME_LENGTH_MAX {
        return Err(HostError::TooLong);
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > LABEL_LENGTH_MAX {
            return Err(HostError::BadLabel);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !label.bytes().all(is_plain) {
            return Err(HostError::BadCharacter);
        }
    }
    Ok(text.to_ascii_lowercase())
}

/// Whether some program would read this as an IPv4 address: its last label is decimal or `0x…`.
pub(crate) fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Result<Host, HostError> {
        Ok(Host::Name(text.to_owned()))
    }

    #[test]
    fn names_have_one_form() {
        let cases = [
            ("example.com", name("example.com")),
            ("EXAMPLE.Com.", name("example.com")),
            ("localhost.", name("localhost")),
            ("xn--bcher-kva.example", name("xn--bcher-kva.example")),
            ("_dmarc.example.com", name("_dmarc.example.com")),
            ("1.2.3.4.example", name("1.2.3.4.example")),
            ("", Err(HostError::Empty)),
            (".", Err(HostError::Empty)),
            ("a..b", Err(HostError::BadLabel)),
            (".a", Err(HostError::BadLabel)),
            ("a b", Err(HostError::BadCharacter)),
            ("a%00b", Err(HostError::BadCharacter)),
            ("bücher.example", Err(HostError::BadCharacter)),
            ("user@example.com", Err(HostError::BadCharacter)),
            ("a\r\nb", Err(HostError::BadCharacter)),
        ];
        for (text, expected) in cases {
            assert_eq!(Host::parse(text), expected, "{text:?}");
        }
        assert_eq!(Host::parse(&"a.".repeat(130)), Err(HostError::TooLong));
        assert_eq!(Host::parse(&"a".repeat(64)), Err(HostError::BadLabel));
    }

    #[test]
    fn addresses_are_read_in_one_form_only() {
        let good = ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "8.8.8.8"];
        for text in good {
            assert!(matches!(Host::parse(text), Ok(Host::Address(_))), "{text}");
        }
        let bad = [
            "0x7f.1",
            "0x7F000001",
            "0x",
            "2130706433",
            "127.1",
            "127.0.0.1.",
            "0177.0.0.1",
            "127.0.0.01",
            "256.1.1.1",
            "[fe80::1%eth0]",
            "[::1",
            "[127.0.0.1]",
            "a.0x7f",
        ];
        for text in bad {
            assert_eq!(Host::parse(text), Err(HostError::BadAddress), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_read_is_read_again_as_itself(text in "\\PC{0,80}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
        }

        #[test]
        fn a_name_is_never_an_address_for_the_system(text in "[0-9a-fxX.]{1,20}") {
            if let Ok(Host::Name(name)) = Host::parse(&text) {
                prop_assert!(name.parse::<IpAddr>().is_err());
                prop_assert!(!ends_in_number(&name));
            }
        }
    }
}
