//! Where things are.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The root of the repository. Cargo says where this package is, one folder below.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    match package.as_deref().and_then(|package| package.parent()) {
        Some(root) => root.to_owned(),
        None => PathBuf::from("."),
    }
}

/// Cargo's folder for what it builds, where this tool puts its own files too.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(target) => std::path::absolute(&target).unwrap_or_else(|_| PathBuf::from(target)),
        None => root().join("target"),
    }
}

/// The kernel gives `/proc/self` to the user that this process acts as.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Looks a program up as a shell does, and also where administrators' programs are.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}
