//! Exporting a tree to the host.
//!
//! The copy grows in a directory of its own beside the destination and gets its name at the end, so the
//! host never sees a half export, and a failed one leaves nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fchmod, mkdirat, openat, renameat, symlinkat};
use rustix::io::Errno;

use super::copy::{CopyLimits, CopyReport, Destination, Incoming, Placed, copy_tree};
use super::descent::{Descent, is_empty};
use super::remove::remove_entry;
use super::resolve::open_child;
use super::{ConfinedDir, FilesError, names};

impl ConfinedDir {
    /// Copies the directory at `path` to `host_dest`, which must not exist or be an empty directory.
    ///
    /// Regular files, directories and symlinks that stay inside are copied; links are not followed.
    /// The rest is in [`CopyReport::skipped`]. Execute bits are kept, setuid, setgid, sticky and foreign
    /// write bits dropped, owners and times not kept, hard-linked files copied each.
    pub fn copy_tree_out(
        &self,
        path: &Path,
        host_dest: &Path,
        limits: CopyLimits,
    ) -> Result<CopyReport, FilesError> {
        self.refuse_two_identities(path)?;
        let source = self.open_directory(path, OFlags::RDONLY)?;
        let stage = Stage::create(host_dest)?;
        let mut host = HostTree {
            descent: Descent::new(stage.open()?),
        };
        let report = copy_tree(source, &mut host, limits)?;
        stage.publish()?;
        Ok(report)
    }
}

/// The half-made export. Dropping it removes it.
struct Stage<'a> {
    host_dest: &'a Path,
    parent: OwnedFd,
    /// `None` once it has its final name.
    name: Option<PathBuf>,
}

impl<'a> Stage<'a> {
    fn create(host_dest: &'a Path) -> Result<Self, FilesError> {
        let Some(last) = host_dest.file_name() else {
            return Err(FilesError::InvalidPath {
                path: host_dest.to_path_buf(),
                reason: "does not name an entry of a directory",
            });
        };
        let parent = match host_dest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(CWD, parent, flags, Mode::empty())
            .map_err(|errno| FilesError::from_errno("open", parent, errno))?;
        refuse_occupied(&parent, Path::new(last), host_dest)?;
        let name = names::temporary_name();
        mkdirat(&parent, &name, Mode::from_raw_mode(0o700))
            .map_err(|errno| FilesError::from_errno("create", host_dest, errno))?;
        Ok(Self {
            host_dest,
            parent,
            name: Some(name),
        })
    }

    fn open(&self) -> Result<OwnedFd, FilesError> {
        let name = self.name.as_deref().unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        open_child(self.parent.as_fd(), name, flags)
            .map_err(|errno| FilesError::from_errno("open", self.host_dest, errno))
    }

    fn publish(mut self) -> Result<(), FilesError> {
        let failed = |errno| match errno {
            // Taken since we looked. Rename itself accepts an empty directory only.
            Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR => FilesError::DestinationNotEmpty {
                path: self.host_dest.to_path_buf(),
            },
            errno => FilesError::from_errno("publish", self.host_dest, errno),
        };
        let (Some(name), Some(last)) = (&self.name, self.host_dest.file_name()) else {
            return Ok(());
        };
        let top = self.open()?;
        fchmod(&top, Mode::from_raw_mode(0o755)).map_err(failed)?;
        renameat(&self.parent, name, &self.parent, last).map_err(failed)?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The failure that brought us here is the one to report.
            drop(remove_entry(self.parent.as_fd(), name, self.host_dest));
        }
    }
}

fn refuse_occupied(parent: &OwnedFd, last: &Path, host_dest: &Path) -> Result<(), FilesError> {
    let occupied = FilesError::DestinationNotEmpty {
        path: host_dest.to_path_buf(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, last, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(occupied),
        Err(errno) => Err(FilesError::from_errno("open", host_dest, errno)),
        Ok(existing) => match is_empty(&existing) {
            Ok(true) => Ok(()),
            Ok(false) => Err(occupied),
            Err(errno) => Err(FilesError::from_errno("list", host_dest, errno)),
        },
    }
}

/// The export as it grows. Everything in it was made here, with exclusive creation.
struct HostTree {
    descent: Descent,
}

impl Destination for HostTree {
    fn enter(&mut self, name: &Path, shown: &Path, mode: u32) -> Result<Placed, FilesError> {
        mkdirat(&self.descent, name, Mode::from_raw_mode(0o700))
            .and_then(|()| self.descent.enter(name))
            .and_then(|()| fchmod(&self.descent, Mode::from_raw_mode(mode)))
            .map_err(|errno| FilesError::from_errno("create the copy of", shown, errno))?;
        Ok(Placed::Copied { bytes: 0 })
    }

    fn leave(&mut self, shown: &Path) -> Result<(), FilesError> {
        self.descent
            .leave()
            .map_err(|errno| FilesError::from_errno("leave the copy of", shown, errno))
    }

    fn file(&mut self, incoming: Incoming<'_>) -> Result<Placed, FilesError> {
        let shown = incoming.shown;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = openat(
            &self.descent,
            incoming.name,
            flags,
            Mode::from_raw_mode(0o600),
        )
        .map_err(|errno| FilesError::from_errno("create the copy of", shown, errno))?;
        let mut copy = File::from(copy);
        let mut content = incoming.file.take(incoming.bytes_max.saturating_add(1));
        let bytes = std::io::copy(&mut content, &mut copy)
            .map_err(|source| FilesError::from_io("copy", shown, source))?;
        if bytes > incoming.bytes_max {
            return Err(FilesError::TooLarge {
                path: shown.to_path_buf(),
                bytes_max: incoming.bytes_max,
            });
        }
        fchmod(&copy, Mode::from_raw_mode(incoming.mode)).map_err(|errno| {
            FilesError::from_errno("change the mode of the copy of", shown, errno)
        })?;
        Ok(Placed::Copied { bytes })
    }

    fn link(&mut self, name: &Path, shown: &Path, target: &OsStr) -> Result<Placed, FilesError> {
        symlinkat(target, &self.descent, name)
            .map_err(|errno| FilesError::from_errno("create the copy of", shown, errno))?;
        Ok(Placed::Copied { bytes: 0 })
    }
}
