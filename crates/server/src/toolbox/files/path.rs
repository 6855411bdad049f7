//! Paths as clients write them.

use std::path::PathBuf;

use holm_daytona_wire::error::ErrorCode;

use crate::error::{ApiError, Result};
use crate::machines::Machine;

/// What the kernel takes.
const PATH_BYTES_MAX: usize = 4_095;

/// A path of a client, as it was given and as the box sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// For messages.
    pub(super) given: String,
    /// Absolute, as seen inside.
    pub(super) path: PathBuf,
}

impl Place {
    /// A file's path.
    pub(super) fn file(machine: &Machine, given: &str) -> Result<Self> {
        let refused = |why: &str| {
            let message = format!("the path `{}` {why}", given.escape_debug());
            Err(ApiError::new(ErrorCode::InvalidFilePath, message))
        };
        if given.is_empty() {
            return refused("is empty");
        }
        if given.len() > PATH_BYTES_MAX {
            let message = format!("the path has more than {PATH_BYTES_MAX} bytes");
            return Err(ApiError::new(ErrorCode::InvalidFilePath, message));
        }
        if given.contains('\0') {
            return refused("contains a NUL byte");
        }
        Ok(Self {
            given: given.to_owned(),
            path: machine.absolute(given),
        })
    }

    /// The path of a file or folder: slashes at its end mean nothing.
    pub(super) fn entry(machine: &Machine, given: &str) -> Result<Self> {
        let trimmed = match given.trim_end_matches('/') {
            "" if given.starts_with('/') => "/",
            trimmed => trimmed,
        };
        let place = Self::file(machine, trimmed)?;
        // `Path` drops a last `.`, but not from its bytes, and the kernel sees those.
        Ok(Self {
            given: given.to_owned(),
            path: place.path.components().collect(),
        })
    }

    /// What lies below, as the client would write it.
    pub(super) fn below(&self, path: &std::path::Path) -> String {
        let given = self.given.trim_end_matches('/');
        format!("{given}/{}", path.to_string_lossy())
    }
}
