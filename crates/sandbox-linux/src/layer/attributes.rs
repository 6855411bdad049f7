//! Owner, mode, times and extended attributes of one entry.
//!
//! Of overlayfs's own attributes those are copied that say what the layer means. Others (`origin`, `impure`)
//! are notes about the file systems that it was made on.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::ShiftOwners;

/// What the kernel allows for all names together, and for one value.
const XATTR_BYTES_MAX: usize = 64 * 1024;

/// Attributes of overlayfs that are part of a layer's meaning.
const OVERLAY_MEANING: [&[u8]; 3] = [b"opaque", b"redirect", b"whiteout"];

/// `struct vfs_ns_cap_data`: a file's capabilities in the user namespace of one root, who comes last.
const CAPABILITY_BYTES: usize = 24;
const CAPABILITY_ROOT_AT: usize = 20;

/// `struct posix_acl_xattr_header` and its entries: tag, rights, id.
const ACL_HEADER_BYTES: usize = 4;
const ACL_ENTRY_BYTES: usize = 8;
const ACL_ID_AT: usize = 4;
const ACL_USER: u16 = 0x02;
const ACL_GROUP: u16 = 0x08;

/// Gives an open file or folder all that another one has.
pub(super) fn copy_all(
    source: &OwnedFd,
    target: &OwnedFd,
    shift: Option<ShiftOwners>,
) -> Result<(), Errno> {
    let found = rustix::fs::fstat(source)?;
    let (uid, gid) = owner(&found, shift);
    // This order: a change of owner takes capabilities and setuid away, an access list changes the mode.
    rustix::fs::fchown(target, Some(uid), Some(gid))?;
    copy_extended(source, target, shift)?;
    rustix::fs::fchmod(target, Mode::from_raw_mode(found.st_mode))?;
    rustix::fs::futimens(target, &times(&found))
}

/// Gives a link or a pipe its owner and its times.
pub(super) fn set_by_name(
    folder: impl AsFd,
    name: &Path,
    found: &Stat,
    shift: Option<ShiftOwners>,
) -> Result<(), Errno> {
    let (uid, gid) = owner(found, shift);
    let itself = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(folder.as_fd(), name, Some(uid), Some(gid), itself)?;
    rustix::fs::utimensat(folder.as_fd(), name, &times(found), itself)
}

fn owner(found: &Stat, shift: Option<ShiftOwners>) -> (Uid, Gid) {
    let of = |id| shift.map_or(id, |shift| shift.shift(id));
    (
        Uid::from_raw(of(found.st_uid)),
        Gid::from_raw(of(found.st_gid)),
    )
}

fn times(found: &Stat) -> Timestamps {
    let nanoseconds = |number| i64::try_from(number).unwrap_or(0);
    Timestamps {
        last_access: Timespec {
            tv_sec: found.st_atime,
            tv_nsec: nanoseconds(found.st_atime_nsec),
        },
        last_modification: Timespec {
            tv_sec: found.st_mtime,
            tv_nsec: nanoseconds(found.st_mtime_nsec),
        },
    }
}

fn copy_extended(
    source: &OwnedFd,
    target: &OwnedFd,
    shift: Option<ShiftOwners>,
) -> Result<(), Errno> {
    // Most files have none, and need no buffer.
    match rustix::fs::flistxattr_query(source) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(()),
        Ok(_) => {}
        Err(errno) => return Err(errno),
    }
    let mut names = vec![0; XATTR_BYTES_MAX];
    let count = rustix::fs::flistxattr(source, &mut *names)?;
    names.truncate(count);
    let mut value = vec![0; XATTR_BYTES_MAX];
    for name in names.split(|byte| *byte == 0) {
        let Some(kind) = kind(name) else { continue };
        let count = rustix::fs::fgetxattr(source, name, &mut *value)?;
        let Some(value) = value.get_mut(..count) else {
            continue;
        };
        if translate(kind, value, shift) == Translated::Yes {
            rustix::fs::fsetxattr(target, name, value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Attributes that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Capability,
    AccessList,
}

fn kind(name: &[u8]) -> Option<Kind> {
    let mark = name
        .strip_prefix(b"trusted.overlay.")
        .or_else(|| name.strip_prefix(b"user.overlay."));
    match (mark, name) {
        (Some(mark), _) => OVERLAY_MEANING.contains(&mark).then_some(Kind::Plain),
        (None, b"security.capability") => Some(Kind::Capability),
        (None, b"system.posix_acl_access" | b"system.posix_acl_default") => Some(Kind::AccessList),
        (None, name) => name.starts_with(b"user.").then_some(Kind::Plain),
    }
}

/// Whether a value can be had in another range.
#[derive(Debug, PartialEq, Eq)]
enum Translated {
    Yes,
    No,
}

fn translate(kind: Kind, value: &mut [u8], shift: Option<ShiftOwners>) -> Translated {
    match kind {
        Kind::Plain => Translated::Yes,
        Kind::Capability => {
            // Without the root of a namespace, capabilities would count on the host itself.
            if value.len() != CAPABILITY_BYTES {
                return Translated::No;
            }
            shift_at(value, CAPABILITY_ROOT_AT, shift);
            Translated::Yes
        }
        Kind::AccessList => {
            let entries = value.get_mut(ACL_HEADER_BYTES..).unwrap_or_default();
            for entry in entries.chunks_exact_mut(ACL_ENTRY_BYTES) {
                let tag = entry.first_chunk().map(|tag| u16::from_le_bytes(*tag));
                if tag == Some(ACL_USER) || tag == Some(ACL_GROUP) {
                    shift_at(entry, ACL_ID_AT, shift);
                }
            }
            Translated::Yes
        }
    }
}

/// Shifts an id that lies in a value, in the order of bytes that all of these formats have.
fn shift_at(value: &mut [u8], at: usize, shift: Option<ShiftOwners>) {
    if let Some(shift) = shift
        && let Some(bytes) = value.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>)
    {
        *bytes = shift.shift(u32::from_le_bytes(*bytes)).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::IdRange;

    #[test]
    fn only_what_a_layer_means_is_copied() {
        for name in [
            "trusted.overlay.opaque",
            "trusted.overlay.redirect",
            "user.overlay.whiteout",
            "user.mine",
        ] {
            assert_eq!(kind(name.as_bytes()), Some(Kind::Plain), "{name}");
        }
        for name in [
            "",
            "trusted.overlay.origin",
            "trusted.overlay.metacopy",
            "user.overlay.impure",
            "trusted.other",
            "security.selinux",
            "system.other",
        ] {
            assert_eq!(kind(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn ids_in_attributes_are_shifted_too() {
        let [from, to] = [1, 2].map(|index| IdRange::new(index).unwrap());
        let shift = Some(ShiftOwners { from, to });
        let mut capability = [0; CAPABILITY_BYTES];
        capability[20..].copy_from_slice(&from.base().to_le_bytes());
        assert_eq!(
            translate(Kind::Capability, &mut capability, shift),
            Translated::Yes
        );
        assert_eq!(capability[20..], to.base().to_le_bytes());
        assert_eq!(
            translate(Kind::Capability, &mut [0; 20], shift),
            Translated::No
        );

        let entry =
            |tag: u16, id: u32| [&tag.to_le_bytes()[..], &[6, 0], &id.to_le_bytes()].concat();
        let list = |range: IdRange| {
            let entries = [
                entry(0x01, u32::MAX),
                entry(ACL_USER, range.base() + 7),
                entry(ACL_GROUP, range.base() + 9),
                entry(ACL_USER, 12),
            ];
            [&[2, 0, 0, 0][..], &entries.concat()].concat()
        };
        let mut shifted = list(from);
        translate(Kind::AccessList, &mut shifted, shift);
        assert_eq!(shifted, list(to));
        // A value that is cut off is nobody's problem but the kernel's.
        translate(Kind::AccessList, &mut [2, 0], shift);
        translate(Kind::AccessList, &mut [2, 0, 0, 0, 2, 0, 6], shift);
    }
}
