//! What can go wrong between Holm and Postgres. Nothing here ever holds a password.

use std::path::PathBuf;
use std::sync::Arc;

use holm_client_tls::TrustError;
use holm_thread_log::StoreError;
use tokio_postgres::error::SqlState;

use super::schema::SCHEMA_VERSION;

/// Why the database cannot be used, or what failed while it was.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// What was given is not repeated: it may have a password in it.
    #[error("this is no address of a database: write it as postgres://user@host/database")]
    Address {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("could not read the certificates to trust from `{path}`")]
    Certificates {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("could not make ready to speak TLS with the database")]
    Tls(#[source] TrustError),
    #[error("could not connect to the database {place}")]
    Connect {
        place: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Written by a later Holm, whose meaning this one cannot know.
    #[error(
        "the database {place} has version {found}, and this Holm knows versions up to {SCHEMA_VERSION}"
    )]
    TooNew { place: String, found: i32 },
    #[error("the database {place} cannot keep threads: {why}")]
    Unfit { place: String, why: &'static str },
    #[error("could not {doing}")]
    Sql {
        doing: &'static str,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("the database did not answer in time")]
    Silent,
    /// The tables contradict each other, or hold what this Holm would not have written.
    #[error("what is stored is not understood: {what}")]
    Malformed { what: &'static str },
}

impl PostgresError {
    /// What the operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address { .. } => {
                Some("a password with special characters is percent-encoded in the address")
            }
            Self::Certificates { .. } | Self::Tls(_) => Some(
                "name the certificate of the database's authority with `sslrootcert=FILE`, or turn TLS off with `sslmode=disable`",
            ),
            Self::Connect { .. } => Some(
                "check host, port, user and database; a database on another machine is spoken to by TLS unless the address says `sslmode=disable`",
            ),
            Self::TooNew { .. } => Some("use the newer Holm that changed it, or another database"),
            Self::Unfit { .. } | Self::Sql { .. } | Self::Silent | Self::Malformed { .. } => None,
        }
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Sql { source, .. } => source.code(),
            Self::Address { .. }
            | Self::Certificates { .. }
            | Self::Tls(_)
            | Self::Connect { .. }
            | Self::TooNew { .. }
            | Self::Unfit { .. }
            | Self::Silent
            | Self::Malformed { .. } => None,
        }
    }

    /// What becomes of it, when it came before a commit: nothing has happened yet.
    pub(super) fn remedy(&self) -> Remedy {
        let Some(code) = self.code() else {
            return match self {
                Self::Sql { .. } | Self::Connect { .. } | Self::Silent => Remedy::TryAgain,
                Self::TooNew { .. } => Remedy::Stop,
                Self::Address { .. }
                | Self::Certificates { .. }
                | Self::Tls(_)
                | Self::Unfit { .. }
                | Self::Malformed { .. } => Remedy::GiveUp,
            };
        };
        // No space, no memory; and read-only, as a standby is until it is promoted.
        let is_full = *code == SqlState::DISK_FULL
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION
            || *code == SqlState::OUT_OF_MEMORY;
        if is_full {
            return Remedy::Full;
        }
        // By their classes: connections, somebody else's transaction, too many of something, an operator at work (shutdown, crash),
        // the system. A turn that was taken twice is a unique violation: the fence held, and the batch is decided again.
        let passing = ["08", "40", "53", "57", "58"];
        let is_passing = passing.iter().any(|class| code.code().starts_with(class))
            || *code == SqlState::UNIQUE_VIOLATION
            || *code == SqlState::LOCK_NOT_AVAILABLE
            || *code == SqlState::IN_FAILED_SQL_TRANSACTION
            || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
        if is_passing {
            Remedy::TryAgain
        } else {
            Remedy::GiveUp
        }
    }
}

/// What a committer or a reader does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// On a new connection, from the start.
    TryAgain,
    /// It would be the same again.
    GiveUp,
    Full,
    /// Never write again.
    Stop,
}

/// Statements that were sent together fail together: the first because of itself, the others because of the first. The first is told.
pub(super) fn all<T, const COUNT: usize>(
    results: [Result<T, PostgresError>; COUNT],
) -> Result<[T; COUNT], PostgresError> {
    let is_follower =
        |error: &PostgresError| error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
    let mut answers = Vec::with_capacity(COUNT);
    let mut told: Option<PostgresError> = None;
    for result in results {
        match result {
            Ok(answer) => answers.push(answer),
            Err(error) if told.as_ref().is_none_or(is_follower) => told = Some(error),
            Err(_) => {}
        }
    }
    match told {
        Some(error) => Err(error),
        None => answers.try_into().map_err(|_| PostgresError::Silent),
    }
}

/// As callers of the store see it.
pub(super) fn failed(doing: &'static str, error: Arc<PostgresError>) -> StoreError {
    let source = Box::new(error);
    if source.remedy() == Remedy::Full {
        return StoreError::Full { source };
    }
    StoreError::Failed { doing, source }
}

/// Names the step that a database error belongs to.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, PostgresError>;
}

impl<T> Doing<T> for Result<T, tokio_postgres::Error> {
    fn doing(self, doing: &'static str) -> Result<T, PostgresError> {
        self.map_err(|source| PostgresError::Sql { doing, source })
    }
}
