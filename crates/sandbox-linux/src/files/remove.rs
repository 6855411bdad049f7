//! Removing files and whole trees, without ever following a link.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, unlinkat};
use rustix::io::Errno;

use super::descent::{Descent, open_unlocking};
use super::{ConfinedDir, FilesError, names};

/// Subdirectories remembered per level; the rest is found by looking again.
const PENDING_MAX: usize = 256;

/// Directories that were filled again behind us before we give up.
const REFILLS_MAX: u32 = 4_096;

impl ConfinedDir {
    /// Removes one file, link, FIFO, socket or device node. A directory is [`FilesError::IsADirectory`].
    pub fn delete_file(&self, path: &Path) -> Result<(), FilesError> {
        let _acting = self.act(path)?;
        let (parent, name) = names::split(path)?;
        let parent = self.open_parent(parent, path)?;
        unlinkat(&parent, name, AtFlags::empty()).map_err(|errno| match errno {
            Errno::ISDIR => FilesError::IsADirectory {
                path: path.to_path_buf(),
            },
            errno => FilesError::from_errno("delete", path, errno),
        })
    }

    /// Removes whatever is at `path`, with all that is below it.
    ///
    /// Links are removed, not followed; mounts are not entered and make it fail. What was removed
    /// before a failure stays removed.
    pub fn remove_tree(&self, path: &Path) -> Result<(), FilesError> {
        let _acting = self.act(path)?;
        let (parent, name) = names::split(path)?;
        let parent = self.open_parent(parent, path)?;
        remove_entry(parent.as_fd(), name, path)
    }
}

/// Removes one entry of an opened directory, with all that is below it.
pub(super) fn remove_entry(
    parent: BorrowedFd<'_>,
    name: &Path,
    shown: &Path,
) -> Result<(), FilesError> {
    let failed = |errno| removal_error(shown, errno);
    match unlink_or_rmdir(parent, name, Expect::File).map_err(failed)? {
        Removed::Gone => return Ok(()),
        Removed::DirectoryLeft => {}
    }
    for _ in 0..REFILLS_MAX {
        match open_unlocking(parent, name) {
            Ok(top) => Removal::new(top).run().map_err(failed)?,
            // Swapped for something else meanwhile; the next line sees what.
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(failed(errno)),
        }
        match unlink_or_rmdir(parent, name, Expect::Directory) {
            Ok(Removed::Gone) | Err(Errno::NOENT) => return Ok(()),
            Ok(Removed::DirectoryLeft) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(failed(Errno::STALE))
}

fn removal_error(shown: &Path, errno: Errno) -> FilesError {
    match errno {
        Errno::STALE => FilesError::Unsettled {
            path: shown.to_path_buf(),
        },
        Errno::NOSYS => FilesError::KernelTooOld,
        errno => FilesError::from_errno("remove", shown, errno),
    }
}

#[derive(Clone, Copy)]
enum Expect {
    File,
    Directory,
}

enum Removed {
    Gone,
    DirectoryLeft,
}

/// Removes a file or an empty directory, whichever it turns out to be.
fn unlink_or_rmdir(parent: BorrowedFd<'_>, name: &Path, expect: Expect) -> Result<Removed, Errno> {
    if let Expect::File = expect {
        match unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            outcome => return outcome.map(|()| Removed::Gone),
        }
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(Removed::Gone),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removed::DirectoryLeft),
        Err(Errno::NOTDIR) => unlinkat(parent, name, AtFlags::empty()).map(|()| Removed::Gone),
        Err(errno) => Err(errno),
    }
}

/// The emptying of one directory.
struct Removal {
    descent: Descent,
    /// One per level, the top included.
    levels: Vec<Level>,
    refills: u32,
}

#[derive(Default)]
struct Level {
    /// This directory's name in the one above.
    name: PathBuf,
    /// Subdirectories that were not empty when last looked at.
    pending: Vec<OsString>,
}

impl Removal {
    fn new(top: OwnedFd) -> Self {
        Self {
            descent: Descent::new(top),
            levels: vec![Level::default()],
            refills: 0,
        }
    }

    fn run(mut self) -> Result<(), Errno> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                return Ok(());
            };
            if level.pending.is_empty() {
                level.pending = sweep(self.descent.as_fd())?;
            }
            match level.pending.pop() {
                Some(name) => self.go_down(PathBuf::from(name))?,
                None => self.go_up()?,
            }
        }
    }

    fn go_down(&mut self, name: PathBuf) -> Result<(), Errno> {
        match self.descent.enter_unlocking(&name) {
            Ok(()) => self.levels.push(Level {
                name,
                pending: Vec::new(),
            }),
            // Gone, or no directory any more: the next sweep of this level deals with it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => self.count_refill()?,
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// The current directory was found empty: leave it and remove it.
    fn go_up(&mut self) -> Result<(), Errno> {
        let Some(left) = self.levels.pop() else {
            return Ok(());
        };
        if self.levels.is_empty() {
            return Ok(());
        }
        self.descent.leave()?;
        match unlinkat(&self.descent, &left.name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                self.count_refill()
            }
            Err(errno) => Err(errno),
        }
    }

    fn count_refill(&mut self) -> Result<(), Errno> {
        self.refills += 1;
        if self.refills > REFILLS_MAX {
            return Err(Errno::STALE);
        }
        Ok(())
    }
}

/// Removes all that can be removed from a directory at once, and names some of the rest.
fn sweep(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut left = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = OsString::from_vec(name.to_vec());
        let expect = match entry.file_type() {
            FileType::Directory => Expect::Directory,
            FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Expect::File,
        };
        match unlink_or_rmdir(directory, Path::new(&name), expect) {
            Ok(Removed::Gone) | Err(Errno::NOENT) => {}
            Ok(Removed::DirectoryLeft) => left.push(name),
            Err(errno) => return Err(errno),
        }
        if left.len() == PENDING_MAX {
            break;
        }
    }
    Ok(left)
}
