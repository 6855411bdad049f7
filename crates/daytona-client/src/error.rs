//! What can go wrong with a call, told apart by what the caller can do about it.
//!
//! The first question after a failure is whether the server may have done what it was asked to do: after
//! [`ClientError::Connect`] it has not, after [`ClientError::Interrupted`] and [`ClientError::Deadline`] nobody knows, and after
//! [`ClientError::Api`] it says so itself. No text of an error holds an address, since addresses may hold tokens.

use std::time::Duration;

use holm_daytona_wire::error::{ErrorCode, ErrorSource};
use holm_daytona_wire::sandbox::SandboxState;

pub type Result<T> = std::result::Result<T, ClientError>;

/// The cause of a failure below the protocol.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// What the caller gave cannot be sent.
    #[error("this {what} cannot be used: {problem}")]
    Invalid { what: &'static str, problem: String },
    /// No request left this machine.
    #[error("could not {action}: no connection to the server")]
    Connect {
        action: String,
        #[source]
        source: Cause,
    },
    #[error("could not {action} within {after:?}")]
    Deadline { action: String, after: Duration },
    /// The request may have been carried out; its answer, or the end of it, never came.
    #[error("could not {action}: the connection was lost")]
    Interrupted {
        action: String,
        #[source]
        source: Cause,
    },
    /// The server answered, and said no.
    #[error("could not {}: {} (status {})", .0.action, .0.message, .0.status)]
    Api(Box<ApiError>),
    /// The server said no on a connection that has no status.
    #[error("could not {action}: {message}")]
    Refused { action: String, message: String },
    #[error("could not {action}: the server's answer is not Daytona's protocol: {problem}")]
    Protocol { action: String, problem: String },
    #[error("could not {action}: the answer has more than {bytes_max} bytes")]
    TooLarge { action: String, bytes_max: usize },
    /// What should be sent could not be read here, or what was received could not be written here.
    #[error("could not {action}: the local side of the transfer failed")]
    Local {
        action: String,
        #[source]
        source: std::io::Error,
    },
    /// A sandbox will not become what was waited for.
    #[error("sandbox `{sandbox}` became `{state}`{}", reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    SandboxState {
        sandbox: String,
        state: SandboxState,
        reason: Option<String>,
    },
}

/// An answer that says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// What was tried, as the words after "could not".
    pub action: String,
    pub status: u16,
    /// Which part of Daytona answered, if it says so.
    pub origin: Option<ErrorSource>,
    pub code: Option<ErrorCode>,
    pub message: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl ClientError {
    /// The server's own words, if it answered.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            Self::Invalid { .. }
            | Self::Connect { .. }
            | Self::Deadline { .. }
            | Self::Interrupted { .. }
            | Self::Refused { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::Local { .. }
            | Self::SandboxState { .. } => None,
        }
    }

    pub fn status(&self) -> Option<u16> {
        self.api().map(|error| error.status)
    }

    pub fn code(&self) -> Option<&ErrorCode> {
        self.api().and_then(|error| error.code.as_ref())
    }

    pub fn has_code(&self, code: &ErrorCode) -> bool {
        self.code() == Some(code)
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// The session or the command has ended.
    pub fn is_gone(&self) -> bool {
        self.status() == Some(410)
    }

    pub fn is_unauthorized(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
    }

    pub fn is_rate_limited(&self) -> bool {
        self.status() == Some(429)
    }

    /// Out of time, here or at the server.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Deadline { .. }) || matches!(self.status(), Some(408 | 504))
    }

    /// No connection came about, so that nothing has happened.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    /// Whether the server may have done what it was asked although this is an error.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Deadline { .. }
            | Self::Interrupted { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. } => true,
            Self::Api(error) => error.status >= 500 && error.status != 501,
            Self::Invalid { .. }
            | Self::Connect { .. }
            | Self::Refused { .. }
            | Self::Local { .. }
            | Self::SandboxState { .. } => false,
        }
    }
}
