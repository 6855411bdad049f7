//! Folders of ours that boxes stand on: made once, found again by what they are made of.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{HostFileContext, Result};

/// The folder for `content` below `directory`, which `write` fills if it does not exist yet.
///
/// Builds beside the final name and renames, so that a skeleton is whole or not there.
pub(crate) fn find_or_make(
    directory: &Path,
    kind: &str,
    content: &impl Hash,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let skeleton = directory.join(format!("{kind}-{:016x}", hasher.finish()));
    if skeleton.is_dir() {
        return Ok(skeleton);
    }
    fs::create_dir_all(directory).doing("make folder", directory)?;
    let suffix = crate::random_hex();
    let temporary = skeleton.with_extension(format!("{suffix}.new"));
    write(&temporary)?;
    match fs::rename(&temporary, &skeleton) {
        Ok(()) => Ok(skeleton),
        // Somebody else was quicker and made the same.
        Err(_) if skeleton.is_dir() => {
            fs::remove_dir_all(&temporary).doing("remove", &temporary)?;
            Ok(skeleton)
        }
        Err(error) => Err(error).doing("rename", &temporary),
    }
}

pub(crate) fn make_folder(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path).doing("make folder", path)?;
    set_mode(path, mode)
}

/// Whatever the caller's umask says, the box must be able to read it.
pub(crate) fn write_readable(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).doing("write", path)?;
    set_mode(path, 0o644)
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).doing("set the mode of", path)
}
