//! Writing a file so that readers see the old content or the new one, whole.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fchown, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::acting::{ActAs, Acting, begin};
use super::nodes::PERMISSION_BITS;
use super::{ConfinedDir, FilesError, Owner, kind_of, names};

/// The mode of a file that was not there before.
pub const FILE_MODE_DEFAULT: u32 = 0o644;

/// Large enough that changing identity around each write costs nothing beside it.
const COPY_BUFFER_BYTES: usize = 256 * 1024;

/// How often a fresh random name may be taken before we believe that something is wrong.
const NAME_ATTEMPTS_MAX: u32 = 16;

/// Which mode a written file gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Those of the regular file that is replaced, else [`FILE_MODE_DEFAULT`].
    #[default]
    KeepOrDefault,
    /// Those of the regular file that is replaced, else these.
    KeepOr(u32),
    /// These, whatever was there.
    Exactly(u32),
}

/// Whether a finished write survives a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The kernel writes back when it likes; the file is still old or new, whole, to every process.
    #[default]
    Cached,
    /// File and directory are synced before the call returns.
    Synced,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub permissions: Permissions,
    pub durability: Durability,
    /// For streams: more than this fails with [`FilesError::TooLarge`] and leaves the old content.
    pub bytes_max: Option<u64>,
}

impl ConfinedDir {
    /// Replaces the content of `path` in one step, making missing parents (mode 0755).
    ///
    /// A symlink at `path` is itself replaced, not followed. A directory there is
    /// [`FilesError::NotAFile`]. Of an existing regular file only the permission bits are kept.
    pub fn write_atomic(
        &self,
        path: &Path,
        content: &[u8],
        options: WriteOptions,
    ) -> Result<(), FilesError> {
        let mut content = content;
        self.write_from(path, &mut content, options).map(drop)
    }

    /// [`write_atomic`](Self::write_atomic) from a stream. Returns the number of bytes written.
    pub fn write_from(
        &self,
        path: &Path,
        content: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<u64, FilesError> {
        let (parent, name) = names::split(path)?;
        let directory = {
            let _acting = self.act(path)?;
            self.open_or_create_dirs(parent)
                .map_err(|error| error.naming(path))?
        };
        let target = Target {
            directory: directory.as_fd(),
            name,
            shown: path,
            owner: self.owner,
            act_as: self.act_as,
        };
        target.replace(content, options)
    }
}

/// One name in an opened directory, to be replaced.
pub(super) struct Target<'a> {
    pub(super) directory: BorrowedFd<'a>,
    pub(super) name: &'a Path,
    /// The path for error messages.
    pub(super) shown: &'a Path,
    pub(super) owner: Option<Owner>,
    /// Whose rights count, in every step but the reading of the content.
    pub(super) act_as: Option<ActAs>,
}

impl Target<'_> {
    pub(super) fn replace(
        &self,
        content: &mut dyn Read,
        options: WriteOptions,
    ) -> Result<u64, FilesError> {
        let (mode, mut file, temporary) = self.begin(options.permissions)?;
        let bytes = self.copy(&mut file, content, options.bytes_max)?;
        self.end(&file, temporary, options, mode)?;
        Ok(bytes)
    }

    /// The mode to be, and the new file under its temporary name.
    pub(super) fn begin(
        &self,
        permissions: Permissions,
    ) -> Result<(u32, File, Temporary<'_>), FilesError> {
        let _acting = self.act()?;
        let mode = self.wanted_mode(permissions)?;
        let (file, temporary) = self.create_temporary()?;
        Ok((mode, file, temporary))
    }

    /// Gives the complete file its place.
    pub(super) fn end(
        &self,
        file: &File,
        temporary: Temporary<'_>,
        options: WriteOptions,
        mode: u32,
    ) -> Result<(), FilesError> {
        let _acting = self.act()?;
        self.finish(file, options, mode)?;
        temporary.rename_to(self)?;
        if options.durability == Durability::Synced {
            self.sync_directory()?;
        }
        Ok(())
    }

    fn act(&self) -> Result<Option<Acting>, FilesError> {
        begin(self.act_as, self.shown)
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> FilesError {
        FilesError::from_errno(operation, self.shown, errno)
    }

    fn not_a_file(&self) -> FilesError {
        FilesError::NotAFile {
            path: self.shown.to_path_buf(),
        }
    }

    fn wanted_mode(&self, permissions: Permissions) -> Result<u32, FilesError> {
        let existing = match statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(self.failed("inspect", errno)),
        };
        if existing
            .as_ref()
            .is_some_and(|found| kind_of(found) == FileType::Directory)
        {
            return Err(self.not_a_file());
        }
        let kept = existing
            .filter(|found| kind_of(found) == FileType::RegularFile)
            .map(|found| found.st_mode);
        let mode = match permissions {
            Permissions::KeepOrDefault => kept.unwrap_or(FILE_MODE_DEFAULT),
            Permissions::KeepOr(mode) => kept.unwrap_or(mode),
            Permissions::Exactly(mode) => mode,
        };
        Ok(mode & PERMISSION_BITS)
    }

    /// Until it is complete the new file can be opened by us alone.
    fn create_temporary(&self) -> Result<(File, Temporary<'_>), FilesError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..NAME_ATTEMPTS_MAX {
            let name = names::temporary_name();
            match openat(self.directory, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => {
                    let temporary = Temporary::new(self.directory, name, self.act_as);
                    return Ok((File::from(fd), temporary));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.failed("create a temporary file beside", errno)),
            }
        }
        Err(FilesError::Unsettled {
            path: self.shown.to_path_buf(),
        })
    }

    fn finish(&self, file: &File, options: WriteOptions, mode: u32) -> Result<(), FilesError> {
        // Owner first: changing it would clear bits of the mode.
        if let Some(owner) = self.owner {
            fchown(file, Some(owner.uid), Some(owner.gid))
                .map_err(|errno| self.failed("change the owner of", errno))?;
        }
        fchmod(file, Mode::from_raw_mode(mode))
            .map_err(|errno| self.failed("change the mode of", errno))?;
        if options.durability == Durability::Synced {
            file.sync_all()
                .map_err(|source| FilesError::from_io("sync", self.shown, source))?;
        }
        Ok(())
    }

    fn copy(
        &self,
        file: &mut File,
        content: &mut dyn Read,
        bytes_max: Option<u64>,
    ) -> Result<u64, FilesError> {
        let mut buffer = vec![0; COPY_BUFFER_BYTES];
        let mut bytes = 0_u64;
        loop {
            let length = match content.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(FilesError::ReadSource {
                        path: self.shown.to_path_buf(),
                        source,
                    });
                }
            };
            bytes = bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            if let Some(bytes_max) = bytes_max.filter(|bytes_max| bytes > *bytes_max) {
                return Err(FilesError::TooLarge {
                    path: self.shown.to_path_buf(),
                    bytes_max,
                });
            }
            let _acting = self.act()?;
            file.write_all(buffer.get(..length).unwrap_or_default())
                .map_err(|source| FilesError::from_io("write", self.shown, source))?;
        }
    }

    fn sync_directory(&self) -> Result<(), FilesError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(self.directory, ".", flags, Mode::empty())
            .and_then(rustix::fs::fsync)
            .map_err(|errno| self.failed("sync the directory of", errno))
    }
}

/// A new entry under a random name: renamed into place, or removed when dropped.
pub(super) struct Temporary<'a> {
    directory: BorrowedFd<'a>,
    name: Option<PathBuf>,
    act_as: Option<ActAs>,
}

impl<'a> Temporary<'a> {
    pub(super) fn new(directory: BorrowedFd<'a>, name: PathBuf, act_as: Option<ActAs>) -> Self {
        Self {
            directory,
            name: Some(name),
            act_as,
        }
    }

    /// Leaves the entry where it is; whoever has its name is to make a new guard for it.
    pub(super) fn keep(mut self) -> Option<PathBuf> {
        self.name.take()
    }

    pub(super) fn rename_to(mut self, target: &Target<'_>) -> Result<(), FilesError> {
        let Some(name) = &self.name else {
            return Ok(());
        };
        // Rename replaces the name itself: a link is not followed, a hard link elsewhere keeps its content.
        match renameat(self.directory, name, target.directory, target.name) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => Err(target.not_a_file()),
            // Only a box that plays with our temporary file can cause this.
            Err(Errno::NOENT) => Err(FilesError::Unsettled {
                path: target.shown.to_path_buf(),
            }),
            Err(errno) => Err(target.failed("replace", errno)),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The failure that brought us here is the one to report.
            let Ok(_acting) = begin(self.act_as, name) else {
                return;
            };
            let _ = unlinkat(self.directory, name, AtFlags::empty());
        }
    }
}
