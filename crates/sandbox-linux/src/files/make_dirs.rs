//! Creating directories, step by step, each step resolved by the kernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod, fchown, fstat, mkdirat};
use rustix::io::Errno;

use super::descent::is_empty;
use super::nodes::PERMISSION_BITS;
use super::resolve::{self, open_child, resolution_error, try_open_confined};
use super::{ConfinedDir, FilesError, Owner, names};

const DIRECTORY_MODE: u32 = 0o755;

impl ConfinedDir {
    /// Creates a directory and its missing parents with mode 0755. An existing one is left as it is.
    pub fn create_dir_all(&self, path: &Path) -> Result<(), FilesError> {
        let _acting = self.act(path)?;
        self.open_or_create_dirs(path).map(drop)
    }

    /// Creates one directory with these permission bits, in a parent that exists.
    pub fn create_dir(&self, path: &Path, mode: u32) -> Result<(), FilesError> {
        let (parent, name) = names::split(path)?;
        let _acting = self.act(path)?;
        let parent = self.open_parent(parent, path)?;
        // Locked until its mode is known to be that of this directory.
        mkdirat(&parent, name, Mode::from_raw_mode(0o700))
            .and_then(|()| settle(parent.as_fd(), name, mode & PERMISSION_BITS, self.owner))
            .map_err(|errno| FilesError::from_errno("create directory", path, errno))
    }

    /// The directory at `path`, made if it is not there.
    pub(super) fn open_or_create_dirs(&self, path: &Path) -> Result<OwnedFd, FilesError> {
        let fd = match self.open_step(path) {
            Err(Errno::NOENT) => self.create_steps(path)?,
            outcome => outcome.map_err(|errno| resolution_error("open", path, errno))?,
        };
        resolve::refuse_kernel_interface(&fd, self.filesystem_kind, path)?;
        Ok(fd)
    }

    fn open_step(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        try_open_confined(self.as_fd(), self.resolve, path, flags)
    }

    /// Each prefix is resolved from the top, because a symlink on the way may lead back up and
    /// that must be judged against the whole tree. A new directory is made in the parent that
    /// the kernel resolved just before, by a plain name.
    fn create_steps(&self, path: &Path) -> Result<OwnedFd, FilesError> {
        let mut parent = self
            .fd
            .try_clone()
            .map_err(|source| FilesError::from_io("duplicate", path, source))?;
        for prefix in names::steps(path) {
            parent = match self.open_step(&prefix) {
                Err(Errno::NOENT) => {
                    let (_, name) = names::split(&prefix)?;
                    make_directory(parent.as_fd(), name, self.owner)
                        .map_err(|errno| resolution_error("create directory", path, errno))?;
                    self.open_step(&prefix)
                        .map_err(|errno| resolution_error("open", path, errno))?
                }
                outcome => outcome.map_err(|errno| resolution_error("open", path, errno))?,
            };
        }
        Ok(parent)
    }
}

/// Makes one directory. That it exists already is fine: whoever made it owns its mode.
pub(super) fn make_directory(
    parent: BorrowedFd<'_>,
    name: &Path,
    owner: Option<Owner>,
) -> Result<(), Errno> {
    match mkdirat(parent, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    settle(parent, name, DIRECTORY_MODE, owner)
}

/// Gives a directory that has just been made its mode and its owner.
fn settle(
    parent: BorrowedFd<'_>,
    name: &Path,
    mode: u32,
    owner: Option<Owner>,
) -> Result<(), Errno> {
    let directory = match open_child(parent, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(directory) => directory,
        // Taken away or swapped already. Opening it by the caller's path will judge what is there.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    // A box may swap in another directory that root once put there. Only one that is empty and still
    // ours is given away, so that such a swap gains it nothing.
    let ours = fstat(&directory)?.st_uid == crate::sys::file_access_uid();
    if !ours || !is_empty(&directory)? {
        return Ok(());
    }
    // The process's umask is not the box's business.
    fchmod(&directory, Mode::from_raw_mode(mode))?;
    if let Some(owner) = owner {
        fchown(&directory, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(())
}
