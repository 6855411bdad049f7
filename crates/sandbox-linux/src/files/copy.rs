//! Copying a tree: the walk that both directions share.
//!
//! Every entry is judged by the descriptor that its content is then read from. What cannot be copied
//! is skipped and reported; what breaks a limit fails the whole copy.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, OFlags, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::descent::Descent;
use super::names::{LinkReach, link_reach};
use super::read::{read_names, size_of};
use super::resolve::open_child;
use super::{FilesError, kind_of};

/// How much a copy may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    pub bytes_max: u64,
    pub entries_max: u64,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self {
            bytes_max: 8 << 30,
            entries_max: 1_000_000,
        }
    }
}

/// What a copy did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    pub files: u64,
    pub directories: u64,
    pub links: u64,
    pub bytes: u64,
    pub skipped: Vec<Skipped>,
}

/// An entry that was left out, with its path below the top of the copied tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub reason: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// A FIFO, socket or device.
    Special,
    /// A symlink to an absolute path.
    AbsoluteLink,
    /// A symlink that leads out of the tree, or cannot be shown not to.
    ClimbingLink,
    /// The root of another mount.
    OtherMount,
    /// Its mode does not let us read it.
    Unreadable,
    /// It was swapped for something else while it was opened.
    Changed,
    /// The destination has a directory where the source has none. It is not removed.
    DirectoryInTheWay,
}

/// What became of one entry at the destination.
pub(super) enum Placed {
    Copied { bytes: u64 },
    Skipped(SkipReason),
}

/// A regular file on its way.
pub(super) struct Incoming<'a> {
    pub(super) name: &'a Path,
    /// Its path below the top, for messages.
    pub(super) shown: &'a Path,
    pub(super) file: File,
    /// Read and execute bits of all, write bit of the owner.
    pub(super) mode: u32,
    pub(super) bytes_max: u64,
}

/// Where a copy goes. The walk calls `leave` once for each `enter` that was not skipped.
pub(super) trait Destination {
    fn enter(&mut self, name: &Path, shown: &Path, mode: u32) -> Result<Placed, FilesError>;
    fn leave(&mut self, shown: &Path) -> Result<(), FilesError>;
    fn file(&mut self, incoming: Incoming<'_>) -> Result<Placed, FilesError>;
    fn link(&mut self, name: &Path, shown: &Path, target: &OsStr) -> Result<Placed, FilesError>;
}

/// Copies all below `top` (a directory opened for reading).
pub(super) fn copy_tree(
    top: OwnedFd,
    destination: &mut dyn Destination,
    limits: CopyLimits,
) -> Result<CopyReport, FilesError> {
    let mut copy = TreeCopy {
        source: Descent::new(top),
        destination,
        limits,
        entries: 0,
        at: PathBuf::new(),
        report: CopyReport::default(),
    };
    copy.run()?;
    Ok(copy.report)
}

struct TreeCopy<'a> {
    source: Descent,
    destination: &'a mut dyn Destination,
    limits: CopyLimits,
    entries: u64,
    /// The path of the entry at hand, below the top.
    at: PathBuf,
    report: CopyReport,
}

impl TreeCopy<'_> {
    fn run(&mut self) -> Result<(), FilesError> {
        let mut levels = vec![self.names_here()?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.pop() else {
                levels.pop();
                if !levels.is_empty() {
                    self.source
                        .leave()
                        .map_err(|errno| self.source_error(errno))?;
                    self.destination.leave(&self.at)?;
                    self.at.pop();
                }
                continue;
            };
            self.at.push(&name);
            match self.entry(Path::new(&name)) {
                Ok(Step::Entered) => {
                    levels.push(self.names_here()?);
                    continue;
                }
                Ok(Step::Done) => {}
                Ok(Step::Skipped(reason)) => self.report.skipped.push(Skipped {
                    path: self.at.clone(),
                    reason,
                }),
                Err(error) => return Err(error),
            }
            self.at.pop();
        }
        Ok(())
    }

    /// The names in the current directory, last first, and counted against the limit.
    fn names_here(&mut self) -> Result<Vec<OsString>, FilesError> {
        let left = self.limits.entries_max - self.entries;
        let mut names = match read_names(&self.source, left, &self.at) {
            // The limit to tell is that of the whole copy.
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

    fn entry(&mut self, name: &Path) -> Result<Step, FilesError> {
        let found = match statat(&self.source, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(errno) => return self.unopened(errno),
        };
        // This look only chooses what to try; each attempt finds out by itself what it opened.
        match kind_of(&found) {
            FileType::Directory => self.directory(name, found.st_mode),
            FileType::RegularFile => self.file(name),
            FileType::Symlink => self.link(name),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(Step::Skipped(SkipReason::Special)),
        }
    }

    fn directory(&mut self, name: &Path, mode: u32) -> Result<Step, FilesError> {
        if let Err(errno) = self.source.enter(name) {
            return self.unopened(errno);
        }
        match self
            .destination
            .enter(name, &self.at, mode & 0o755 | 0o700)?
        {
            Placed::Copied { .. } => {
                self.report.directories += 1;
                Ok(Step::Entered)
            }
            Placed::Skipped(reason) => {
                self.source
                    .leave()
                    .map_err(|errno| self.source_error(errno))?;
                Ok(Step::Skipped(reason))
            }
        }
    }

    fn file(&mut self, name: &Path) -> Result<Step, FilesError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = open_child(self.source.as_fd(), name, flags)
            .and_then(|fd| fstat(&fd).map(|found| (fd, found)));
        let (fd, found) = match opened {
            Ok(opened) => opened,
            Err(errno) => return self.unopened(errno),
        };
        if kind_of(&found) != FileType::RegularFile {
            return Ok(Step::Skipped(SkipReason::Changed));
        }
        let bytes_left = self.limits.bytes_max - self.report.bytes;
        let too_large = FilesError::TooLarge {
            path: self.at.clone(),
            bytes_max: self.limits.bytes_max,
        };
        if size_of(&found) > bytes_left {
            return Err(too_large);
        }
        let placed = self.destination.file(Incoming {
            name,
            shown: &self.at,
            file: File::from(fd),
            mode: found.st_mode & 0o755 | 0o600,
            bytes_max: bytes_left,
        });
        match placed {
            Ok(Placed::Copied { bytes }) => {
                self.report.files += 1;
                self.report.bytes += bytes;
                Ok(Step::Done)
            }
            Ok(Placed::Skipped(reason)) => Ok(Step::Skipped(reason)),
            // It grew while it was read; the limit to tell is that of the whole copy.
            Err(FilesError::TooLarge { .. }) => Err(too_large),
            Err(error) => Err(error),
        }
    }

    fn link(&mut self, name: &Path) -> Result<Step, FilesError> {
        let target = match readlinkat(&self.source, name, Vec::new()) {
            Ok(target) => OsString::from_vec(target.into_bytes()),
            Err(Errno::INVAL) => return Ok(Step::Skipped(SkipReason::Changed)),
            Err(errno) => return self.unopened(errno),
        };
        match link_reach(&target, self.source.depth()) {
            LinkReach::Inside => {}
            LinkReach::Absolute => return Ok(Step::Skipped(SkipReason::AbsoluteLink)),
            LinkReach::Climbs => return Ok(Step::Skipped(SkipReason::ClimbingLink)),
        }
        match self.destination.link(name, &self.at, &target)? {
            Placed::Copied { .. } => {
                self.report.links += 1;
                Ok(Step::Done)
            }
            Placed::Skipped(reason) => Ok(Step::Skipped(reason)),
        }
    }

    /// An entry that could not be opened: some reasons concern it alone, others the whole copy.
    fn unopened(&self, errno: Errno) -> Result<Step, FilesError> {
        match errno {
            // Removed since the directory was read: then it is not in the tree.
            Errno::NOENT => Ok(Step::Done),
            Errno::XDEV => Ok(Step::Skipped(SkipReason::OtherMount)),
            Errno::ACCESS | Errno::PERM => Ok(Step::Skipped(SkipReason::Unreadable)),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::AGAIN | Errno::STALE => {
                Ok(Step::Skipped(SkipReason::Changed))
            }
            errno => Err(self.source_error(errno)),
        }
    }

    fn source_error(&self, errno: Errno) -> FilesError {
        match errno {
            Errno::STALE => FilesError::Unsettled {
                path: self.at.clone(),
            },
            Errno::NOSYS => FilesError::KernelTooOld,
            errno => FilesError::from_errno("copy", &self.at, errno),
        }
    }
}

enum Step {
    Entered,
    Done,
    Skipped(SkipReason),
}
