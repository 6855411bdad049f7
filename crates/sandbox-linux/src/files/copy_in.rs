//! Refreshing a tree from the host.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chownat, fstat, openat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::copy::{CopyLimits, CopyReport, Destination, Incoming, Placed, SkipReason, copy_tree};
use super::descent::Descent;
use super::make_dirs::make_directory;
use super::resolve::open_child;
use super::write::{Permissions, Target, Temporary, WriteOptions};
use super::{ConfinedDir, FilesError, Owner, kind_of, names};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl ConfinedDir {
    /// Lays the host's directory `host_src` over the directory at `path`, which is made if missing.
    ///
    /// - What the host has is added or replaced, file by file, each in one step; execute bits as on the host.
    /// - What the host does not have is left alone: nothing below `path` is removed, except a file or link
    ///   that stands where the host has a directory.
    /// - Symlinks are copied as links, and only those that stay inside `host_src`; they are never
    ///   followed, on either side. The others, and special files, are in [`CopyReport::skipped`].
    /// - Not atomic as a whole: a failure leaves what was copied so far.
    pub fn copy_tree_in(
        &self,
        host_src: &Path,
        path: &Path,
        limits: CopyLimits,
    ) -> Result<CopyReport, FilesError> {
        self.refuse_two_identities(path)?;
        let source = openat(CWD, host_src, DIRECTORY, Mode::empty())
            .map_err(|errno| FilesError::from_errno("open", host_src, errno))?;
        let top = self.open_or_create_dirs(path)?;
        let top = openat(&top, ".", DIRECTORY, Mode::empty())
            .map_err(|errno| FilesError::from_errno("open", path, errno))?;
        let mut tree = BoxTree {
            descent: Descent::new(top),
            owner: self.owner,
        };
        copy_tree(source, &mut tree, limits)
    }
}

/// The tree that is written to, hostile at every step.
struct BoxTree {
    descent: Descent,
    owner: Option<Owner>,
}

impl BoxTree {
    fn target<'a>(&'a self, name: &'a Path, shown: &'a Path) -> Target<'a> {
        Target {
            directory: self.descent.as_fd(),
            name,
            shown,
            owner: self.owner,
            // Such a copy is refused.
            act_as: None,
        }
    }

    fn make_and_enter(&mut self, name: &Path) -> Result<(), Errno> {
        make_directory(self.descent.as_fd(), name, self.owner)?;
        self.descent.enter(name)
    }
}

impl Destination for BoxTree {
    fn enter(&mut self, name: &Path, shown: &Path, _mode: u32) -> Result<Placed, FilesError> {
        let outcome = match self.make_and_enter(name) {
            // A file or a link has the name; the host's directory takes its place.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                match unlinkat(&self.descent, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => self.make_and_enter(name),
                    Err(errno) => Err(errno),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => Ok(Placed::Copied { bytes: 0 }),
            Err(Errno::XDEV) => Ok(Placed::Skipped(SkipReason::OtherMount)),
            Err(errno) => Err(tree_error(shown, errno)),
        }
    }

    fn leave(&mut self, shown: &Path) -> Result<(), FilesError> {
        self.descent
            .leave()
            .map_err(|errno| tree_error(shown, errno))
    }

    fn file(&mut self, mut incoming: Incoming<'_>) -> Result<Placed, FilesError> {
        let options = WriteOptions {
            permissions: Permissions::Exactly(incoming.mode),
            bytes_max: Some(incoming.bytes_max),
            ..WriteOptions::default()
        };
        let target = self.target(incoming.name, incoming.shown);
        unless_directory(target.replace(&mut incoming.file, options))
    }

    fn link(&mut self, name: &Path, shown: &Path, target: &OsStr) -> Result<Placed, FilesError> {
        let temporary_name = names::temporary_name();
        symlinkat(target, &self.descent, &temporary_name)
            .map_err(|errno| tree_error(shown, errno))?;
        let temporary = Temporary::new(self.descent.as_fd(), temporary_name.clone(), None);
        if let Some(owner) = self.owner {
            give_link(&self.descent, &temporary_name, owner)
                .map_err(|errno| tree_error(shown, errno))?;
        }
        unless_directory(temporary.rename_to(&self.target(name, shown)).map(|()| 0))
    }
}

/// Changes a link's owner by its descriptor: under its name the box may by now have put a hard link to
/// a file that it must not own.
fn give_link(parent: &Descent, name: &Path, owner: Owner) -> Result<(), Errno> {
    let link = open_child(parent.as_fd(), name, OFlags::PATH)?;
    let found = fstat(&link)?;
    let ours = found.st_uid == rustix::process::geteuid().as_raw();
    if kind_of(&found) != FileType::Symlink || !ours {
        return Err(Errno::STALE);
    }
    chownat(
        &link,
        "",
        Some(owner.uid),
        Some(owner.gid),
        AtFlags::EMPTY_PATH,
    )
}

fn unless_directory(outcome: Result<u64, FilesError>) -> Result<Placed, FilesError> {
    match outcome {
        Ok(bytes) => Ok(Placed::Copied { bytes }),
        Err(FilesError::NotAFile { .. }) => Ok(Placed::Skipped(SkipReason::DirectoryInTheWay)),
        Err(error) => Err(error),
    }
}

fn tree_error(shown: &Path, errno: Errno) -> FilesError {
    match errno {
        Errno::STALE | Errno::LOOP | Errno::NOTDIR | Errno::NOENT => FilesError::Unsettled {
            path: shown.to_path_buf(),
        },
        Errno::NOSYS => FilesError::KernelTooOld,
        errno => FilesError::from_errno("refresh", shown, errno),
    }
}
