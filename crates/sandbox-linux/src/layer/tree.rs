//! The walk over a layer, and what becomes of each kind of entry.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::data::Data;
use super::{LayerOptions, LayerReport, attributes};
use crate::error::{EngineError, Result};
use crate::files::descent::Descent;
use crate::files::resolve::open_child;

/// Folders in folders. What lies deeper cannot be named from the root of a box.
const DEPTH_MAX: usize = 2048;

/// Folders remembered per level; the rest is found by reading on.
const PENDING_MAX: usize = 32;

/// The copying of one layer.
pub(super) struct Copy<'a> {
    from: &'a Path,
    source: Descent,
    target: Descent,
    /// Files that have more than one name, by their inode.
    links: OwnedFd,
    levels: Vec<Level>,
    options: LayerOptions,
    data: Data,
    report: LayerReport,
}

#[derive(Default)]
struct Level {
    /// This folder's name in the one above.
    name: PathBuf,
    /// Folders that are still to be entered.
    pending: Vec<OsString>,
    reading: Reading,
}

/// How far the entries of a folder have been read.
#[derive(Clone, Copy)]
enum Reading {
    UpTo(i64),
    Done,
}

impl Default for Reading {
    fn default() -> Self {
        Self::UpTo(0)
    }
}

/// Why a copy stops.
enum Stop {
    Kernel(Errno),
    TooDeep,
    TooBig,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        from: &'a Path,
        source: OwnedFd,
        target: OwnedFd,
        links: OwnedFd,
        options: LayerOptions,
    ) -> Self {
        Self {
            from,
            source: Descent::new(source),
            target: Descent::new(target),
            links,
            levels: vec![Level::default()],
            options,
            data: Data::default(),
            report: LayerReport::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<LayerReport> {
        while !self.levels.is_empty() {
            if let Err((stop, name)) = self.turn() {
                return Err(self.error(stop, &name));
            }
        }
        Ok(self.report)
    }

    /// Enters a folder, reads on in one, or leaves it.
    fn turn(&mut self) -> std::result::Result<(), (Stop, PathBuf)> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        if let Some(name) = level.pending.pop() {
            let name = PathBuf::from(name);
            return self.go_down(&name).map_err(|stop| (stop, name));
        }
        match level.reading {
            Reading::UpTo(offset) => self.read_on(offset),
            Reading::Done => self.go_up().map_err(|stop| (stop, PathBuf::new())),
        }
    }

    fn go_down(&mut self, name: &Path) -> std::result::Result<(), Stop> {
        if self.source.depth() == DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        self.source.enter(name)?;
        rustix::fs::mkdirat(&self.target, name, Mode::RWXU)?;
        self.target.enter(name)?;
        self.levels.push(Level {
            name: name.to_path_buf(),
            ..Level::default()
        });
        Ok(())
    }

    /// Everything in the current folder has been copied: it gets what it had, and is left.
    fn go_up(&mut self) -> std::result::Result<(), Stop> {
        let [source, target] = [self.source.as_fd(), self.target.as_fd()]
            .map(|folder| rustix::io::fcntl_dupfd_cloexec(folder, 0));
        let (source, target) = (source?, target?);
        self.levels.pop();
        if !self.levels.is_empty() {
            // Before the folder may be closed to us by its mode.
            self.source.leave()?;
            self.target.leave()?;
        }
        attributes::copy_all(&source, &target, self.options.owners)?;
        self.report.entries += 1;
        Ok(())
    }

    fn read_on(&mut self, offset: i64) -> std::result::Result<(), (Stop, PathBuf)> {
        let here = |errno: Errno| (Stop::Kernel(errno), PathBuf::new());
        let mut folders = Vec::new();
        let mut entries = Dir::read_from(&self.source).map_err(here)?;
        if offset != 0 {
            entries.seek(offset).map_err(here)?;
        }
        let mut reading = Reading::Done;
        for entry in entries {
            let entry = entry.map_err(here)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = PathBuf::from(OsString::from_vec(name.to_vec()));
            match self.copy_entry(&name) {
                Ok(Copied::Whole) => {}
                Ok(Copied::FolderLeft) => folders.push(name.into_os_string()),
                Err(stop) => return Err((stop, name)),
            }
            if folders.len() == PENDING_MAX {
                reading = Reading::UpTo(entry.offset());
                break;
            }
        }
        if let Some(level) = self.levels.last_mut() {
            level.pending = folders;
            level.reading = reading;
        }
        Ok(())
    }

    fn copy_entry(&mut self, name: &Path) -> std::result::Result<Copied, Stop> {
        let found = rustix::fs::statat(&self.source, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => return Ok(Copied::FolderLeft),
            FileType::RegularFile => self.copy_file(name)?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&self.source, name, Vec::new())?;
                rustix::fs::symlinkat(target, &self.target, name)?;
                attributes::set_by_name(&self.target, name, &found, self.options.owners)?;
            }
            FileType::Fifo => {
                let mode = Mode::from_raw_mode(found.st_mode);
                rustix::fs::mknodat(&self.target, name, FileType::Fifo, mode, 0)?;
                attributes::set_by_name(&self.target, name, &found, self.options.owners)?;
                // Made a moment ago, in a folder that is ours alone: nothing to follow.
                rustix::fs::chmodat(&self.target, name, mode, AtFlags::empty())?;
            }
            // Overlayfs says so that a name of a lower layer is gone.
            FileType::CharacterDevice if found.st_rdev == 0 => {
                let kind = FileType::CharacterDevice;
                rustix::fs::mknodat(&self.target, name, kind, Mode::empty(), 0)?;
            }
            FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.report.skipped += 1;
                return Ok(Copied::Whole);
            }
        }
        self.report.entries += 1;
        Ok(Copied::Whole)
    }

    fn copy_file(&mut self, name: &Path) -> std::result::Result<(), Stop> {
        // Should it be another thing by now, opening it must not wait or do anything.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let source = open_child(self.source.as_fd(), name, flags)?;
        let found = rustix::fs::fstat(&source)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Errno::STALE.into());
        }
        let key = (found.st_nlink > 1).then(|| format!("{:x}-{:x}", found.st_dev, found.st_ino));
        if let Some(key) = &key {
            match rustix::fs::linkat(&self.links, key, &self.target, name, AtFlags::empty()) {
                Ok(()) => return Ok(()),
                // The first of its names, or one more than the file system allows beside ours.
                Err(Errno::NOENT | Errno::MLINK) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.count_bytes(&found)?;
        let target = rustix::fs::openat(
            &self.target,
            name,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )?;
        self.report.reflinks += self.data.copy(&source, &target, &found)?;
        attributes::copy_all(&source, &target, self.options.owners)?;
        if let Some(key) = key {
            match rustix::fs::linkat(&self.target, name, &self.links, key, AtFlags::empty()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn count_bytes(&mut self, found: &Stat) -> std::result::Result<(), Stop> {
        let [size, blocks] =
            [found.st_size, found.st_blocks].map(|number| u64::try_from(number).unwrap_or(0));
        self.report.bytes += size.min(blocks.saturating_mul(512));
        match self.options.bytes_max {
            Some(max) if self.report.bytes > max => Err(Stop::TooBig),
            Some(_) | None => Ok(()),
        }
    }

    fn error(&self, stop: Stop, name: &Path) -> EngineError {
        let mut path = self.from.to_path_buf();
        path.extend(self.levels.iter().map(|level| &level.name));
        path.push(name);
        match stop {
            Stop::Kernel(errno) => EngineError::HostFile {
                doing: "copy",
                path,
                source: errno.into(),
            },
            Stop::TooDeep => EngineError::Invalid {
                what: format!(
                    "the files at `{}` have more than {DEPTH_MAX} folders in each other",
                    self.from.display()
                ),
                hint: "remove the deepest of them first".into(),
            },
            Stop::TooBig => EngineError::Invalid {
                what: format!(
                    "the files at `{}` take more than {} bytes",
                    self.from.display(),
                    self.options.bytes_max.unwrap_or(u64::MAX)
                ),
                hint: "remove what is not needed first, or raise the limit".into(),
            },
        }
    }
}

/// What became of an entry.
enum Copied {
    Whole,
    /// A folder, which is entered later.
    FolderLeft,
}
