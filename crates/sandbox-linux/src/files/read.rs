//! Reading: whole files, streams, listings and metadata.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, fstat, statat};
use rustix::io::Errno;

use super::{ConfinedDir, FilesError, kind_of, resolve};

/// A listing is held in memory, and the box decides how long it is.
const LIST_ENTRIES_MAX: u64 = 200_000;

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// What is known of a file without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub kind: EntryKind,
    pub size_bytes: u64,
    /// The permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: SystemTime,
}

/// One line of a listing. A symlink is described itself, not what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub metadata: Metadata,
}

impl ConfinedDir {
    /// The whole content of a regular file of at most `bytes_max` bytes.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, FilesError> {
        let _acting = self.act(path)?;
        let (file, found) = self.open_regular(path)?;
        let too_large = || FilesError::TooLarge {
            path: path.to_path_buf(),
            bytes_max,
        };
        let size_bytes = size_of(&found);
        if size_bytes > bytes_max {
            return Err(too_large());
        }
        let mut content = Vec::new();
        // The file may grow while it is read; one byte past the limit is enough to know.
        let read = file
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|source| FilesError::from_io("read", path, source))?;
        if u64::try_from(read).unwrap_or(u64::MAX) > bytes_max {
            return Err(too_large());
        }
        Ok(content)
    }

    /// A regular file to stream from. How much is read is the caller's to bound.
    pub fn open_read(&self, path: &Path) -> Result<File, FilesError> {
        let _acting = self.act(path)?;
        Ok(self.open_regular(path)?.0)
    }

    /// Opening neither waits for a FIFO's writer or a lease's holder, nor takes a terminal.
    fn open_regular(&self, path: &Path) -> Result<(File, Stat), FilesError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = resolve::open_confined(self.as_fd(), self.resolve, path, flags)?;
        let found = fstat(&fd).map_err(|errno| FilesError::from_errno("inspect", path, errno))?;
        if kind_of(&found) != FileType::RegularFile {
            return Err(FilesError::NotAFile {
                path: path.to_path_buf(),
            });
        }
        resolve::refuse_kernel_interface(&fd, self.filesystem_kind, path)?;
        Ok((File::from(fd), found))
    }

    /// Describes what `path` leads to, following symlinks that stay inside.
    pub fn metadata(&self, path: &Path) -> Result<Metadata, FilesError> {
        self.describe(path, OFlags::PATH)
    }

    /// Describes the entry itself, also when it is a symlink.
    pub fn symlink_metadata(&self, path: &Path) -> Result<Metadata, FilesError> {
        self.describe(path, OFlags::PATH | OFlags::NOFOLLOW)
    }

    fn describe(&self, path: &Path, flags: OFlags) -> Result<Metadata, FilesError> {
        let _acting = self.act(path)?;
        let fd = resolve::open_confined(self.as_fd(), self.resolve, path, flags)?;
        let found = fstat(&fd).map_err(|errno| FilesError::from_errno("inspect", path, errno))?;
        Ok(metadata_of(&found))
    }

    /// Where a symlink points, uninterpreted.
    pub fn read_link(&self, path: &Path) -> Result<PathBuf, FilesError> {
        let _acting = self.act(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let fd = resolve::open_confined(self.as_fd(), self.resolve, path, flags)?;
        let target = rustix::fs::readlinkat(&fd, "", Vec::new())
            .map_err(|errno| FilesError::from_errno("read the link", path, errno))?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// The entries of a directory, sorted by the bytes of their names.
    pub fn list(&self, path: &Path) -> Result<Vec<Entry>, FilesError> {
        let _acting = self.act(path)?;
        let fd = self.open_directory(path, OFlags::RDONLY)?;
        let failed = |errno| FilesError::from_errno("list", path, errno);
        let mut entries = Vec::new();
        for name in read_names(&fd, LIST_ENTRIES_MAX, path)? {
            match statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => entries.push(Entry {
                    metadata: metadata_of(&found),
                    name,
                }),
                // Removed since it was read: then it is not in the listing.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }
}

/// The names in a directory without `.` and `..`, in the file system's order.
pub(super) fn read_names(
    fd: impl AsFd,
    entries_max: u64,
    path: &Path,
) -> Result<Vec<OsString>, FilesError> {
    let failed = |errno| FilesError::from_errno("list", path, errno);
    let mut names = Vec::new();
    let mut count = 0;
    for entry in Dir::read_from(fd).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        count += 1;
        if count > entries_max {
            return Err(FilesError::TooManyEntries {
                path: path.to_path_buf(),
                entries_max,
            });
        }
        names.push(OsString::from_vec(name.to_vec()));
    }
    Ok(names)
}

pub(super) fn size_of(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

pub(super) fn metadata_of(found: &Stat) -> Metadata {
    Metadata {
        kind: match kind_of(found) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => EntryKind::Other,
        },
        size_bytes: size_of(found),
        mode: found.st_mode & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        modified: modified_at(found),
    }
}

/// The box chooses its files' times, before 1970 and past what `SystemTime` holds too.
fn modified_at(found: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(found.st_mtime.unsigned_abs());
    let nanos = Duration::from_nanos(found.st_mtime_nsec);
    let whole = if found.st_mtime < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    whole
        .and_then(|whole| whole.checked_add(nanos))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
