//! What can go wrong in a sandbox, as one type.
//!
//! Every variant names the step and its subject. A cause is carried as `source` and never repeated in the text, so a
//! printed chain says each thing once. [`SandboxError::kind`] is what callers map to exit codes and HTTP status;
//! [`SandboxError::hint`] is what a user can do about it.
//!
//! **Invariant:** text that came from outside is printed without control characters, so that an error cannot redraw
//! the terminal or forge a second log line.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// The result of every operation of the contract.
pub type Result<T, E = SandboxError> = std::result::Result<T, E>;

/// A failed sandbox operation.
///
/// A command that ran and failed is not an error: it is an [`ExecOutcome`](crate::ExecOutcome) with its exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A path would leave the directory it is confined to.
    #[error(
        "path confinement violation: `{}` is outside base directory `{}`",
        printable_path(.path),
        printable_path(.base)
    )]
    PathConfinement {
        /// The path as the caller gave it.
        path: PathBuf,
        /// The directory it must stay in.
        base: PathBuf,
    },

    /// The name of an environment variable could be read as something else by a shell.
    #[error("Invalid env key \"{}\" — must match [A-Za-z_][A-Za-z0-9_]*", printable(.key))]
    InvalidEnvKey {
        /// The refused name.
        key: String,
    },

    /// There is no program to run.
    #[error("Empty argv")]
    EmptyArgv,

    /// The kernel ends strings at a NUL, so what follows it would be dropped silently.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// Which input it was, for example `an argument`.
        what: &'static str,
    },

    /// This backend does not have the operation; see [`Capabilities`](crate::Capabilities).
    #[error("this sandbox does not support `{operation}`")]
    Unsupported {
        /// The method of the trait.
        operation: &'static str,
    },

    /// Nothing is at this path.
    #[error("`{}` does not exist in the sandbox", printable_path(.path))]
    NotFound {
        /// The path as the caller gave it.
        path: PathBuf,
    },

    /// A regular file was needed.
    #[error("`{}` is not a regular file", printable_path(.path))]
    NotAFile {
        /// The path as the caller gave it.
        path: PathBuf,
    },

    /// A directory was needed.
    #[error("`{}` is not a directory", printable_path(.path))]
    NotADirectory {
        /// The path as the caller gave it.
        path: PathBuf,
    },

    /// A file is larger than this operation holds in memory.
    #[error("`{}` is larger than {bytes_max} bytes", printable_path(.path))]
    TooLarge {
        /// The path as the caller gave it.
        path: PathBuf,
        /// The limit that it passed.
        bytes_max: u64,
    },

    /// The program is on no directory of the sandbox's `PATH`, or not at its path.
    #[error("command `{}` was not found", printable(.program))]
    CommandNotFound {
        /// The first element of argv.
        program: String,
    },

    /// The program is there, but the kernel refused to run it.
    #[error("command `{}` could not be executed", printable(.program))]
    CommandNotExecutable {
        /// The first element of argv.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The sandbox is gone; nothing but another teardown is answered.
    #[error("the sandbox was torn down")]
    TornDown,

    /// A backend that has a name but no implementation.
    #[error("{message}")]
    NotYetBuilt {
        /// The whole text, as the seeds word it.
        message: &'static str,
    },

    /// A backend that nobody has heard of.
    #[error("unknown sandbox type: {}", printable(.name))]
    UnknownBackend {
        /// The name that was asked for.
        name: String,
    },

    /// A system call on a path failed.
    #[error("could not {doing} `{}`", printable_path(.path))]
    Io {
        /// The step, as a verb: `create directory`.
        doing: String,
        /// The path it was done to.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// A git command failed.
    #[error("could not {doing}: {}", printable_lines(.detail))]
    Git {
        /// The step, as a verb: `add worktree for branch \`x\``.
        doing: String,
        /// What git wrote to stderr. It has no `source`, so it is the text.
        detail: String,
        /// What the user can do about it.
        hint: Option<String>,
    },

    /// An argument that cannot be used as it is.
    #[error("{}", printable(.what))]
    Invalid {
        /// What is wrong with what: `invalid duration \`5x\``.
        what: String,
        /// What a valid one looks like.
        hint: String,
    },

    /// A step of one backend failed in a way that the contract has no name for.
    #[error("could not {doing}")]
    Backend {
        /// The step, as a verb: `enter the namespaces`.
        doing: String,
        /// What the user can do about it.
        hint: Option<String>,
        /// The backend's own error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// The sort of a [`SandboxError`]: few enough that a caller can map all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller gave something that can never work.
    InvalidInput,
    /// A path would have left its base directory.
    Confinement,
    /// A path does not exist.
    NotFound,
    /// A path exists, but is another kind of file than the operation needs.
    WrongFileKind,
    /// A limit on size was passed.
    TooLarge,
    /// The program does not exist; shells say 127.
    CommandNotFound,
    /// The program exists and cannot run; shells say 126.
    CommandNotExecutable,
    /// The backend lacks the operation, or is itself still missing.
    Unsupported,
    /// The sandbox no longer exists.
    TornDown,
    /// The host's kernel, git or the backend failed.
    Failed,
}

impl SandboxError {
    /// The sort of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidEnvKey { .. }
            | Self::EmptyArgv
            | Self::NulByte { .. }
            | Self::UnknownBackend { .. }
            | Self::Invalid { .. } => ErrorKind::InvalidInput,
            Self::PathConfinement { .. } => ErrorKind::Confinement,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::NotAFile { .. } | Self::NotADirectory { .. } => ErrorKind::WrongFileKind,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::CommandNotFound { .. } => ErrorKind::CommandNotFound,
            Self::CommandNotExecutable { .. } => ErrorKind::CommandNotExecutable,
            Self::Unsupported { .. } | Self::NotYetBuilt { .. } => ErrorKind::Unsupported,
            Self::TornDown => ErrorKind::TornDown,
            Self::Io { .. } | Self::Git { .. } | Self::Backend { .. } => ErrorKind::Failed,
        }
    }

    /// What the user can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid { hint, .. } => Some(hint.clone()),
            Self::Git { hint, .. } | Self::Backend { hint, .. } => hint.clone(),
            Self::UnknownBackend { .. } => {
                let names = crate::BackendKind::ALL.map(crate::BackendKind::as_str).join(", ");
                Some(format!("the sandbox types are: {names}"))
            }
            Self::EmptyArgv => Some("give a program to run".to_owned()),
            Self::PathConfinement { base, .. } => Some(format!(
                "use a path at or below `{}`, or a relative one",
                printable_path(base)
            )),
            Self::CommandNotFound { .. } => Some(
                "the command is looked up inside the sandbox; use a shell (`sh -c`) for builtins and pipes"
                    .to_owned(),
            ),
            Self::InvalidEnvKey { .. }
            | Self::NulByte { .. }
            | Self::Unsupported { .. }
            | Self::NotFound { .. }
            | Self::NotAFile { .. }
            | Self::NotADirectory { .. }
            | Self::TooLarge { .. }
            | Self::CommandNotExecutable { .. }
            | Self::TornDown
            | Self::NotYetBuilt { .. }
            | Self::Io { .. } => None,
        }
    }
}

/// One line of text, with every control character written as an escape.
fn printable(text: &str) -> String {
    escape_controls(text, char::is_control)
}

/// The same for text whose line breaks mean something, such as what git wrote.
fn printable_lines(text: &str) -> String {
    escape_controls(text, |character| {
        character.is_control() && character != '\n' && character != '\t'
    })
}

fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

fn escape_controls(text: &str, escaped: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if escaped(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
