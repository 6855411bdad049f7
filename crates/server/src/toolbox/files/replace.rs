//! Replacing a text in files.

use std::path::Path;

use axum::Json;
use holm_daytona_wire::files::{ReplaceRequest, ReplaceResult};
use holm_sandbox_linux::files::{ConfinedDir, FilesError, WriteOptions};
use memchr::memmem::Finder;

use super::failure::failure;
use super::path::Place;
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;

/// Longer files are refused.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a file may grow to.
const RESULT_BYTES_MAX: usize = 256 * 1024 * 1024;
const FILES_MAX: usize = 10_000;

pub(super) async fn replace(
    inside: Inside,
    Body(request): Body<ReplaceRequest>,
) -> Result<Json<Vec<ReplaceResult>>> {
    if request.pattern.is_empty() {
        return Err(ApiError::bad_request("`pattern` is empty"));
    }
    if request.files.len() > FILES_MAX {
        return Err(ApiError::bad_request(format!(
            "`files` names more than {FILES_MAX} files"
        )));
    }
    let replaced = inside.machine.blocking(move |machine| {
        let replace = |file: &String| {
            let outcome = replace_in(machine, file, &request);
            ReplaceResult {
                file: file.clone(),
                success: outcome.is_ok(),
                error: outcome.err().map(|error| error.message),
            }
        };
        Ok::<_, ApiError>(request.files.iter().map(replace).collect())
    });
    Ok(Json(replaced.await?))
}

fn replace_in(machine: &Machine, file: &str, request: &ReplaceRequest) -> Result<()> {
    let place = Place::file(machine, file)?;
    let read = |files: &ConfinedDir, path: &Path| files.read(path, FILE_BYTES_MAX);
    let files = machine.files().map_err(|error| failure(&place, error))?;
    let content = read(&files, &place.path).map_err(|error| failure(&place, error))?;
    let changed = replaced(&content, &request.pattern, &request.new_value).ok_or_else(|| {
        let path = place.path.clone();
        let bytes_max = u64::try_from(RESULT_BYTES_MAX).unwrap_or(u64::MAX);
        failure(&place, FilesError::TooLarge { path, bytes_max })
    })?;
    if changed == content {
        return Ok(());
    }
    files
        .write_atomic(&place.path, &changed, WriteOptions::default())
        .map_err(|error| failure(&place, error))
}

/// The content with every occurrence replaced; nothing if that is too much.
fn replaced(content: &[u8], pattern: &str, value: &str) -> Option<Vec<u8>> {
    let mut changed = Vec::with_capacity(content.len());
    let mut from = 0;
    for at in Finder::new(pattern).find_iter(content) {
        changed.extend_from_slice(content.get(from..at)?);
        changed.extend_from_slice(value.as_bytes());
        from = at + pattern.len();
        if changed.len() > RESULT_BYTES_MAX {
            return None;
        }
    }
    changed.extend_from_slice(content.get(from..)?);
    (changed.len() <= RESULT_BYTES_MAX).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_is_replaced_and_the_rest_stays() {
        let replaced = |content: &[u8]| replaced(content, "aa", "b").unwrap();
        assert_eq!(replaced(b"aaa-aa\xff"), b"ba-b\xff");
        assert_eq!(replaced(b"none"), b"none");
    }

    #[test]
    fn what_would_become_too_large_is_refused() {
        let content = "x".repeat(1024);
        let value = "y".repeat(RESULT_BYTES_MAX / 512);
        assert_eq!(replaced(content.as_bytes(), "x", &value), None);
    }
}
