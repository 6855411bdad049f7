//! Looking through a whole tree, one entry at a time.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, OFlags, statat};
use rustix::io::Errno;

use super::acting::{ActAs, begin};
use super::descent::Descent;
use super::read::{Metadata, metadata_of, read_names};
use super::resolve::is_kernel_interface;
use super::{ConfinedDir, FilesError, kind_of};

/// How much a walk may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimits {
    /// More entries than this end the walk with [`FilesError::TooManyEntries`].
    pub entries_max: u64,
    /// Directories so deep below the top are told and not entered; at 0 the top alone is read.
    pub depth_max: usize,
}

/// One entry. A symlink is described itself, not what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Below the directory that the walk began with.
    pub path: PathBuf,
    pub metadata: Metadata,
}

impl ConfinedDir {
    /// Walks through all below `path`: a directory before what is in it, names in the order of their bytes.
    ///
    /// Links are not followed. Other mounts are entered, except those of the kernel's own file systems (`/proc` and its like);
    /// whoever wants to leave out more calls [`Walk::skip_directory`]. A directory that cannot be read, or that is swapped for
    /// something else meanwhile, is told and not entered. Nothing of the caller's runs with the rights of
    /// [`acting_as`](Self::acting_as).
    pub fn walk(&self, path: &Path, limits: WalkLimits) -> Result<Walk, FilesError> {
        let _acting = self.act(path)?;
        let top = self.open_directory(path, OFlags::RDONLY)?;
        let mut walk = Walk {
            descent: Descent::new(top),
            act_as: self.act_as,
            base_kind: self.filesystem_kind,
            limits,
            entries: 0,
            at: PathBuf::new(),
            levels: Vec::new(),
            directory: None,
        };
        let names = walk.names_here()?;
        walk.levels.push(names);
        Ok(walk)
    }
}

/// A walk on its way. After an error it is over.
#[derive(Debug)]
pub struct Walk {
    descent: Descent,
    act_as: Option<ActAs>,
    base_kind: u64,
    limits: WalkLimits,
    entries: u64,
    /// The path of the directory at hand, and of `directory` below it.
    at: PathBuf,
    /// What is left of each directory on the way, last first.
    levels: Vec<Vec<OsString>>,
    /// The directory that was told last, to be entered next.
    directory: Option<OsString>,
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, FilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose()?;
        if next.is_err() {
            self.levels.clear();
            self.directory = None;
        }
        Some(next)
    }
}

impl Walk {
    /// Leaves out what is in the directory that was told last. After any other entry this does nothing.
    pub fn skip_directory(&mut self) {
        if self.directory.take().is_some() {
            self.at.pop();
        }
    }

    fn advance(&mut self) -> Result<Option<WalkEntry>, FilesError> {
        if self.levels.is_empty() {
            return Ok(None);
        }
        let _acting = begin(self.act_as, &self.at)?;
        if let Some(name) = self.directory.take() {
            self.enter(Path::new(&name))?;
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.pop() else {
                self.leave()?;
                continue;
            };
            let found = match statat(&self.descent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // Removed since the directory was read, or in a directory that may be listed and not entered.
                Err(Errno::NOENT | Errno::ACCESS) => continue,
                Err(errno) => return Err(self.failed(errno)),
            };
            self.at.push(&name);
            let entry = WalkEntry {
                path: self.at.clone(),
                metadata: metadata_of(&found),
            };
            if kind_of(&found) == FileType::Directory {
                self.directory = Some(name);
            } else {
                self.at.pop();
            }
            return Ok(Some(entry));
        }
        Ok(None)
    }

    fn enter(&mut self, name: &Path) -> Result<(), FilesError> {
        let entered = if self.levels.len() > self.limits.depth_max {
            Err(Errno::XDEV)
        } else {
            let base_kind = self.base_kind;
            self.descent
                .enter_mounts(name, |child| match is_kernel_interface(child, base_kind)? {
                    true => Err(Errno::XDEV),
                    false => Ok(()),
                })
        };
        match entered {
            Ok(()) => {
                let names = self.names_here()?;
                self.levels.push(names);
                Ok(())
            }
            // These concern this directory alone.
            Err(
                Errno::ACCESS
                | Errno::PERM
                | Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::AGAIN
                | Errno::STALE,
            ) => {
                self.at.pop();
                Ok(())
            }
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn leave(&mut self) -> Result<(), FilesError> {
        self.levels.pop();
        if !self.levels.is_empty() {
            self.descent.leave().map_err(|errno| self.failed(errno))?;
            self.at.pop();
        }
        Ok(())
    }

    /// The names in the current directory, last first, and counted against the limit.
    fn names_here(&mut self) -> Result<Vec<OsString>, FilesError> {
        let left = self.limits.entries_max.saturating_sub(self.entries);
        let mut names = match read_names(self.descent.as_fd(), left, &self.at) {
            // The limit to tell is that of the whole walk.
            Err(FilesError::TooManyEntries { path, .. }) => {
                return Err(FilesError::TooManyEntries {
                    path,
                    entries_max: self.limits.entries_max,
                });
            }
            outcome => outcome?,
        };
        self.entries += u64::try_from(names.len()).unwrap_or(left);
        names.sort_unstable_by(|left, right| right.cmp(left));
        Ok(names)
    }

    fn failed(&self, errno: Errno) -> FilesError {
        match errno {
            Errno::STALE => FilesError::Unsettled {
                path: self.at.clone(),
            },
            Errno::NOSYS => FilesError::KernelTooOld,
            errno => FilesError::from_errno("walk through", &self.at, errno),
        }
    }
}
