//! What can go wrong with a box's group.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("`{name}` cannot name a group (letters, digits, `_`, `-` and inner dots, at most 128)")]
    InvalidName { name: String },
    #[error("a limit of {value} is too small for {limit} (at least {value_min})")]
    InvalidLimit {
        limit: super::LimitKind,
        value: u64,
        value_min: u64,
    },
    #[error("a group named `{name}` exists already")]
    AlreadyExists { name: String },
    #[error("there is no group named `{name}`")]
    NotFound { name: String },
    /// The host gave this box no group that could do it.
    #[error("this host's cgroups cannot {operation}")]
    Unsupported { operation: &'static str },
    #[error("could not {operation} group `{}` within {seconds} seconds", path.display())]
    TimedOut {
        operation: &'static str,
        path: PathBuf,
        seconds: u64,
    },
    #[error("could not {operation} `{}`", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}
