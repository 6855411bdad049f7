//! The folder of finished images, and what is on its way there.
//!
//! ```text
//! <directory>/               0700, root: setuid files of images are out of reach for users of the host
//!     .lock                  held while staging folders are made or swept
//!     .staging-<random>/     locked by its import; swept when that is gone
//!         image/             becomes <name>/ by one rename
//!         work/              downloads, a builder's storage
//!     <name>/image.json
//!     <name>/layers/0/       the tree
//! ```
//!
//! **Invariant:** a folder that has an image's name is complete, on the disk, and never changes.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::ConfinedDir;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::config::{IMAGE_FILE_VERSION, ImageConfig, ImageFile};
use crate::error::{ImagesError, Result};
use crate::watch::Limits;

const LOCK: &str = ".lock";
const STAGING_PREFIX: &str = ".staging-";
const IMAGE_FILE: &str = "image.json";
const LAYER: &str = "layers/0";
const NAME_BYTES_MAX: usize = 128;
const IMAGE_FILE_BYTES_MAX: u64 = 1 << 20;

/// A folder of images. Processes may share it.
#[derive(Debug, Clone)]
pub struct Images {
    directory: PathBuf,
    pub(crate) limits: Limits,
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedImage {
    pub name: String,
    /// Where it came from, for people.
    pub source: String,
    pub config: ImageConfig,
    /// The trees that make its root, lowest first. There is one: layers are flattened.
    pub layers: Vec<PathBuf>,
    /// Bytes that were written while unpacking.
    pub bytes: u64,
}

impl Images {
    /// Opens the folder, and makes it if it is absent. Leftovers of imports that died are removed.
    pub fn open(directory: &Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(ImagesError::NeedsRoot);
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(ImagesError::io("make", directory))?;
        let found =
            fs::symlink_metadata(directory).map_err(ImagesError::io("inspect", directory))?;
        if !found.is_dir() || found.uid() != 0 || found.mode() & 0o077 != 0 {
            return Err(ImagesError::UnsafeDirectory {
                path: directory.to_path_buf(),
            });
        }
        let images = Self {
            directory: directory.to_path_buf(),
            limits: Limits::default(),
        };
        images.sweep()?;
        Ok(images)
    }

    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// An image that was imported before.
    pub fn get(&self, name: &str) -> Result<ImportedImage> {
        let folder = self.folder_of(name)?;
        let path = folder.join(IMAGE_FILE);
        let missing = |_| ImagesError::NotFound {
            name: name.to_owned(),
        };
        let text = ConfinedDir::open(&folder)
            .map_err(missing)?
            .read(Path::new(IMAGE_FILE), IMAGE_FILE_BYTES_MAX)
            .map_err(missing)?;
        let unreadable =
            |reason: String| ImagesError::invalid(format!("`{}`", path.display()), reason);
        let file: ImageFile =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if file.version != IMAGE_FILE_VERSION {
            return Err(unreadable(format!(
                "it has version {}, this program knows {IMAGE_FILE_VERSION}",
                file.version
            )));
        }
        Ok(ImportedImage {
            name: name.to_owned(),
            source: file.source,
            config: file.config,
            layers: file.layers.iter().map(|layer| folder.join(layer)).collect(),
            bytes: file.bytes,
        })
    }

    /// The names of all images, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        let failed = || ImagesError::io("list", &self.directory);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            if let Some(name) = name.to_str().filter(|name| is_valid_name(name)) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Removes an image. Boxes that run on it must have ended.
    pub fn remove(&self, name: &str) -> Result<()> {
        let folder = self.folder_of(name)?;
        // Its name is gone at once, and half an image is never seen.
        let staging = self.stage()?;
        match fs::rename(&folder, staging.path.join("image/removed")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ImagesError::NotFound {
                    name: name.to_owned(),
                })
            }
            outcome => outcome.map_err(ImagesError::io("remove", &folder)),
        }
    }

    /// Fails early for a name that cannot be had.
    pub(crate) fn check_name_is_free(&self, name: &str) -> Result<()> {
        if self.folder_of(name)?.exists() {
            return Err(ImagesError::AlreadyExists {
                name: name.to_owned(),
            });
        }
        Ok(())
    }

    fn folder_of(&self, name: &str) -> Result<PathBuf> {
        if !is_valid_name(name) {
            return Err(ImagesError::InvalidName {
                name: name.to_owned(),
            });
        }
        Ok(self.directory.join(name))
    }

    /// A private place for one import.
    pub(crate) fn stage(&self) -> Result<Staging> {
        let _lock = self.lock()?;
        let name = format!("{STAGING_PREFIX}{}", holm_sandbox_linux::random_hex());
        let path = self.directory.join(name);
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        for folder in [path.clone(), path.join("image"), path.join("work")] {
            builder
                .create(&folder)
                .map_err(ImagesError::io("make", &folder))?;
        }
        let held = File::open(&path).map_err(ImagesError::io("open", &path))?;
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive)
            .map_err(ImagesError::errno("lock", &path))?;
        let staging = Staging { path, held };
        let layer = staging.tree();
        // The root of an image whose archive does not mention it.
        for (folder, mode) in [(layer.parent().unwrap_or(&layer), 0o700), (&layer, 0o755)] {
            fs::DirBuilder::new()
                .create(folder)
                .and_then(|()| {
                    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(mode))
                })
                .map_err(ImagesError::io("make", folder))?;
        }
        Ok(staging)
    }

    /// Gives a complete image its name.
    pub(crate) fn publish(
        &self,
        name: &str,
        staging: &Staging,
        source: String,
        config: ImageConfig,
        bytes: u64,
    ) -> Result<ImportedImage> {
        let folder = self.folder_of(name)?;
        let file = ImageFile {
            version: IMAGE_FILE_VERSION,
            source,
            config,
            layers: vec![PathBuf::from(LAYER)],
            bytes,
        };
        let path = staging.path.join("image").join(IMAGE_FILE);
        let text = serde_json::to_vec_pretty(&file)
            .map_err(|error| ImagesError::invalid("the image's description", error.to_string()))?;
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(&text))
            .map_err(ImagesError::io("write", &path))?;
        // One sync of the file system costs less than one of each file.
        rustix::fs::syncfs(&staging.held).map_err(ImagesError::errno("sync", &staging.path))?;
        let image = staging.path.join("image");
        match rustix::fs::renameat_with(CWD, &image, CWD, &folder, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {
                return Err(ImagesError::AlreadyExists {
                    name: name.to_owned(),
                });
            }
            outcome => outcome.map_err(ImagesError::errno("name", &folder))?,
        }
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(ImagesError::io("sync", &self.directory))?;
        self.get(name)
    }

    fn lock(&self) -> Result<File> {
        let path = self.directory.join(LOCK);
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(ImagesError::io("open", &path))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .map_err(ImagesError::errno("lock", &path))?;
        Ok(file)
    }

    /// Removes staging folders whose import has died.
    fn sweep(&self) -> Result<()> {
        let _lock = self.lock()?;
        let failed = || ImagesError::io("list", &self.directory);
        for entry in fs::read_dir(&self.directory).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let is_staging = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(STAGING_PREFIX));
            if !is_staging {
                continue;
            }
            // Gone since it was listed: its import has just ended.
            let Ok(held) = File::open(entry.path()) else {
                continue;
            };
            if rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_folder(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// A private place for one import, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    held: File,
}

impl Staging {
    /// Where the image's root is made.
    pub(crate) fn tree(&self) -> PathBuf {
        self.path.join("image").join(LAYER)
    }

    /// For what is needed on the way only.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is swept when the folder is opened again.
        drop(remove_folder(&self.path));
    }
}

/// Removes a tree however deep it is.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    ConfinedDir::open(parent)
        .and_then(|parent| parent.remove_tree(Path::new(name)))
        .map_err(|error| ImagesError::Io {
            doing: "remove",
            path: path.to_path_buf(),
            source: std::io::Error::other(error),
        })
}

/// What an ordinary process could still write to the disk of `path`.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(path).map_err(ImagesError::errno("inspect", path))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn is_valid_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(is_allowed)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for valid in ["a", "debian-12", "0.1_x", &"a".repeat(128)] {
            assert!(is_valid_name(valid), "{valid}");
        }
        for invalid in [
            "",
            ".",
            "..",
            ".lock",
            "a/b",
            "a b",
            "ä",
            "-a",
            &"a".repeat(129),
        ] {
            assert!(!is_valid_name(invalid), "{invalid}");
        }
    }
}
