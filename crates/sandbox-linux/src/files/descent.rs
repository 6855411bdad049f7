//! Walking a hostile tree of any depth with one descriptor.
//!
//! Going down opens a single name, never through a symlink or into another mount. Going up opens `..`
//! and believes it only when it is the very directory that we came from: a directory that was moved
//! meanwhile leads elsewhere, and ends the walk instead.
//!
//! **Invariant:** `current` is the directory given at the start, or was reached from it by names alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, chmod, fchmod, fstat, openat, statat};
use rustix::io::Errno;

use super::resolve::{open_child, open_child_in_mounts};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The owner's full rights, which removal needs.
const UNLOCKED: u32 = 0o700;

/// What tells one inode from another while both are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Descent {
    current: OwnedFd,
    above: Vec<Identity>,
}

impl Descent {
    /// Starts at a directory opened for reading.
    pub(crate) fn new(top: OwnedFd) -> Self {
        Self {
            current: top,
            above: Vec::new(),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Goes down one name. Fails when there would be no way back.
    pub(crate) fn enter(&mut self, name: &Path) -> Result<(), Errno> {
        let child = open_child(self.current.as_fd(), name, DIRECTORY)?;
        self.take(child)
    }

    /// [`enter`](Self::enter) that goes into other mounts too, if `admit` finds nothing wrong with what was opened.
    pub(super) fn enter_mounts(
        &mut self,
        name: &Path,
        admit: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let child = open_child_in_mounts(self.current.as_fd(), name, DIRECTORY)?;
        admit(&child)?;
        self.take(child)
    }

    /// [`enter`](Self::enter) for removal: also through directories that were locked by their mode.
    pub(super) fn enter_unlocking(&mut self, name: &Path) -> Result<(), Errno> {
        let child = open_unlocking(self.current.as_fd(), name)?;
        self.take(child)
    }

    fn take(&mut self, child: OwnedFd) -> Result<(), Errno> {
        let here = Identity::of(&fstat(&self.current)?);
        if Identity::of(&statat(&child, "..", AtFlags::empty())?) != here {
            return Err(Errno::STALE);
        }
        self.above.push(here);
        self.current = child;
        Ok(())
    }

    /// Goes up to where [`enter`](Self::enter) was called. ESTALE when the tree was moved about.
    pub(crate) fn leave(&mut self) -> Result<(), Errno> {
        let flags = DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let parent = openat(&self.current, "..", flags, Mode::empty())?;
        let found = Identity::of(&fstat(&parent)?);
        if self.above.pop() != Some(found) {
            return Err(Errno::STALE);
        }
        self.current = parent;
        Ok(())
    }
}

impl AsFd for Descent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.current.as_fd()
    }
}

/// Opens a directory that is about to be emptied, lifting modes such as 000 where that is permitted.
pub(super) fn open_unlocking(parent: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let directory = match open_child(parent, name, DIRECTORY) {
        Err(Errno::ACCESS) => {
            let locked = open_child(parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
            // A mode is changed by name or by an opened file, and this one cannot be opened; its own
            // descriptor's magic link is a name that nobody can swap.
            let number = std::os::fd::AsRawFd::as_raw_fd(&locked);
            chmod(
                format!("/proc/self/fd/{number}"),
                Mode::from_raw_mode(UNLOCKED),
            )
            .map_err(|_| Errno::ACCESS)?;
            open_child(parent, name, DIRECTORY)?
        }
        outcome => outcome?,
    };
    if fstat(&directory)?.st_mode & UNLOCKED != UNLOCKED {
        // Root needs no such right and may lack the one to change it; then the removal itself will tell.
        let _ = fchmod(&directory, Mode::from_raw_mode(UNLOCKED));
    }
    Ok(directory)
}

pub(super) fn is_empty(directory: impl AsFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            return Ok(false);
        }
    }
    Ok(true)
}
