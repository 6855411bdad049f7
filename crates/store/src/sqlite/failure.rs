//! What an error of the database means for those who wait for an answer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use holm_thread_log::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_WRITE;

/// Why a batch was not stored.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// There is no space, or nobody may write. Nothing has happened.
    Full(Arc<rusqlite::Error>),
    /// Another process holds the database. Nothing has happened.
    Busy,
    /// Nothing has happened.
    Failed(&'static str, Arc<rusqlite::Error>),
    /// Nobody knows what is on the disk.
    Unknown(&'static str, Arc<rusqlite::Error>),
    /// A test wanted it.
    #[cfg(any(test, feature = "testing"))]
    Crash,
}

impl Failure {
    /// A step before the commit has failed.
    pub(super) fn before_commit(doing: &'static str, source: rusqlite::Error) -> Self {
        let source = Arc::new(source);
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly) => Self::Full(source),
            Some(ErrorCode::DatabaseBusy) => Self::Busy,
            Some(_) | None => Self::Failed(doing, source),
        }
    }

    /// The commit has failed. Of two reasons it is known that nothing became durable: there was no space for the last piece that was
    /// to be written, or the file system refuses to write at all. After a failed sync nothing is known.
    pub(super) fn of_commit(source: rusqlite::Error, disk: Disk) -> Self {
        let source = Arc::new(source);
        let is_refused_write = source
            .sqlite_error()
            .is_some_and(|error| error.extended_code == SQLITE_IOERR_WRITE)
            && disk == Disk::ReadOnly;
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly) => Self::Full(source),
            Some(_) if is_refused_write => Self::Full(source),
            Some(_) | None => Self::Unknown("commit streams", source),
        }
    }

    /// The same, without knowing what is on the disk.
    pub(super) fn made_unknown(self) -> Self {
        match self {
            Self::Full(source) | Self::Failed(_, source) => {
                Self::Unknown("take back what was written", source)
            }
            Self::Busy | Self::Unknown(..) => self,
            #[cfg(any(test, feature = "testing"))]
            Self::Crash => self,
        }
    }

    /// What a writer hears; `None` is nothing at all.
    pub(super) fn answer(&self) -> Option<StoreError> {
        match self {
            Self::Full(source) => Some(StoreError::Full {
                source: Box::new(Arc::clone(source)),
            }),
            Self::Busy => Some(StoreError::Busy),
            Self::Failed(doing, source) => Some(StoreError::Failed {
                doing,
                source: Box::new(Arc::clone(source)),
            }),
            Self::Unknown(..) => None,
            #[cfg(any(test, feature = "testing"))]
            Self::Crash => None,
        }
    }
}

/// Whether the file system takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    Writable,
    ReadOnly,
}

impl Disk {
    /// Tries it, on a file that nobody reads. A file system may turn read-only by itself after an error of its device, and not all
    /// that do so say it when asked.
    pub(super) fn of(lock: &File) -> Self {
        match lock.write_at(b"\n", 0) {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            Err(_) | Ok(_) => Self::Writable,
        }
    }
}
