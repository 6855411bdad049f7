//! The names of the backends, and which of them exist.
//!
//! **Invariant:** a backend that is known but not built says so in the seeds' own words, and never falls back to
//! another one: whoever asked for a container must not get the bare host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// What carries a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// A git worktree on this machine.
    Local,
    /// A Daytona workspace.
    Daytona,
    /// A Docker container.
    Docker,
    /// A Dagger container.
    Dagger,
}

impl BackendKind {
    /// All backends, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Local, Self::Daytona, Self::Docker, Self::Dagger];

    /// The name as users write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Daytona => "daytona",
            Self::Docker => "docker",
            Self::Dagger => "dagger",
        }
    }

    /// The error with which a backend that does not exist yet is refused; `None` for one that does.
    #[must_use]
    pub fn not_yet_built(self) -> Option<SandboxError> {
        let message = match self {
            Self::Local | Self::Daytona => return None,
            Self::Docker => "Docker backend not yet available",
            Self::Dagger => "Dagger backend not yet available",
        };
        Some(SandboxError::NotYetBuilt { message })
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl FromStr for BackendKind {
    type Err = SandboxError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| SandboxError::UnknownBackend {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in BackendKind::ALL {
            assert_eq!(kind.to_string().parse::<BackendKind>().unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_name_is_named_and_the_known_ones_are_hinted() {
        let error = "podman".parse::<BackendKind>().unwrap_err();
        assert_eq!(error.to_string(), "unknown sandbox type: podman");
        assert_eq!(
            error.hint().unwrap(),
            "the sandbox types are: local, daytona, docker, dagger"
        );
    }

    #[test]
    fn ac_11_what_is_not_built_says_so_in_the_words_of_the_seeds() {
        let text = |kind: BackendKind| kind.not_yet_built().map(|error| error.to_string());
        assert_eq!(text(BackendKind::Local), None);
        assert_eq!(text(BackendKind::Daytona), None);
        assert_eq!(
            text(BackendKind::Docker).unwrap(),
            "Docker backend not yet available"
        );
        assert_eq!(
            text(BackendKind::Dagger).unwrap(),
            "Dagger backend not yet available"
        );
    }
}
