//! Failed file operations in Daytona's words.

use std::io::ErrorKind;

use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::files::FilesError;

use super::path::Place;
use crate::error::{ApiError, chain};

/// What a client is told: the path as it was given, what is wrong, what to do.
pub(super) fn failure(place: &Place, error: FilesError) -> ApiError {
    let given = place.given.escape_debug();
    let (code, message) = match &error {
        FilesError::NotFound { .. } => (
            ErrorCode::FileNotFound,
            format!("`{given}`: no such file or directory"),
        ),
        FilesError::Escapes { .. } => (
            ErrorCode::FileAccessDenied,
            format!("`{given}` leads out of the sandbox, or in a circle of links"),
        ),
        FilesError::KernelInterface { .. } => (
            ErrorCode::FileAccessDenied,
            format!(
                "`{given}` is an interface of the kernel and not a stored file: run a command to use it"
            ),
        ),
        FilesError::NotAFile { .. } => (
            ErrorCode::InvalidFilePath,
            format!("`{given}` is not a regular file"),
        ),
        FilesError::NotADirectory { .. } => (
            ErrorCode::InvalidFilePath,
            format!("`{given}` is not a directory, or lies below a file"),
        ),
        FilesError::IsADirectory { .. } => (
            ErrorCode::InvalidFilePath,
            format!("`{given}` is a directory"),
        ),
        FilesError::NotAFifo { .. } => (
            ErrorCode::InvalidFilePath,
            format!("`{given}` is not a named pipe"),
        ),
        FilesError::InvalidPath { reason, .. } => (
            ErrorCode::InvalidFilePath,
            format!("the path `{given}` {reason}"),
        ),
        FilesError::TooLarge { bytes_max, .. } => (
            ErrorCode::BadRequest,
            format!("`{given}` has more than {bytes_max} bytes"),
        ),
        FilesError::TooManyEntries { entries_max, .. } => (
            ErrorCode::BadRequest,
            format!("`{given}` has more than {entries_max} entries: choose a smaller folder"),
        ),
        FilesError::AlreadyExists { .. } | FilesError::DestinationNotEmpty { .. } => {
            (ErrorCode::Conflict, format!("`{given}` already exists"))
        }
        FilesError::Unsettled { .. } => (
            ErrorCode::Conflict,
            format!("`{given}` kept changing while it was worked on: try again"),
        ),
        FilesError::ReadSource { .. } => (
            ErrorCode::BadRequest,
            format!("the content for `{given}` did not arrive"),
        ),
        FilesError::Io { source, .. } => {
            let kind = source.kind();
            if matches!(
                kind,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
            ) {
                (
                    ErrorCode::FileAccessDenied,
                    format!("`{given}`: permission denied"),
                )
            } else if kind == ErrorKind::InvalidFilename {
                (
                    ErrorCode::InvalidFilePath,
                    format!("the path `{given}` has a name that is too long"),
                )
            } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
                (
                    ErrorCode::FileReadFailed,
                    format!("there is no space left for `{given}`"),
                )
            } else {
                (ErrorCode::FileReadFailed, chain(&error))
            }
        }
        FilesError::TwoIdentities { .. } | FilesError::KernelTooOld => {
            (ErrorCode::FileReadFailed, chain(&error))
        }
    };
    ApiError::new(code, message).with_cause(error)
}
