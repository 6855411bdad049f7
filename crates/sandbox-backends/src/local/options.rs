//! What a caller chooses when making a local sandbox.

use std::path::PathBuf;

use holm_sandbox_linux::{Limits, Network};

use super::record::Stay;

/// A sandbox to be made.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    pub source: Source,
    pub isolation: IsolationChoice,
    pub network: Network,
    /// Whether an agent's own sandbox (bubblewrap) must work inside.
    pub nesting: Nesting,
    pub limits: Limits,
    pub stay: Stay,
    /// A name for a sandbox that stays.
    pub name: Option<String>,
}

/// Where the files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An empty folder that ends with the sandbox.
    Empty,
    /// A folder of the host, worked on in place.
    Directory(PathBuf),
    /// A worktree of a git repository on a new branch.
    Repository {
        path: PathBuf,
        branch: Option<String>,
    },
}

/// How commands are kept apart from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationChoice {
    /// Namespaces where the host allows them, otherwise none, with a warning.
    Auto,
    Namespaces,
    None,
}

/// Whether a sandbox may be made inside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    Forbidden,
    Allowed,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            source: Source::Empty,
            isolation: IsolationChoice::Auto,
            network: Network::None,
            nesting: Nesting::Forbidden,
            limits: Limits::default(),
            stay: Stay::Throwaway,
            name: None,
        }
    }
}
