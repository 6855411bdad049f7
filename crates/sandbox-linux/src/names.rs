//! What a box is called, and the files by which its programs find names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{EngineError, HostFileContext, Result};
use crate::skeleton::write_readable;
use crate::spec::{MountSpec, Network, Owners};
use crate::step::Access;

/// The name that a box has unless it is given another.
pub const HOSTNAME: &str = "holm";

/// What one label of a name may have; the kernel takes 64 bytes in all.
const HOSTNAME_BYTES_MAX: usize = 63;

/// Refuses what is no host name, before it gets into files that programs read.
pub(crate) fn check_hostname(name: &str) -> Result<()> {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if name.len() <= HOSTNAME_BYTES_MAX && name.split('.').all(is_label) {
        return Ok(());
    }
    Err(EngineError::Invalid {
        what: format!("`{}` is not a host name", name.escape_debug()),
        hint: "a host name has up to 63 letters, digits, `-` and `.`".into(),
    })
}

pub(crate) fn hosts_file(hostname: &str) -> String {
    format!("127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost\n")
}

pub(crate) fn resolver_file(network: Network) -> String {
    match network {
        Network::None => "# This box has no network.\n".into(),
        Network::Host => {
            String::from_utf8_lossy(&fs::read("/etc/resolv.conf").unwrap_or_default()).into_owned()
        }
    }
}

/// The files of a box with a name of its own, which lie over those of its base.
fn files(directory: &Path) -> [(PathBuf, &'static str); 2] {
    let folder = directory.join("names");
    [
        (folder.join("hosts"), "/etc/hosts"),
        (folder.join("hostname"), "/etc/hostname"),
    ]
}

pub(crate) fn write_files(directory: &Path, hostname: &str) -> Result<()> {
    let texts = [hosts_file(hostname), format!("{hostname}\n")];
    for ((path, _), text) in files(directory).into_iter().zip(texts) {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).doing("make folder", folder)?;
        }
        write_readable(&path, &text)?;
    }
    Ok(())
}

pub(crate) fn mounts(directory: &Path) -> impl Iterator<Item = MountSpec> {
    files(directory)
        .into_iter()
        .map(|(source, place)| MountSpec::Bind {
            source,
            place: place.into(),
            access: Access::ReadOnly,
            owners: Owners::AsOnHost,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_what_every_program_can_read() {
        for name in ["a", "web-1", "b.example", "0", &"x".repeat(63)] {
            check_hostname(name).unwrap();
        }
        let long = "x".repeat(64);
        for name in [
            "", ".", "a.", ".a", "a..b", "-a", "a-", "a b", "a\nb", "a_b", "ä", "a\0", &long,
        ] {
            assert!(check_hostname(name).is_err(), "{name:?}");
        }
    }
}
