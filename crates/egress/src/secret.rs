//! A secret that a sandbox may use and not have: the sandbox holds a placeholder, and the gateway
//! puts the value in its place on the way to the hosts that are named.
//!
//! **Invariant:** a value leaves [`Hidden`] only in `substitute`, on its way to a host of its rule.
//! `Debug` of everything here shows no value.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::host::Host;
use crate::lists::{DomainError, DomainPattern};

/// Shorter placeholders would be found in requests by accident.
const PLACEHOLDER_LENGTH_MIN: usize = 8;
const PLACEHOLDER_LENGTH_MAX: usize = 256;
/// What fits into the header of a request at most servers.
const VALUE_LENGTH_MAX: usize = 8 * 1024;

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The text itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[hidden]")
    }
}

/// How a request travels to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A place that a secret may be sent to: `api.example.com` or `*.example.com` by https, and
/// `http://intranet.example` in clear text, because it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHost {
    scheme: Scheme,
    pattern: DomainPattern,
}

impl FromStr for SecretHost {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let (scheme, name) = if let Some(name) = text.strip_prefix("http://") {
            (Scheme::Http, name)
        } else {
            (Scheme::Https, text.strip_prefix("https://").unwrap_or(text))
        };
        let pattern = name.parse()?;
        Ok(Self { scheme, pattern })
    }
}

impl fmt::Display for SecretHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Http => write!(formatter, "http://{}", self.pattern),
            Scheme::Https => write!(formatter, "{}", self.pattern),
        }
    }
}

/// One secret: what stands for it, what it is, and where it may go. Without hosts it goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    placeholder: String,
    value: Hidden,
    hosts: Vec<SecretHost>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    #[error(
        "the placeholder `{placeholder}` must have {PLACEHOLDER_LENGTH_MIN} to {PLACEHOLDER_LENGTH_MAX} letters, digits, `-`, `_`, `.` or `~`"
    )]
    BadPlaceholder { placeholder: String },
    #[error(
        "the value of the secret `{placeholder}` must have 1 to {VALUE_LENGTH_MAX} bytes and no control characters such as line breaks"
    )]
    BadValue { placeholder: String },
    #[error("the host `{host}` of the secret `{placeholder}` is not usable")]
    BadHost {
        placeholder: String,
        host: String,
        #[source]
        source: DomainError,
    },
}

/// Whether a rule's secret may go to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    Yes,
    /// The host is right, but only encrypted.
    OnlyEncrypted,
    No,
}

impl SecretRule {
    pub fn new<'a>(
        placeholder: impl Into<String>,
        value: Hidden,
        hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SecretError> {
        let placeholder = placeholder.into();
        // These characters look the same in a header, in a URL and in an environment variable.
        let is_unreserved =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        let is_length =
            (PLACEHOLDER_LENGTH_MIN..=PLACEHOLDER_LENGTH_MAX).contains(&placeholder.len());
        if !is_length || !placeholder.bytes().all(is_unreserved) {
            return Err(SecretError::BadPlaceholder { placeholder });
        }
        let text = value.expose();
        let is_value =
            (1..=VALUE_LENGTH_MAX).contains(&text.len()) && !text.contains(char::is_control);
        if !is_value {
            return Err(SecretError::BadValue { placeholder });
        }
        let mut parsed = Vec::new();
        for host in hosts {
            let usable = host.parse().map_err(|source| SecretError::BadHost {
                placeholder: placeholder.clone(),
                host: host.to_owned(),
                source,
            })?;
            parsed.push(usable);
        }
        Ok(Self {
            placeholder,
            value,
            hosts: parsed,
        })
    }

    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    pub(crate) fn value(&self) -> &Hidden {
        &self.value
    }

    pub(crate) fn passage(&self, scheme: Scheme, host: &Host) -> Passage {
        let mut passage = Passage::No;
        for place in self
            .hosts
            .iter()
            .filter(|place| place.pattern.matches(host))
        {
            // Who allows clear text allows encryption to the same host.
            if scheme == Scheme::Https || place.scheme == Scheme::Http {
                return Passage::Yes;
            }
            passage = Passage::OnlyEncrypted;
        }
        passage
    }
}

/// Whether an encrypted tunnel to this host must be opened to put a secret in.
pub(crate) fn wants_interception(rules: &[SecretRule], host: &Host) -> bool {
    let wants = |rule: &SecretRule| rule.passage(Scheme::Https, host) == Passage::Yes;
    rules.iter().any(wants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(hosts: &[&str]) -> SecretRule {
        let value = Hidden::new("sk-real");
        SecretRule::new("dtn_secret_abc", value, hosts.iter().copied()).unwrap()
    }

    fn passage(hosts: &[&str], scheme: Scheme, host: &str) -> Passage {
        rule(hosts).passage(scheme, &Host::parse(host).unwrap())
    }

    #[test]
    fn where_a_secret_may_go() {
        use Passage::{No, OnlyEncrypted, Yes};
        use Scheme::{Http, Https};
        let cases: [(&[&str], Scheme, &str, Passage); 9] = [
            (&["api.example.com"], Https, "api.example.com", Yes),
            (&["https://api.example.com"], Https, "API.example.com.", Yes),
            (&["api.example.com"], Http, "api.example.com", OnlyEncrypted),
            (&["http://api.example.com"], Http, "api.example.com", Yes),
            (&["http://api.example.com"], Https, "api.example.com", Yes),
            (&["*.example.com"], Https, "a.example.com", Yes),
            (&["*.example.com"], Https, "example.com", No),
            (&["api.example.com"], Https, "api.example.com.evil.org", No),
            (&[], Https, "api.example.com", No),
        ];
        for (hosts, scheme, host, expected) in cases {
            assert_eq!(passage(hosts, scheme, host), expected, "{hosts:?} {host}");
        }
    }

    #[test]
    fn bad_rules_are_refused_without_their_value() {
        let make = |placeholder: &str, value: &str, host: &str| {
            SecretRule::new(placeholder, Hidden::new(value), [host]).unwrap_err()
        };
        let errors = [
            make("short", "sk-real", "a.b"),
            make("with space in it", "sk-real", "a.b"),
            make("dtn_secret_abc", "sk-real\r\nX: y", "a.b"),
            make("dtn_secret_abc", "", "a.b"),
            make("dtn_secret_abc", "sk-real", "a.b:443"),
            make("dtn_secret_abc", "sk-real", "10.0.0.1"),
        ];
        for error in errors {
            assert!(!format!("{error} {error:?}").contains("sk-real"));
        }
    }

    #[test]
    fn nothing_printed_holds_the_value() {
        let rules = vec![rule(&["a.b", "http://c.d"])];
        let printed = format!("{rules:?} {:#?} {:?}", rules, Hidden::new("sk-real"));
        assert!(!printed.contains("sk-real"));
        assert!(printed.contains("[hidden]"));
    }
}
