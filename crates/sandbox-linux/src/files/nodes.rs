//! Named pipes, modes and owners: what is changed of an entry without writing to it.
//!
//! The entry is opened first, without following it and without any effect (`O_PATH`), and judged; it is then acted on
//! through that descriptor, under a name that nobody can swap: its own in `/proc/self/fd`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmod, chownat, fstat, mknodat, openat,
};
use rustix::io::Errno;

use super::resolve::{self, open_child};
use super::{ConfinedDir, FilesError, kind_of, names};

/// Setuid, setgid and sticky bits are never given.
pub(super) const PERMISSION_BITS: u32 = 0o777;

const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

impl ConfinedDir {
    /// Makes a named pipe with these permission bits, in a parent that exists.
    pub fn make_fifo(&self, path: &Path, mode: u32) -> Result<(), FilesError> {
        let (parent, name) = names::split(path)?;
        let _acting = self.act(path)?;
        let parent = self.open_parent(parent, path)?;
        // Nobody else's until it is what it should be.
        mknodat(&parent, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .and_then(|()| self.settle_fifo(parent.as_fd(), name, mode))
            .map_err(|errno| FilesError::from_errno("make the named pipe", path, errno))
    }

    fn settle_fifo(&self, parent: BorrowedFd<'_>, name: &Path, mode: u32) -> Result<(), Errno> {
        let made = match open_child(parent, name, ENTRY) {
            Ok(made) => made,
            // Taken away already, which is the box's right.
            Err(Errno::NOENT | Errno::XDEV) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let found = fstat(&made)?;
        let ours = found.st_uid == crate::sys::file_access_uid() && found.st_nlink == 1;
        if !ours || kind_of(&found) != FileType::Fifo {
            return Ok(());
        }
        if let Some(owner) = self.owner {
            change_owner(&made, owner.uid, owner.gid)?;
        }
        change_mode(&made, mode)
    }

    /// Opens a named pipe for reading and writing, non-blocking: opening waits for nobody, and the pipe does not end with
    /// the last writer in the box. Whoever has the other ends is the box: what is read is its word, and a write may
    /// find the pipe full for ever.
    pub fn open_fifo(&self, path: &Path) -> Result<OwnedFd, FilesError> {
        let _acting = self.act(path)?;
        let entry = self.open_entry(path)?;
        let found =
            fstat(&entry).map_err(|errno| FilesError::from_errno("inspect", path, errno))?;
        if kind_of(&found) != FileType::Fifo {
            return Err(FilesError::NotAFifo {
                path: path.to_path_buf(),
            });
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(CWD, unswappable_name(&entry), flags, Mode::empty())
            .map_err(|errno| FilesError::from_errno("open", path, errno))
    }

    /// Sets the permission bits of what is at `path`. A symlink is refused, not followed.
    ///
    /// As root, act as the box's user ([`acting_as`](Self::acting_as)): the entry may be a hard link to a file that is not
    /// the box's.
    pub fn set_mode(&self, path: &Path, mode: u32) -> Result<(), FilesError> {
        let _acting = self.act(path)?;
        let entry = self.open_entry(path)?;
        let found =
            fstat(&entry).map_err(|errno| FilesError::from_errno("inspect", path, errno))?;
        if kind_of(&found) == FileType::Symlink {
            return Err(FilesError::InvalidPath {
                path: path.to_path_buf(),
                reason: "is a symbolic link, which has no permissions",
            });
        }
        change_mode(&entry, mode)
            .map_err(|errno| FilesError::from_errno("change the mode of", path, errno))
    }

    /// Gives what is at `path` (of a symlink, the link itself) to these ids of the host.
    ///
    /// The same warning as for [`set_mode`](Self::set_mode). The kernel lets only root give files away, so for the box's
    /// user this is an error unless it changes nothing.
    pub fn set_owner(&self, path: &Path, uid: u32, gid: u32) -> Result<(), FilesError> {
        let _acting = self.act(path)?;
        let entry = self.open_entry(path)?;
        change_owner(&entry, Uid::from_raw(uid), Gid::from_raw(gid))
            .map_err(|errno| FilesError::from_errno("change the owner of", path, errno))
    }

    /// Opens an entry itself, whatever it is, without any effect on it.
    fn open_entry(&self, path: &Path) -> Result<OwnedFd, FilesError> {
        let entry = resolve::open_confined(self.as_fd(), self.resolve, path, ENTRY)?;
        resolve::refuse_kernel_interface(&entry, self.filesystem_kind, path)?;
        Ok(entry)
    }
}

fn unswappable_name(entry: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", entry.as_raw_fd())
}

fn change_mode(entry: &OwnedFd, mode: u32) -> Result<(), Errno> {
    chmod(
        unswappable_name(entry),
        Mode::from_raw_mode(mode & PERMISSION_BITS),
    )
}

fn change_owner(entry: &OwnedFd, uid: Uid, gid: Gid) -> Result<(), Errno> {
    chownat(entry, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
}
