//! What can go wrong between here and the server, and whether it may pass by itself.

use std::time::Duration;

use crate::credentials::BoxError;

/// Whether trying again later may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// The network, a server that is down or busy.
    MayPass,
    /// The server has understood and said no, or the request makes no sense.
    Stands,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("this {what} cannot be used: {problem}")]
    Invalid { what: &'static str, problem: String },

    /// No connection, or one that broke: the server may or may not have done it.
    #[error("could not {action}: the server was not reached, or did not answer to the end")]
    Unreachable {
        action: String,
        #[source]
        source: BoxError,
    },

    /// Somebody is there who does not prove to be the server. Nothing was sent to it.
    #[error("could not {action}: the server's certificate is not trusted here")]
    Untrusted {
        action: String,
        #[source]
        source: BoxError,
    },

    #[error("could not {action}: there was no answer in {} s", after.as_secs_f32())]
    TimedOut { action: String, after: Duration },

    #[error(transparent)]
    Api(Box<ApiError>),

    /// An answer that the protocol does not know.
    #[error("could not {action}: the server's answer makes no sense: {problem}")]
    Protocol { action: String, problem: String },

    #[error("could not {action}: the answer has more than {bytes_max} bytes")]
    TooLarge { action: String, bytes_max: usize },

    #[error("could not get a token")]
    Credentials {
        #[source]
        source: BoxError,
    },

    #[error("could not {doing}")]
    CursorFile {
        doing: String,
        #[source]
        source: std::io::Error,
    },
}

/// The server's no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not {action}: {}", self.reason())]
pub struct ApiError {
    pub action: String,
    pub status: u16,
    /// A stable word for it, if the server has one.
    pub code: Option<String>,
    /// What the server says to people.
    pub message: String,
    pub retry_after: Option<Duration>,
    pub(crate) producer: ProducerAnswer,
}

/// What an answer says of a producer; what is not said is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProducerAnswer {
    pub(crate) epoch: Option<u64>,
    pub(crate) last_seq: Option<u64>,
    pub(crate) expected_seq: Option<u64>,
    pub(crate) is_closed: bool,
}

impl ApiError {
    fn reason(&self) -> String {
        if self.message.is_empty() {
            format!("the server answered with status {}", self.status)
        } else {
            format!("{} (status {})", self.message, self.status)
        }
    }
}

impl ClientError {
    pub fn prospect(&self) -> Prospect {
        match self {
            // Certificates are renewed, also after they have run out.
            Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::TimedOut { .. }
            | Self::Credentials { .. } => Prospect::MayPass,
            Self::Api(error) => of_status(error.status),
            Self::Invalid { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::CursorFile { .. } => Prospect::Stands,
        }
    }

    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            Self::Invalid { .. }
            | Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::TimedOut { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::Credentials { .. }
            | Self::CursorFile { .. } => None,
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Untrusted { .. } => Some(
                "see whether the address is right; SSL_CERT_FILE=FILE names the root of a private authority",
            ),
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                Some("see whether the server runs, and whether its address is right")
            }
            Self::Api(error) => match error.status {
                401 => Some("the key or token is wrong, has expired or was revoked"),
                403 => Some("the token does not allow this"),
                404 | 410 => {
                    Some("see whether the name is right; what belongs to others is not shown")
                }
                507 => Some("the server's disk is full"),
                _ => None,
            },
            Self::TooLarge { .. }
            | Self::Invalid { .. }
            | Self::Protocol { .. }
            | Self::Credentials { .. }
            | Self::CursorFile { .. } => None,
        }
    }
}

pub(crate) fn of_status(status: u16) -> Prospect {
    match status {
        // Too early, too many, a deadline of somebody between; and the server's own troubles, a full disk included.
        408 | 425 | 429 | 500 | 502 | 503 | 504 | 507 => Prospect::MayPass,
        _ => Prospect::Stands,
    }
}
