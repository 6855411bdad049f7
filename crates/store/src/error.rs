//! What can go wrong with the database.

use std::path::PathBuf;
use std::sync::Arc;

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not open the database `{path}`")]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// Written by a later Holm, whose meaning this one cannot know.
    #[error(
        "the database `{path}` has version {found}, and this Holm knows versions up to {known}"
    )]
    TooNew {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("could not {doing}")]
    Sql {
        doing: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    /// Streams have one writer, which knows what it wrote.
    #[error("the streams of the database `{path}` are in use by another process")]
    InUse { path: PathBuf },
    #[error("could not lock `{path}`")]
    Lock {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not start the thread that writes streams")]
    Thread {
        #[source]
        source: std::io::Error,
    },
    /// Nobody can say what of it is on the disk.
    #[error("could not {doing}: what was acknowledged is safe, the rest is unknown")]
    Stopped {
        doing: &'static str,
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// Two documents of one owner have the same name.
    #[error("the name `{name}` is taken")]
    NameTaken { name: String },
    #[error("a stored {kind} cannot be read")]
    Malformed {
        kind: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

impl StoreError {
    /// What the operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Self::Open { source, .. }
                if matches!(
                    source.sqlite_error_code(),
                    Some(DatabaseCorrupt | NotADatabase)
                ) =>
            {
                Some("the file is damaged: put a backup in its place, or use another data folder")
            }
            Self::Open { .. } | Self::Lock { .. } => {
                Some("check that the data folder exists, is yours and has space left")
            }
            Self::TooNew { .. } => Some("use the newer Holm that wrote it, or another data folder"),
            Self::InUse { .. } => {
                Some("stop the other server, or give this one a data folder of its own")
            }
            Self::Stopped { .. } => Some("check the disk, then start again"),
            Self::Thread { .. }
            | Self::Sql { .. }
            | Self::NameTaken { .. }
            | Self::Malformed { .. } => None,
        }
    }
}

/// Names the step that a database error belongs to.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, rusqlite::Error> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::Sql { doing, source })
    }
}
