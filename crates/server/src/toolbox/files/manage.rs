//! Making, moving and removing files and folders.

use std::io::ErrorKind;
use std::sync::Arc;

use axum::http::StatusCode;
use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::files::{EntryKind, FilesError, Replace};

use super::failure::failure;
use super::path::Place;
use crate::api::query::Pairs;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;
use crate::toolbox::command::{Collected, Wanted, collect};

const FOLDER_MODE: u32 = 0o755;

pub(super) async fn create_folder(inside: Inside, pairs: Pairs) -> Result<StatusCode> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let mode = pairs.get("mode").map_or(Ok(FOLDER_MODE), octal_mode)?;
    let made = inside.machine.blocking(move |machine| {
        make_folder(machine, &place, mode).map_err(|error| failure(&place, error))
    });
    made.await?;
    Ok(StatusCode::CREATED)
}

fn make_folder(machine: &Machine, place: &Place, mode: u32) -> Result<(), FilesError> {
    let files = machine.files()?;
    if let Ok(found) = files.metadata(&place.path)
        && found.kind == EntryKind::Directory
    {
        return Ok(());
    }
    if let Some(parent) = place.path.parent() {
        files.create_dir_all(parent)?;
    }
    match files.create_dir(&place.path, mode) {
        Err(FilesError::Io { path, source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
            Err(FilesError::AlreadyExists { path })
        }
        outcome => outcome,
    }
}

/// Permission bits, in octal.
pub(super) fn octal_mode(text: &str) -> Result<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        Ok(_) | Err(_) => Err(ApiError::bad_request(format!(
            "`{text}` is no mode: give octal permission bits from 0000 to 0777"
        ))),
    }
}

pub(super) async fn delete(inside: Inside, pairs: Pairs) -> Result<StatusCode> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let recursive = pairs.parsed::<bool>("recursive")?.unwrap_or(false);
    let deleted = inside.machine.blocking(move |machine| {
        let files = machine.files().map_err(|error| failure(&place, error))?;
        let deleted = match files.delete_file(&place.path) {
            Err(FilesError::IsADirectory { .. }) if recursive => files.remove_tree(&place.path),
            Err(FilesError::IsADirectory { .. }) => {
                let given = place.given.escape_debug();
                return Err(ApiError::bad_request(format!(
                    "`{given}` is a directory: delete it with `recursive=true`"
                )));
            }
            outcome => outcome,
        };
        deleted.map_err(|error| failure(&place, error))
    });
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn move_entry(inside: Inside, pairs: Pairs) -> Result<StatusCode> {
    let from = Place::entry(&inside.machine, pairs.required("source")?)?;
    let to = Place::entry(&inside.machine, pairs.required("destination")?)?;
    let (moved_from, moved_to) = (from.clone(), to.clone());
    let moved = inside.machine.blocking(move |machine| {
        let files = machine
            .files()
            .map_err(|error| failure(&moved_from, error))?;
        // Which of the two is missing is worth telling.
        files
            .symlink_metadata(&moved_from.path)
            .map_err(|error| failure(&moved_from, error))?;
        match files.rename(&moved_from.path, &moved_to.path, Replace::Never) {
            Ok(()) => Ok(Moved::Done),
            Err(FilesError::Io { source, .. }) if source.kind() == ErrorKind::CrossesDevices => {
                Ok(Moved::HasToBeCopied)
            }
            Err(error) => Err(failure(&moved_to, error)),
        }
    });
    match moved.await? {
        Moved::Done => {}
        Moved::HasToBeCopied => copy_over(&inside.machine, from, to).await?,
    }
    Ok(StatusCode::OK)
}

enum Moved {
    Done,
    /// The two are on different file systems, or the folder comes from the base.
    HasToBeCopied,
}

/// Moves by copying, which is the box's own work: it is its user's time and space.
async fn copy_over(machine: &Arc<Machine>, from: Place, to: Place) -> Result<()> {
    let exists = |place: &Place| {
        let path = place.path.clone();
        machine.blocking(move |machine| {
            let found = machine
                .files()
                .and_then(|files| files.symlink_metadata(&path));
            Ok::<_, ApiError>(found.is_ok())
        })
    };
    let taken = || ApiError::conflict(format!("`{}` already exists", to.given.escape_debug()));
    if exists(&to).await? {
        return Err(taken());
    }
    let mut argv: Vec<_> = ["mv", "--no-clobber", "--no-target-directory", "--"]
        .map(Into::into)
        .into();
    argv.extend([from.path.clone().into(), to.path.clone().into()]);
    let Collected {
        exit_code, stderr, ..
    } = collect(machine, Wanted::new(argv)).await?;
    if exit_code != 0 {
        // `mv` removes the source last, and leaves its copy when that fails.
        let left = to.path.clone();
        let removed = machine.blocking(move |machine| {
            let removed = machine.files().and_then(|files| files.remove_tree(&left));
            Ok::<_, ApiError>(removed.is_ok())
        });
        removed.await?;
        let said = String::from_utf8_lossy(&stderr).into_owned();
        let is_denied = [
            "Permission denied",
            "not permitted",
            "Read-only file system",
        ]
        .iter()
        .any(|reason| said.contains(reason));
        let code = if is_denied {
            ErrorCode::FileAccessDenied
        } else {
            ErrorCode::FileReadFailed
        };
        return Err(ApiError::new(code, said.trim()));
    }
    // Somebody was faster, and `mv` left both alone.
    if exists(&from).await? {
        return Err(taken());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_permission_bits() {
        for (text, mode) in [("755", 0o755), ("0644", 0o644), ("0o700", 0o700), ("0", 0)] {
            assert_eq!(octal_mode(text).unwrap(), mode);
        }
        for text in ["", "8", "rwx", "4755", "-1", "0x1ff"] {
            assert!(octal_mode(text).is_err(), "{text}");
        }
    }
}
