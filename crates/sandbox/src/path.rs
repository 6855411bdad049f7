//! Lexical confinement: the first of the two walls around a sandbox's files.
//!
//! Here a path is judged by its components alone, before anything is touched. The second wall is the kernel's
//! (`openat2` beneath the root), which also sees symlinks; this one gives the clear error, and is the only one that a
//! remote backend has before its first call.
//!
//! **Invariants:** comparison is by component, never by string prefix (`/base-evil` is not below `/base`; `..foo` is a
//! file name); a returned path holds neither `.` nor `..` (save the lone `.` of [`confine_from`]); nothing is read
//! from the file system.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::{Result, SandboxError};

/// The absolute, normalised form of `user`, which is at or below `base`.
///
/// A relative path starts at `base`; the empty path is `base` itself.
///
/// # Errors
///
/// [`SandboxError::PathConfinement`] when the path ends outside of `base`, [`SandboxError::NulByte`] when it holds a
/// NUL, [`SandboxError::Invalid`] when `base` is not absolute.
pub fn confine(base: &Path, user: &Path) -> Result<PathBuf> {
    let base = absolute_base(base)?;
    confine_joined(&base, &base, user)
}

/// The path of `user` relative to `base` (`.` for `base` itself), where a relative `user` starts at `current`.
///
/// `current` must itself lie in `base`; it may be absolute or relative to `base`. This is the form that `openat2`
/// beneath a directory handle of `base` takes.
///
/// # Errors
///
/// As for [`confine`].
pub fn confine_from(base: &Path, current: &Path, user: &Path) -> Result<PathBuf> {
    let base = absolute_base(base)?;
    let current = confine_joined(&base, &base, current)?;
    let confined = confine_joined(&base, &current, user)?;
    match confined.strip_prefix(&base) {
        Ok(relative) if relative.as_os_str().is_empty() => Ok(PathBuf::from(".")),
        Ok(relative) => Ok(relative.to_path_buf()),
        Err(_) => Err(violation(&base, user)),
    }
}

/// Refuses what the kernel would cut short.
pub(crate) fn refuse_nul(text: &OsStr, what: &'static str) -> Result<()> {
    if text.as_encoded_bytes().contains(&0) {
        return Err(SandboxError::NulByte { what });
    }
    Ok(())
}

fn absolute_base(base: &Path) -> Result<PathBuf> {
    refuse_nul(base.as_os_str(), "the base directory")?;
    if !base.is_absolute() {
        return Err(SandboxError::Invalid {
            what: format!("base directory `{}` is not absolute", base.display()),
            hint: "give the base directory from the root on".to_owned(),
        });
    }
    Ok(normalise(base))
}

/// `base` and `start` are normalised already.
fn confine_joined(base: &Path, start: &Path, user: &Path) -> Result<PathBuf> {
    refuse_nul(user.as_os_str(), "the path")?;
    // `join` takes an absolute `user` as it is.
    let target = normalise(&start.join(user));
    // `Path::starts_with` compares whole components.
    if target.starts_with(base) {
        Ok(target)
    } else {
        Err(violation(base, user))
    }
}

fn violation(base: &Path, user: &Path) -> SandboxError {
    SandboxError::PathConfinement {
        path: user.to_path_buf(),
        base: base.to_path_buf(),
    }
}

/// Takes `.` and `..` out of an absolute path. `..` at the root stays at the root, as in the kernel.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                // False at the root: there is nothing above it.
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
