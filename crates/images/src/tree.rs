//! Writes entries of an archive into a folder, and nowhere else.
//!
//! The archive is an attacker's and we are root. Where an entry goes is decided by the kernel: the folder
//! above it is opened with `openat2(RESOLVE_IN_ROOT)`, so links that earlier entries made lead where they would
//! lead after `chroot`, and the last name is never followed. What an entry finds in its place is
//! replaced, except that a folder stays a folder. Nobody else can reach the tree while it is written.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use holm_sandbox_linux::files::{ConfinedDir, FilesError};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::error::{ImagesError, Result, is_disk_full};
use crate::tar_reader::{Entry, EntryKind};

/// The ids that a box has; files of others could not be shown in it.
const ID_MAX: u64 = 65_535;
const CONTENT_BUFFER_BYTES: usize = 256 * 1024;
/// Pieces of this size that hold only zeros become holes.
const HOLE_BYTES: usize = 64 * 1024;
/// `struct vfs_cap_data` of revision 2 (`include/uapi/linux/capability.h`), little endian.
const CAPABILITY_BYTES: usize = 20;
const CAPABILITY_REVISION: u8 = 2;
const ATTEMPTS_MAX: u32 = 256;
const MODE_OF_MISSING_FOLDERS: Mode = Mode::from_raw_mode(0o755);

/// Hands out the content of the entry that is being written; 0 at its end.
pub(crate) type Content<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<usize>;

#[derive(Debug)]
pub(crate) struct TreeWriter {
    root: OwnedFd,
    path: PathBuf,
    /// Set at the end: each entry that is made in a folder changes its time.
    folder_times: HashMap<PathBuf, (i64, u32)>,
    buffer: Vec<u8>,
}

impl TreeWriter {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(ImagesError::errno("open", path))?;
        Ok(Self {
            root,
            path: path.to_path_buf(),
            folder_times: HashMap::new(),
            buffer: vec![0; CONTENT_BUFFER_BYTES],
        })
    }

    pub(crate) fn folder_count(&self) -> u64 {
        self.folder_times.len() as u64
    }

    /// Makes what the entry says. Device nodes are left out: a box has its own `/dev`.
    pub(crate) fn write(&mut self, entry: &Entry, content: Content<'_>) -> Result<()> {
        let name = plain_name(&entry.name)?;
        if entry.uid > ID_MAX || entry.gid > ID_MAX {
            return Err(refused(
                &entry.name,
                format!(
                    "it belongs to {}:{}, and a box has the ids 0 to {ID_MAX} only",
                    entry.uid, entry.gid
                ),
            ));
        }
        if entry.kind == EntryKind::Device {
            return Ok(());
        }
        let (Some(parent), Some(last)) = (name.parent(), name.file_name().map(Path::new)) else {
            return self.write_root(entry);
        };
        let parent = self.open_or_make_folder(parent, &entry.name)?;
        match &entry.kind {
            EntryKind::File => self.write_file(&parent, last, entry, content),
            EntryKind::Folder => {
                self.folder_times.insert(name.clone(), entry.mtime);
                write_folder(&parent, last, entry)
            }
            EntryKind::HardLink(target) => self.link(&parent, last, entry, target),
            EntryKind::Symlink(target) => {
                replacing(&parent, last, entry, "make", || {
                    rustix::fs::symlinkat(target, &parent, last)
                })?;
                set_link_owner_and_time(&parent, last, entry)
            }
            EntryKind::Fifo => {
                let mode = Mode::from_raw_mode(entry.mode);
                replacing(&parent, last, entry, "make", || {
                    rustix::fs::mknodat(&parent, last, FileType::Fifo, mode, 0)
                })?;
                set_link_owner_and_time(&parent, last, entry)?;
                // Past the umask. Just made by us, so there is no link to follow.
                rustix::fs::chmodat(&parent, last, mode, AtFlags::empty())
                    .map_err(failed("set the mode of", entry))
            }
            EntryKind::Device => Ok(()),
        }
    }

    /// Makes a folder, and those above it, unless it is there.
    pub(crate) fn make_folder(&self, name: &Path) -> Result<()> {
        self.open_or_make_folder(&plain_name(name)?, name).map(drop)
    }

    /// Takes away what has this name, if anything: a whiteout.
    pub(crate) fn remove(&self, name: &Path) -> Result<()> {
        let name = plain_name(name)?;
        let (Some(parent), Some(last)) = (name.parent(), name.file_name()) else {
            return Err(refused(&name, "an image cannot take its own root away"));
        };
        match self.open_folder(parent) {
            Ok(parent) => remove_child(&parent, Path::new(last), &name),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => Err(self.resolve_failed(&name, errno)),
        }
    }

    /// Takes away what is in a folder, if it exists: an opaque whiteout.
    pub(crate) fn empty_folder(&self, name: &Path) -> Result<()> {
        let name = plain_name(name)?;
        let folder = match self.open_folder(&name) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(self.resolve_failed(&name, errno)),
        };
        let inside = ConfinedDir::new(folder).map_err(|error| from_files(error, &name))?;
        let entries = inside
            .list(Path::new(""))
            .map_err(|error| from_files(error, &name))?;
        for entry in entries {
            inside
                .remove_tree(Path::new(&entry.name))
                .map_err(|error| from_files(error, &name))?;
        }
        Ok(())
    }

    /// Gives the folders the times that their entries had.
    pub(crate) fn finish(self) -> Result<()> {
        for (name, mtime) in &self.folder_times {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            match self.open_in_root(name, flags) {
                Ok(folder) => rustix::fs::futimens(&folder, &times(*mtime)).map_err(
                    ImagesError::errno("set the time of a folder in", &self.path),
                )?,
                // A later entry or layer took it away.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(self.resolve_failed(name, errno)),
            }
        }
        Ok(())
    }

    /// The entry `./` says how the root itself is.
    fn write_root(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind != EntryKind::Folder {
            return Err(refused(&entry.name, "it names no file"));
        }
        let root = self
            .open_in_root(Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| self.resolve_failed(&entry.name, errno))?;
        set_owner_and_mode(&root, entry)?;
        self.folder_times.insert(PathBuf::from("."), entry.mtime);
        Ok(())
    }

    fn write_file(
        &mut self,
        parent: &OwnedFd,
        last: &Path,
        entry: &Entry,
        content: Content<'_>,
    ) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = replacing(parent, last, entry, "make", || {
            rustix::fs::openat(parent, last, flags | OFlags::NOFOLLOW, mode)
        })?;
        let file = File::from(fd);
        let mut position = 0;
        loop {
            let count = content(&mut self.buffer)?;
            let Some(read) = self.buffer.get(..count).filter(|read| !read.is_empty()) else {
                break;
            };
            for piece in read.chunks(HOLE_BYTES) {
                let is_hole = piece.len() == HOLE_BYTES && piece.iter().all(|byte| *byte == 0);
                if !is_hole {
                    file.write_all_at(piece, position)
                        .map_err(|source| self.write_failed(entry, source))?;
                }
                position += piece.len() as u64;
            }
        }
        // A hole at the end is only there when the file is as long as it says.
        if entry.size > 0 {
            file.set_len(position)
                .map_err(|source| self.write_failed(entry, source))?;
        }
        set_owner_and_mode(&file, entry)?;
        set_capability(&file, entry)?;
        rustix::fs::futimens(&file, &times(entry.mtime)).map_err(failed("set the time of", entry))
    }

    fn link(&self, parent: &OwnedFd, last: &Path, entry: &Entry, target: &Path) -> Result<()> {
        let target_name = plain_name(target)?;
        let missing = || {
            let target = target.display();
            refused(
                &entry.name,
                format!("it links to `{target}`, which is not there"),
            )
        };
        let (Some(folder), Some(target_last)) = (target_name.parent(), target_name.file_name())
        else {
            return Err(missing());
        };
        let folder = self.open_folder(folder).map_err(|_| missing())?;
        let found = rustix::fs::statat(&folder, target_last, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|_| missing())?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return Err(refused(&entry.name, "it is a hard link to a folder"));
        }
        if let Ok(present) = rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)
            && (present.st_dev, present.st_ino) == (found.st_dev, found.st_ino)
        {
            return Ok(());
        }
        replacing(parent, last, entry, "link", || {
            rustix::fs::linkat(&folder, target_last, parent, last, AtFlags::empty())
        })
    }

    fn open_in_root(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let name = if name.as_os_str().is_empty() {
            Path::new(".")
        } else {
            name
        };
        let flags = flags | OFlags::CLOEXEC;
        let mut attempts = 0;
        loop {
            match rustix::fs::openat2(&self.root, name, flags, Mode::empty(), resolve) {
                // A rename anywhere on the machine ran beside a `..` of a link.
                Err(Errno::AGAIN | Errno::INTR) if attempts < ATTEMPTS_MAX => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    fn open_folder(&self, name: &Path) -> Result<OwnedFd, Errno> {
        self.open_in_root(name, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Archives may leave out the folders above an entry.
    fn open_or_make_folder(&self, name: &Path, entry_name: &Path) -> Result<OwnedFd> {
        match self.open_folder(name) {
            Ok(folder) => return Ok(folder),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.resolve_failed(entry_name, errno)),
        }
        let mut prefix = PathBuf::new();
        let mut folder = self
            .open_folder(&prefix)
            .map_err(|errno| self.resolve_failed(entry_name, errno))?;
        for component in name.components() {
            prefix.push(component);
            folder = match self.open_folder(&prefix) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    let last = Path::new(component.as_os_str());
                    rustix::fs::mkdirat(&folder, last, MODE_OF_MISSING_FOLDERS)
                        .map_err(|errno| self.resolve_failed(entry_name, errno))?;
                    self.open_folder(&prefix)
                        .map_err(|errno| self.resolve_failed(entry_name, errno))?
                }
                Err(errno) => return Err(self.resolve_failed(entry_name, errno)),
            };
        }
        Ok(folder)
    }

    fn resolve_failed(&self, name: &Path, errno: Errno) -> ImagesError {
        let reason = match errno {
            Errno::NOTDIR => "it lies below something that is not a folder",
            Errno::LOOP => "it lies below links that lead in a circle",
            Errno::EXIST => "it lies below a link that leads nowhere",
            Errno::XDEV => "it lies on another file system",
            Errno::NOSPC | Errno::DQUOT => return self.disk_full(),
            _ => {
                return ImagesError::Entry {
                    doing: "make the folder of",
                    name: name.display().to_string(),
                    source: errno.into(),
                };
            }
        };
        refused(name, reason)
    }

    fn write_failed(&self, entry: &Entry, source: io::Error) -> ImagesError {
        if is_disk_full(&source) {
            return self.disk_full();
        }
        ImagesError::Entry {
            doing: "write",
            name: entry.name.display().to_string(),
            source,
        }
    }

    fn disk_full(&self) -> ImagesError {
        ImagesError::DiskFull {
            path: self.path.clone(),
            free_bytes: crate::store::free_bytes(&self.path).unwrap_or_default(),
        }
    }
}

/// The name without `/`, `.` and repeated slashes; empty for the root.
///
/// The kernel would keep `..` inside too; an archive that has it is not honest.
fn plain_name(name: &Path) -> Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => plain.push(part),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => return Err(refused(name, "its name climbs with `..`")),
        }
    }
    Ok(plain)
}

/// Makes an entry, after removing what has its name.
fn replacing<T>(
    parent: &OwnedFd,
    last: &Path,
    entry: &Entry,
    doing: &'static str,
    mut make: impl FnMut() -> Result<T, Errno>,
) -> Result<T> {
    match make() {
        Err(Errno::EXIST) => {
            remove_child(parent, last, &entry.name)?;
            make().map_err(failed(doing, entry))
        }
        outcome => outcome.map_err(failed(doing, entry)),
    }
}

fn write_folder(parent: &OwnedFd, last: &Path, entry: &Entry) -> Result<()> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(parent, last, flags, Mode::empty())
    };
    let folder = match open() {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            replacing(parent, last, entry, "make", || {
                rustix::fs::mkdirat(parent, last, Mode::RWXU)
            })?;
            open().map_err(failed("open", entry))?
        }
        Err(errno) => return Err(failed("open", entry)(errno)),
    };
    set_owner_and_mode(&folder, entry)
}

fn remove_child(parent: &OwnedFd, last: &Path, shown: &Path) -> Result<()> {
    match rustix::fs::unlinkat(parent, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // A folder, whose content goes with it.
        Err(_) => {}
    }
    parent
        .as_fd()
        .try_clone_to_owned()
        .map_err(|source| FilesError::Io {
            operation: "open the folder of",
            path: shown.to_path_buf(),
            source,
        })
        .and_then(ConfinedDir::new)
        .and_then(|parent| parent.remove_tree(last))
        .map_err(|error| from_files(error, shown))
}

/// Owner first: changing it clears the setuid bit.
fn set_owner_and_mode(fd: impl AsFd, entry: &Entry) -> Result<()> {
    let (uid, gid) = owner(entry);
    rustix::fs::fchown(&fd, uid, gid).map_err(failed("set the owner of", entry))?;
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(entry.mode))
        .map_err(failed("set the mode of", entry))
}

fn set_link_owner_and_time(parent: &OwnedFd, last: &Path, entry: &Entry) -> Result<()> {
    let (uid, gid) = owner(entry);
    rustix::fs::chownat(parent, last, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(failed("set the owner of", entry))?;
    let times = times(entry.mtime);
    rustix::fs::utimensat(parent, last, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(failed("set the time of", entry))
}

/// File capabilities are the one attribute that is kept. Others would be read by the kernel as more than data:
/// `trusted.overlay.redirect` in a lower layer leads overlayfs to another place.
fn set_capability(file: &File, entry: &Entry) -> Result<()> {
    for (name, value) in &entry.xattrs {
        if name == "security.capability"
            && value.len() == CAPABILITY_BYTES
            && value.get(3) == Some(&CAPABILITY_REVISION)
        {
            rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty())
                .map_err(failed("set the capabilities of", entry))?;
        }
    }
    Ok(())
}

fn owner(entry: &Entry) -> (Option<Uid>, Option<Gid>) {
    // Checked against `ID_MAX` before.
    let id = |id: u64| u32::try_from(id).unwrap_or_default();
    (
        Some(Uid::from_raw(id(entry.uid))),
        Some(Gid::from_raw(id(entry.gid))),
    )
}

fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn refused(name: &Path, reason: impl Into<String>) -> ImagesError {
    ImagesError::EntryRefused {
        name: name.display().to_string(),
        reason: reason.into(),
    }
}

fn failed(doing: &'static str, entry: &Entry) -> impl FnOnce(Errno) -> ImagesError {
    let name = entry.name.display().to_string();
    move |errno| ImagesError::Entry {
        doing,
        name,
        source: errno.into(),
    }
}

fn from_files(error: FilesError, name: &Path) -> ImagesError {
    ImagesError::Entry {
        doing: "replace",
        name: name.display().to_string(),
        source: io::Error::other(error),
    }
}
