//! Mounts before they have a place: made by whoever has the power, attached by whoever has the namespace.
//!
//! As root the host makes a box's own mounts and init only attaches them, so that a prepared box has
//! already lost sight of the host's files. Without root only init has the power, and makes them itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};

use crate::step::{Access, Devices, Durability, OverlayMarks, OverlayOptions, Owner, UpperLayer};
use crate::sys;

/// What the kernel takes as one value of a file system's option.
const FSCONFIG_BYTES_MAX: usize = 255;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Names a folder of the host.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, FOLDER, Mode::empty())?)
}

/// An overlay that is not attached anywhere yet.
///
/// The lower layers are folders, and below them mounts that are attached somewhere in this namespace.
pub(crate) fn overlay(
    lower: &[PathBuf],
    below: &[OwnedFd],
    upper: Option<&UpperLayer>,
    options: OverlayOptions,
) -> io::Result<OwnedFd> {
    // Layers are named by descriptor: fsconfig takes few bytes, and a path may hold colons.
    let mut layers = Vec::new();
    let name = |layer: &OwnedFd| format!("/proc/self/fd/{}", layer.as_raw_fd());
    let mut name_of = |path: &Path| -> io::Result<String> {
        let layer = open_folder(path)?;
        let name = name(&layer);
        layers.push(layer);
        Ok(name)
    };
    let mut lower = lower
        .iter()
        .map(|path| name_of(path))
        .collect::<io::Result<Vec<_>>>()?;
    lower.extend(below.iter().map(name));
    let upper = match upper {
        Some(layer) => Some((name_of(&layer.upper)?, name_of(&layer.work)?)),
        None => None,
    };

    let context = rustix::mount::fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, c"source", c"holm")?;
    set_lower_layers(&context, &lower)?;
    if let Some((upper, work)) = &upper {
        rustix::mount::fsconfig_set_string(&context, c"upperdir", upper.as_str())?;
        rustix::mount::fsconfig_set_string(&context, c"workdir", work.as_str())?;
        match options.marks {
            // Renaming a folder of a lower layer works as on a plain file system.
            OverlayMarks::Trusted => {
                rustix::mount::fsconfig_set_string(&context, c"redirect_dir", c"on")?;
            }
            OverlayMarks::User => {}
        }
        match options.durability {
            Durability::Volatile => {
                rustix::mount::fsconfig_set_flag(&context, c"volatile")?;
            }
            Durability::Durable => {}
        }
    }
    match options.marks {
        OverlayMarks::User => rustix::mount::fsconfig_set_flag(&context, c"userxattr")?,
        OverlayMarks::Trusted => {}
    }
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?)
}

fn set_lower_layers(context: &OwnedFd, lower: &[String]) -> io::Result<()> {
    let joined = lower.join(":");
    if joined.len() <= FSCONFIG_BYTES_MAX {
        rustix::mount::fsconfig_set_string(context, c"lowerdir", joined.as_str())?;
        return Ok(());
    }
    // One by one, which takes Linux 6.7.
    for layer in lower {
        rustix::mount::fsconfig_set_string(context, c"lowerdir+", layer.as_str())?;
    }
    Ok(())
}

/// Folders as mounts that show their owners through a user namespace, out of the way of the box.
///
/// Before Linux 6.15 overlayfs takes a mount as a layer only if it is attached. They are attached in a small
/// file system over `at`; what is mounted over that next hides them, and they end with the old root.
pub(crate) fn translated_layers(
    at: &Path,
    layers: &[PathBuf],
    owners: BorrowedFd<'_>,
) -> io::Result<Vec<OwnedFd>> {
    let context = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, c"mode", c"700")?;
    rustix::mount::fsconfig_create(&context)?;
    let hidden = rustix::mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    attach(&hidden, &open_folder(at)?)?;
    let translate = |(index, path): (usize, &PathBuf)| -> io::Result<OwnedFd> {
        // Without what is mounted below it, and never through a link.
        let layer = rustix::mount::open_tree(
            CWD,
            path,
            OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_SYMLINK_NOFOLLOW,
        )?;
        sys::set_mount_attributes(
            layer.as_fd(),
            libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        )?;
        sys::translate_owners(layer.as_fd(), owners)?;
        let name = index.to_string();
        rustix::fs::mkdirat(&hidden, &name, Mode::from_raw_mode(0o700))?;
        let target = rustix::fs::openat(&hidden, &name, FOLDER, Mode::empty())?;
        attach(&layer, &target)?;
        Ok(layer)
    };
    layers.iter().enumerate().map(translate).collect()
}

/// Gives the root of a new file system to somebody.
pub(crate) fn set_owner(context: &OwnedFd, owner: Option<Owner>) -> io::Result<()> {
    if let Some(Owner { uid, gid }) = owner {
        let (uid, gid) = (uid.to_string(), gid.to_string());
        rustix::mount::fsconfig_set_string(context, c"uid", uid.as_str())?;
        rustix::mount::fsconfig_set_string(context, c"gid", gid.as_str())?;
    }
    Ok(())
}

/// A copy of a mount, with all that is mounted below it, not attached anywhere yet.
pub(crate) fn bind(
    source: &Path,
    access: Access,
    devices: Devices,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let clone = rustix::mount::open_tree(
        CWD,
        source,
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE,
    )?;
    let mut attributes = libc::MOUNT_ATTR_NOSUID;
    match access {
        Access::ReadOnly => attributes |= libc::MOUNT_ATTR_RDONLY,
        Access::ReadWrite => {}
    }
    match devices {
        Devices::Hidden => attributes |= libc::MOUNT_ATTR_NODEV,
        Devices::Usable => attributes |= libc::MOUNT_ATTR_NOEXEC,
    }
    sys::set_mount_attributes(clone.as_fd(), attributes)?;
    if let Some(owners) = owners {
        sys::translate_owners(clone.as_fd(), owners)?;
    }
    Ok(clone)
}

/// Whether a mount shows a folder, or a single file.
pub(crate) fn is_folder(mount: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstat(mount)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// Hangs a mount over an open folder or file.
pub(crate) fn attach(mount: impl AsFd, target: impl AsFd) -> io::Result<()> {
    Ok(rustix::mount::move_mount(
        mount,
        c"",
        target,
        c"",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )?)
}
