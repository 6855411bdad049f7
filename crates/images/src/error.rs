//! What can go wrong between a source and a finished image.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub type Result<T, E = ImagesError> = std::result::Result<T, E>;

/// A failed import. Nothing of the image is left behind.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    #[error("images keep the owners of their files, which takes root")]
    NeedsRoot,
    #[error(
        "`{name}` cannot name an image: use 1 to 128 of `a-z A-Z 0-9 . _ -`, and begin with a letter or digit"
    )]
    InvalidName { name: String },
    #[error("an image `{name}` exists already")]
    AlreadyExists { name: String },
    #[error("there is no image `{name}`")]
    NotFound { name: String },
    #[error("the folder of images `{}` must belong to root and have mode 0700", path.display())]
    UnsafeDirectory { path: PathBuf },
    #[error("could not {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the disk of `{}` is full ({free_bytes} bytes free): make room and try again", path.display())]
    DiskFull { path: PathBuf, free_bytes: u64 },
    #[error("cancelled")]
    Cancelled,
    #[error("took longer than it may")]
    DeadlinePassed,
    /// A limit of [`Limits`](crate::Limits) was reached.
    #[error("the image has more than {max} {unit}")]
    TooLarge { unit: &'static str, max: u64 },
    #[error("`{}` is compressed with {format}, which is not supported: use gzip, zstd or a plain tar", path.display())]
    UnsupportedCompression { path: PathBuf, format: &'static str },
    /// The bytes are no archive, or it is cut off.
    #[error("the archive is broken: {reason}")]
    BrokenArchive { reason: String },
    #[error("could not read the archive")]
    ReadArchive(#[source] io::Error),
    /// An entry that no honest archive has, or that a box could not show.
    #[error("entry `{name}` of the archive is refused: {reason}")]
    EntryRefused { name: String, reason: String },
    #[error("could not {doing} entry `{name}` of the archive")]
    Entry {
        doing: &'static str,
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("{what} is not what its digest says: expected {expected}, found {found}")]
    DigestMismatch {
        what: String,
        expected: String,
        found: String,
    },
    #[error("{what} cannot be used: {reason}")]
    InvalidImage { what: String, reason: String },
    #[error("the image is for {found}, this machine needs {wanted}")]
    WrongPlatform { wanted: String, found: String },
    #[error("`{reference}` is not the name of an image: {reason}")]
    InvalidReference { reference: String, reason: String },
    /// No such image, or a registry that does not tell strangers about it.
    #[error("the registry has no image `{reference}`")]
    ImageNotFound { reference: String },
    #[error(
        "the registry does not let us pull `{reference}`: it wants other credentials, or there is no such image"
    )]
    Unauthorized { reference: String },
    #[error("could not {doing} of `{reference}` from its registry")]
    Registry {
        doing: &'static str,
        reference: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("`{program}` is not installed: run `apt-get install {package}`")]
    ProgramMissing {
        program: &'static str,
        package: &'static str,
    },
    #[error("could not run `{program}`")]
    Run {
        program: &'static str,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The last lines of its output say why.
    #[error("`{program}` failed ({exit}):\n{last_lines}")]
    ProgramFailed {
        program: &'static str,
        exit: String,
        last_lines: String,
    },
    #[error("line {line} of the Dockerfile: {reason}")]
    Dockerfile { line: usize, reason: String },
}

impl ImagesError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::from_io(doing, path, source)
    }

    pub(crate) fn errno(doing: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::from_io(doing, path, errno.into())
    }

    fn from_io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        if is_disk_full(&source) {
            return Self::DiskFull {
                path: path.to_path_buf(),
                free_bytes: 0,
            };
        }
        Self::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Self::BrokenArchive {
            reason: reason.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidImage {
            what: what.into(),
            reason: reason.into(),
        }
    }
}

pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
