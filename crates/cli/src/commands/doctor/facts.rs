//! What the machine says about itself. Whatever cannot be learnt is `None`: nothing here fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::commands::Context;
use crate::environment::UserKind;

/// Answers of the machine.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) kernel: Option<String>,
    pub(super) user: UserKind,
    pub(super) namespaces: NamespaceFacts,
    /// The file systems that the kernel has loaded.
    pub(super) filesystems: Option<String>,
    /// What a seccomp filter may do.
    pub(super) seccomp_actions: Option<String>,
    pub(super) git: Option<String>,
    pub(super) bubblewrap: Option<String>,
    pub(super) data_dir: DataDirFacts,
}

/// The kernel's switches for user namespaces; those that it does not have are `None`.
#[derive(Debug, Default)]
pub(super) struct NamespaceFacts {
    /// `kernel.unprivileged_userns_clone`, which Debian has.
    pub(super) unprivileged_clone: Option<u64>,
    /// `user.max_user_namespaces`
    pub(super) count_max: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, which Ubuntu has.
    pub(super) apparmor_restricts: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DataDirFacts {
    pub(super) path: Result<PathBuf, String>,
    /// Why it cannot be written to.
    pub(super) refusal: Option<String>,
    pub(super) filesystem: Option<&'static str>,
    pub(super) free_bytes: Option<u64>,
}

pub(super) fn gather(context: &Context) -> Facts {
    Facts {
        kernel: read("/proc/sys/kernel/osrelease"),
        user: context.environment.user(),
        namespaces: NamespaceFacts {
            unprivileged_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            count_max: number("/proc/sys/user/max_user_namespaces"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        },
        filesystems: read("/proc/filesystems"),
        seccomp_actions: read("/proc/sys/kernel/seccomp/actions_avail"),
        git: version("git"),
        bubblewrap: version("bwrap"),
        data_dir: data_dir(context),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The last word of the first line that `--version` prints.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next()?.split_whitespace().last()?;
    output.status.success().then(|| version.to_owned())
}

fn data_dir(context: &Context) -> DataDirFacts {
    let path = match context.data_dir() {
        Ok(path) => path,
        Err(error) => {
            return DataDirFacts {
                path: Err(error.to_string()),
                refusal: None,
                filesystem: None,
                free_bytes: None,
            };
        }
    };
    // One that is not there yet is made where its nearest parent is.
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    let refusal = existing.and_then(|existing| {
        rustix::fs::access(existing, rustix::fs::Access::WRITE_OK)
            .err()
            .map(|error| std::io::Error::from(error).to_string())
    });
    DataDirFacts {
        refusal,
        filesystem: existing.and_then(filesystem_name),
        free_bytes: existing
            .and_then(|existing| rustix::fs::statvfs(existing).ok())
            .map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
        path: Ok(path),
    }
}

/// The name of a path's file system, for those that are met as data folders.
fn filesystem_name(path: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(path).ok()?;
    // From `linux/magic.h`.
    Some(match found.f_type {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794C_7630 => "overlayfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0x6969 => "nfs",
        0xCA45_1A4E => "bcachefs",
        0x6573_5546 => "fuse",
        _ => return None,
    })
}
