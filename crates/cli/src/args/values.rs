//! Values of flags, read by the rules of the library. What is wrong is told by how to write it right.

use std::time::Duration;

use clap::ValueEnum;
use holm_sandbox::{SandboxError, parse_bytes, parse_cpus, parse_duration};
use holm_sandbox_backends::local::{IsolationChoice, Nesting};
use holm_sandbox_linux::Network;

/// The engine refuses less; refused here, the message can name the flag.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
const CPU_MILLIS_MIN: u32 = 10;

/// How a command is kept apart from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// Namespaces where the machine allows them; otherwise none, with a warning
    Auto,
    /// A box of its own: files, processes, users and network apart from the machine's
    Namespaces,
    /// Nothing: the command can do everything that you can
    None,
}

impl From<Isolation> for IsolationChoice {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Auto => Self::Auto,
            Isolation::Namespaces => Self::Namespaces,
            Isolation::None => Self::None,
        }
    }
}

/// Where a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxKind {
    /// On this machine
    Local,
    /// At a server with Daytona's API: its cloud, or `holm serve`
    Daytona,
}

/// What a command can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkPolicy {
    /// Only the sandbox itself
    None,
    /// All that the machine reaches, and all that listens on it
    Host,
}

impl From<NetworkPolicy> for Network {
    fn from(policy: NetworkPolicy) -> Self {
        match policy {
            NetworkPolicy::None => Self::None,
            NetworkPolicy::Host => Self::Host,
        }
    }
}

/// Which system calls a command may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// No namespaces and no mounts inside
    Strict,
    /// As strict, but a sandbox such as bubblewrap works inside
    Nested,
}

impl From<Profile> for Nesting {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Strict => Self::Forbidden,
            Profile::Nested => Self::Allowed,
        }
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err("it must be more than nothing".to_owned()),
        other => other.map_err(how_to_write),
    }
}

pub(crate) fn memory_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(bytes) if bytes < MEMORY_BYTES_MIN => {
            Err("it must be at least 1m, which a shell needs to start".to_owned())
        }
        other => other.map_err(how_to_write),
    }
}

pub(crate) fn cpu_millis(text: &str) -> Result<u32, String> {
    match parse_cpus(text) {
        Ok(millis) if millis < CPU_MILLIS_MIN => {
            Err("it must be at least 0.01, which is the kernel's least".to_owned())
        }
        other => other.map_err(how_to_write),
    }
}

/// clap says itself which value of which flag is wrong.
fn how_to_write(error: SandboxError) -> String {
    error.hint().unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_tell_the_right_form() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            duration("0s"),
            Err("it must be more than nothing".to_owned())
        );
        assert!(duration("90").unwrap_err().starts_with("write it as"));
        assert!(memory_bytes("much").unwrap_err().starts_with("write it as"));
        assert!(memory_bytes("1k").unwrap_err().contains("at least 1m"));
        assert_eq!(memory_bytes("1m"), Ok(1 << 20));
        assert!(cpu_millis("0.001").unwrap_err().contains("at least 0.01"));
        assert!(cpu_millis("0").unwrap_err().starts_with("write it as"));
    }
}
