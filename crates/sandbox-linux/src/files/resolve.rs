//! The one door to the tree: `openat2` with the kernel's confinement flags.
//!
//! **Invariant:** nothing below a [`ConfinedDir`](super::ConfinedDir) is opened except through [`open_confined`] (a caller's path) or
//! [`open_child`] (a single name met on a walk). All leave the decision to the kernel, in the
//! same step that opens, so there is no moment between check and use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::Errno;

use super::FilesError;

/// `openat2` answers EAGAIN when a rename ran beside a `..`; a hostile loop may do that for ever.
const ATTEMPTS_MAX: u32 = 256;

/// What absolute symlinks and absolute paths mean below the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// They escape, and are refused. Right for a work directory.
    #[default]
    Beneath,
    /// They start at the directory, as after `chroot`. Right for the root of a box, where
    /// `/etc/alternatives/vi -> /usr/bin/vim` is an ordinary link. `..` at the top stays there.
    InRoot,
}

impl Resolve {
    fn flags(self) -> ResolveFlags {
        let confinement = match self {
            Self::Beneath => ResolveFlags::BENEATH,
            Self::InRoot => ResolveFlags::IN_ROOT,
        };
        confinement | ResolveFlags::NO_MAGICLINKS
    }
}

/// Opens `path` below `base`. An empty path means `base` itself.
pub(super) fn open_confined(
    base: BorrowedFd<'_>,
    resolve: Resolve,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, FilesError> {
    try_open_confined(base, resolve, path, flags)
        .map_err(|errno| resolution_error("open", path, errno))
}

/// [`open_confined`] for callers that act on the bare error number.
pub(super) fn try_open_confined(
    base: BorrowedFd<'_>,
    resolve: Resolve,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    retry(|| {
        openat2(
            base,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve.flags(),
        )
    })
}

/// Opens one entry of `parent` without following a symlink and without entering another mount.
pub(crate) fn open_child(
    parent: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    open_name(parent, name, flags, ResolveFlags::NO_XDEV)
}

/// [`open_child`], but what is mounted there is opened.
pub(super) fn open_child_in_mounts(
    parent: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    open_name(parent, name, flags, ResolveFlags::empty())
}

fn open_name(
    parent: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
    mounts: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    retry(|| {
        openat2(
            parent,
            name,
            flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | mounts,
        )
    })
}

fn retry(mut open: impl FnMut() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let mut attempts = 0;
    loop {
        match open() {
            Err(Errno::AGAIN | Errno::INTR) if attempts < ATTEMPTS_MAX => attempts += 1,
            outcome => return outcome,
        }
    }
}

/// Says what a failed resolution of a caller's path means.
pub(super) fn resolution_error(operation: &'static str, path: &Path, errno: Errno) -> FilesError {
    let owned = path.to_path_buf();
    match errno {
        Errno::XDEV | Errno::LOOP => FilesError::Escapes { path: owned },
        Errno::NOSYS => FilesError::KernelTooOld,
        // Also what a file lease of the box gives: its holder may not make us wait.
        Errno::AGAIN => FilesError::Unsettled { path: owned },
        Errno::INVAL if path.as_os_str().as_encoded_bytes().contains(&0) => {
            FilesError::InvalidPath {
                path: owned,
                reason: "contains a NUL byte",
            }
        }
        // A socket, or a FIFO or device without its other side.
        Errno::NXIO | Errno::NODEV => FilesError::NotAFile { path: owned },
        _ => FilesError::from_errno(operation, path, errno),
    }
}

/// File systems whose files are doors into the kernel (super block magic numbers of
/// `include/uapi/linux/magic.h`). The box sees them with its own rights; we might see them with root's, and
/// `kcore` or `kmsg` of a box's own `/proc` are the host's. FUSE is here because its server may
/// be the box, which could then hold us for ever.
const KERNEL_INTERFACES: [u64; 19] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x1cd1,      // devpts
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x4249_4e4d, // binfmt_misc
    0x6e73_6673, // nsfs
    0x6573_5543, // fusectl
    0x6573_5546, // fuse
];

/// The kind of file system that `fd` lives on.
pub(super) fn filesystem_kind(fd: impl AsFd) -> Result<u64, Errno> {
    // The numbers are 32 bits wide; some arrive with their sign spread over the word.
    fstatfs(fd).map(|found| found.f_type.cast_unsigned() & 0xffff_ffff)
}

pub(super) fn is_kernel_interface(fd: impl AsFd, base_kind: u64) -> Result<bool, Errno> {
    let kind = filesystem_kind(fd)?;
    Ok(kind != base_kind && KERNEL_INTERFACES.contains(&kind))
}

/// Refuses files of the kernel's own file systems, unless the directory itself lies on that kind.
pub(super) fn refuse_kernel_interface(
    fd: impl AsFd,
    base_kind: u64,
    path: &Path,
) -> Result<(), FilesError> {
    let refused = is_kernel_interface(fd, base_kind)
        .map_err(|errno| FilesError::from_errno("find the file system of", path, errno))?;
    if refused {
        return Err(FilesError::KernelInterface {
            path: path.to_path_buf(),
        });
    }
    Ok(())
}
