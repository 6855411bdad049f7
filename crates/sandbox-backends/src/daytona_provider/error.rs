//! What can go wrong with a provider.

use std::sync::Arc;
use std::time::Duration;

use holm_daytona_client::ClientError;
use holm_patch::{ApplyError, ParseError};
use holm_sandbox::SandboxError;

pub type Result<T, E = ProviderError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("the Daytona sandbox of this process was shut down")]
    Closed,
    /// Everyone who waited for the same start gets the same cause.
    #[error("could not start a Daytona sandbox")]
    Start {
        #[source]
        source: Arc<StartError>,
    },
    /// Somebody else deleted it, or it broke. Its files are lost, so that another one is not made silently.
    #[error("Daytona sandbox `{sandbox}` is gone: its state is `{state}`")]
    Gone { sandbox: String, state: String },
    #[error("could not set up workspace `{path}` in the sandbox: {problem}")]
    Workspace { path: String, problem: String },
    /// A path, a command or a file that cannot be used.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "could not write `{path}` in the sandbox, neither by upload nor by a command: {problem}"
    )]
    NotWritten {
        path: String,
        problem: String,
        #[source]
        source: Option<ClientError>,
    },
    #[error("could not {doing} in the sandbox: {problem}")]
    Script { doing: String, problem: String },
    #[error(transparent)]
    PatchUnreadable(#[from] ParseError),
    #[error(transparent)]
    PatchDoesNotFit(#[from] ApplyError),
    #[error("could not carry out the patch, and all files are as they were: {problem}")]
    PatchUndone { problem: String },
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("it was not ready within {after:?}")]
    Timeout { after: Duration },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Paths(#[from] SandboxError),
    #[error("it was shut down while it started")]
    Cancelled,
    #[error("the runtime that started it has ended")]
    Abandoned,
}

impl From<ProviderError> for SandboxError {
    fn from(error: ProviderError) -> Self {
        let (doing, hint) = match error {
            ProviderError::Sandbox(error) => return error,
            ProviderError::Closed => return Self::TornDown,
            ProviderError::Start { .. } => (
                "start a Daytona sandbox",
                Some("DAYTONA_API_KEY and DAYTONA_API_URL say where and who"),
            ),
            ProviderError::Gone { .. } => (
                "use the Daytona sandbox",
                Some("start the command again to get a new one"),
            ),
            ProviderError::Workspace { .. }
            | ProviderError::Client(_)
            | ProviderError::Script { .. } => ("use the Daytona sandbox", None),
            ProviderError::NotWritten { .. } => (
                "write to the Daytona sandbox",
                Some("look at the rights of the folder, and at the disk of the sandbox"),
            ),
            ProviderError::PatchUnreadable(_)
            | ProviderError::PatchDoesNotFit(_)
            | ProviderError::PatchUndone { .. } => ("apply the patch", None),
        };
        Self::Backend {
            doing: doing.to_owned(),
            hint: hint.map(str::to_owned),
            source: error.into(),
        }
    }
}
