//! What can go wrong with a file operation below a [`ConfinedDir`](super::ConfinedDir).

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A failed file operation. Paths are as the caller gave them, never resolved host paths.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The path, or a symlink on the way, leads out of the directory.
    #[error("path `{}` leads out of its directory", path.display())]
    Escapes { path: PathBuf },
    #[error("`{}` does not exist", path.display())]
    NotFound { path: PathBuf },
    /// A directory, FIFO, socket or device where a regular file is needed.
    #[error("`{}` is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("`{}` is not a named pipe", path.display())]
    NotAFifo { path: PathBuf },
    #[error("`{}` exists already", path.display())]
    AlreadyExists { path: PathBuf },
    #[error("`{}` is a directory", path.display())]
    IsADirectory { path: PathBuf },
    #[error("path `{}` {reason}", path.display())]
    InvalidPath { path: PathBuf, reason: &'static str },
    /// The file lives on `proc`, `sysfs` or the like, where a read by root reveals the host.
    #[error("`{}` is an interface of the kernel, not a stored file", path.display())]
    KernelInterface { path: PathBuf },
    #[error("`{}` has more than {bytes_max} bytes", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("`{}` has more than {entries_max} entries", path.display())]
    TooManyEntries { path: PathBuf, entries_max: u64 },
    #[error("`{}` exists and is not an empty directory", path.display())]
    DestinationNotEmpty { path: PathBuf },
    /// Somebody kept renaming or filling the tree; every bounded retry was used up.
    #[error("`{}` kept changing while it was worked on", path.display())]
    Unsettled { path: PathBuf },
    /// One side of the copy is the host's.
    #[error("`{}` is worked on as another user: it cannot be copied from or to the host", path.display())]
    TwoIdentities { path: PathBuf },
    #[error("the kernel has no openat2 (Linux 5.6 or newer is needed)")]
    KernelTooOld,
    #[error("could not read the content meant for `{}`", path.display())]
    ReadSource {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not {operation} `{}`", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl FilesError {
    /// The error of one system call other than a path resolution, named by what it was doing.
    pub(super) fn from_errno(operation: &'static str, path: &Path, errno: Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::NOTDIR => Self::NotADirectory { path },
            Errno::EXIST => Self::AlreadyExists { path },
            _ => Self::Io {
                operation,
                path,
                source: errno.into(),
            },
        }
    }

    /// Tells of an escape under the path that the caller gave, when only its parent was resolved.
    pub(super) fn naming(self, path: &Path) -> Self {
        if matches!(self, Self::Escapes { .. }) {
            return Self::Escapes {
                path: path.to_path_buf(),
            };
        }
        self
    }

    pub(super) fn from_io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_path_buf(),
            source,
        }
    }
}
