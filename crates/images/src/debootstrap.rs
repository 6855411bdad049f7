//! A fresh Debian by `debootstrap`, whose packages are signed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use holm_sandbox_linux::files::ConfinedDir;

use crate::config::ImageConfig;
use crate::error::{ImagesError, Result};
use crate::oci::from_files;
use crate::program::{Bounds, Program};
use crate::store::{Images, ImportedImage};
use crate::watch::Watch;

const DEBOOTSTRAP: Program = Program {
    name: "debootstrap",
    package: "debootstrap",
};

impl Images {
    /// Makes a minimal Debian (or a relative of it). Its log is told as [`Progress::Line`](crate::Progress::Line).
    pub fn debootstrap(
        &self,
        name: &str,
        suite: &str,
        mirror: Option<&str>,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        self.check_name_is_free(name)?;
        check_suite(suite)?;
        if let Some(mirror) = mirror {
            check_mirror(mirror)?;
        }
        DEBOOTSTRAP.check_installed()?;
        let staging = self.stage()?;
        let tree = staging.tree();
        // It mounts into the tree. In namespaces of its own, that and its processes go when it is ended.
        let mut argv: Vec<OsString> = ["unshare", "--mount", "--propagation", "private", "--pid"]
            .into_iter()
            .chain(["--fork", "--kill-child", "debootstrap"])
            .chain(["--variant=minbase", suite])
            .map(OsString::from)
            .collect();
        argv.push(tree.clone().into());
        argv.extend(mirror.map(OsString::from));
        let bounds = Bounds {
            free_bytes_min: self.limits.free_bytes_min,
            group: None,
        };
        DEBOOTSTRAP.run(argv, &staging.work(), bounds, watch)?;
        tidy(&tree)?;
        let bytes = bytes_of(&tree)?;
        let source = format!("debootstrap {suite}");
        self.publish(
            name,
            &staging,
            source,
            ImageConfig::of_this_machine(),
            bytes,
        )
    }
}

fn check_suite(suite: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if suite.starts_with(|first: char| first.is_ascii_alphanumeric())
        && suite.len() <= 64
        && suite.bytes().all(is_allowed)
    {
        return Ok(());
    }
    Err(ImagesError::invalid(
        format!("suite `{suite}`"),
        "it is no name of a Debian release, as `bookworm` is",
    ))
}

fn check_mirror(mirror: &str) -> Result<()> {
    let is_address = ["http://", "https://", "file:///"]
        .iter()
        .any(|scheme| mirror.starts_with(scheme));
    if is_address && mirror.len() <= 1024 && mirror.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(ImagesError::invalid(
        format!("mirror `{mirror}`"),
        "it is no address that begins with http://, https:// or file:///",
    ))
}

/// Removes what an image does not need: device nodes, as boxes have their own, and downloaded packages.
fn tidy(tree: &Path) -> Result<()> {
    let root = ConfinedDir::open(tree).map_err(|error| from_files(tree, error))?;
    for (folder, ending) in [("dev", ""), ("var/cache/apt/archives", ".deb")] {
        let folder = Path::new(folder);
        let Ok(entries) = root.list(folder) else {
            continue;
        };
        for entry in entries {
            if entry.name.to_string_lossy().ends_with(ending) {
                let path = folder.join(&entry.name);
                root.remove_tree(&path)
                    .map_err(|error| from_files(&tree.join(&path), error))?;
            }
        }
    }
    Ok(())
}

/// The sizes of all files, links of one file counted once each.
fn bytes_of(tree: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut waiting = vec![tree.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        let failed = || ImagesError::io("list", &folder);
        for entry in fs::read_dir(&folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            // Of the entry itself: links are not followed.
            let found = entry.metadata().map_err(failed())?;
            if found.is_dir() {
                waiting.push(entry.path());
            } else if found.is_file() {
                bytes += found.len();
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_not_options() {
        for suite in ["bookworm", "trixie", "noble", "stable-backports"] {
            check_suite(suite).unwrap();
        }
        for suite in ["", "--verbose", "../x", "a b", "a\nb"] {
            assert!(check_suite(suite).is_err(), "{suite:?}");
        }
        for mirror in ["http://deb.debian.org/debian", "file:///srv/debian"] {
            check_mirror(mirror).unwrap();
        }
        for mirror in ["", "-x", "ssh://host/", "http://a b", "file://host"] {
            assert!(check_mirror(mirror).is_err(), "{mirror:?}");
        }
    }
}
