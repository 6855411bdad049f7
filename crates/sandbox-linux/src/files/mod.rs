//! File operations below a directory, confined by the kernel.
//!
//! The tree belongs to an attacker: code in a box may rename, swap directories for symlinks and plant
//! FIFOs, sockets, devices and hard links while we work, and we may be root on the host. Hence:
//!
//! - A caller's path is resolved by `openat2` alone (`resolve`); no string test decides anything.
//! - What was opened is judged by its descriptor (`fstat`), never by a second look at its name.
//! - The last component of a path that is written or removed is never followed. Writing replaces
//!   whatever has that name (file, link, FIFO), so a hard link to elsewhere is broken, not written to.
//! - Ownership and mode are changed through descriptors, and only of what we have just made.
//! - Walks (`descent`) use neither recursion nor a descriptor per level. Those that copy or remove enter no other mount; the
//!   one that only looks (`walk`) does, but never one of the kernel's own.
//!
//! A [`ConfinedDir`] confines *where* we look, not *whose* files are there: content that comes back is the box's
//! word. For those who speak for the box's user, [`ConfinedDir::acting_as`] confines *what we may do* too. Operations on one tree may run at the same time; each is atomic only as far as it says.

mod acting;
mod copy;
mod copy_in;
mod copy_out;
pub(crate) mod descent;
mod error;
mod make_dirs;
mod names;
mod nodes;
mod read;
mod remove;
mod rename;
pub(crate) mod resolve;
mod staged;
mod walk;
mod write;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_acting;
#[cfg(test)]
mod tests_hostile;
#[cfg(test)]
mod tests_kernel;
#[cfg(test)]
mod tests_nodes;
#[cfg(test)]
mod tests_staged;
#[cfg(test)]
mod tests_trees;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};

use acting::{ActAs, Acting};

pub use copy::{CopyLimits, CopyReport, SkipReason, Skipped};
pub use error::FilesError;
pub use read::{Entry, EntryKind, Metadata};
pub use rename::Replace;
pub use resolve::Resolve;
pub use staged::StagedFile;
pub use walk::{Walk, WalkEntry, WalkLimits};
pub use write::{Durability, FILE_MODE_DEFAULT, Permissions, WriteOptions};

/// A directory below which files can be worked on, and outside of which nothing is touched.
#[derive(Debug)]
pub struct ConfinedDir {
    fd: OwnedFd,
    resolve: Resolve,
    owner: Option<Owner>,
    act_as: Option<ActAs>,
    filesystem_kind: u64,
}

/// Who gets what we create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    uid: rustix::fs::Uid,
    gid: rustix::fs::Gid,
}

impl ConfinedDir {
    /// Confines to the directory behind `fd` (`O_PATH` is enough).
    pub fn new(fd: OwnedFd) -> Result<Self, FilesError> {
        let here = Path::new(".");
        let found = fstat(&fd).map_err(|errno| FilesError::from_errno("inspect", here, errno))?;
        if kind_of(&found) != FileType::Directory {
            return Err(FilesError::NotADirectory {
                path: here.to_path_buf(),
            });
        }
        let filesystem_kind = resolve::filesystem_kind(&fd)
            .map_err(|errno| FilesError::from_errno("find the file system of", here, errno))?;
        Ok(Self {
            fd,
            resolve: Resolve::default(),
            owner: None,
            act_as: None,
            filesystem_kind,
        })
    }

    /// Confines to the directory at a path of the host. This path is trusted: symlinks in it are followed.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| FilesError::from_errno("open", path, errno))?;
        Self::new(fd)
    }

    /// Chooses what absolute symlinks mean.
    #[must_use]
    pub fn resolving(self, resolve: Resolve) -> Self {
        Self { resolve, ..self }
    }

    /// Gives every new file and directory to these ids (which takes root).
    #[must_use]
    pub fn owned_by(self, uid: u32, gid: u32) -> Self {
        let owner = Owner {
            uid: rustix::fs::Uid::from_raw(uid),
            gid: rustix::fs::Gid::from_raw(gid),
        };
        Self {
            owner: Some(owner),
            ..self
        }
    }

    /// Does everything with the rights of these ids and of no group else, so that permissions mean what they mean to the
    /// box's user. What is made belongs to them by nature. For root only; others have no more rights than their boxes.
    ///
    /// Each operation changes the calling thread's identity for file access and changes it back before it returns.
    /// Copies from and to the host, which would have two identities, are refused.
    #[must_use]
    pub fn acting_as(self, uid: u32, gid: u32) -> Self {
        Self {
            act_as: ActAs::new(uid, gid),
            ..self
        }
    }

    /// Whoever works below this directory holds this meanwhile.
    fn act(&self, path: &Path) -> Result<Option<Acting>, FilesError> {
        acting::begin(self.act_as, path)
    }

    fn refuse_two_identities(&self, path: &Path) -> Result<(), FilesError> {
        match self.act_as {
            None => Ok(()),
            Some(_) => Err(FilesError::TwoIdentities {
                path: path.to_path_buf(),
            }),
        }
    }

    /// A second handle on the same directory, with the same choices.
    pub fn try_clone(&self) -> Result<Self, FilesError> {
        let fd = self
            .fd
            .try_clone()
            .map_err(|source| FilesError::from_io("duplicate", Path::new("."), source))?;
        Ok(Self { fd, ..*self })
    }

    /// Narrows to a directory below. The handle stays with that directory when it is renamed.
    pub fn subdir(&self, path: &Path) -> Result<Self, FilesError> {
        let _acting = self.act(path)?;
        let fd = self.open_directory(path, OFlags::PATH)?;
        let filesystem_kind = resolve::filesystem_kind(&fd)
            .map_err(|errno| FilesError::from_errno("find the file system of", path, errno))?;
        Ok(Self {
            fd,
            filesystem_kind,
            ..*self
        })
    }

    /// Opens the directory in which a name is to be acted on; errors speak of the whole `path`.
    fn open_parent(&self, parent: &Path, path: &Path) -> Result<OwnedFd, FilesError> {
        self.open_directory(parent, OFlags::PATH)
            .map_err(|error| error.naming(path))
    }

    /// Opens a directory below, refusing those of the kernel's own file systems.
    fn open_directory(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FilesError> {
        let flags = flags | OFlags::DIRECTORY;
        let fd = resolve::open_confined(self.as_fd(), self.resolve, path, flags)?;
        resolve::refuse_kernel_interface(&fd, self.filesystem_kind, path)?;
        Ok(fd)
    }
}

impl AsFd for ConfinedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn kind_of(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}
