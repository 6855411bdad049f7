//! Which controllers are mounted where, decided from text alone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The two interfaces that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// What a box needs from cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Memory,
    Cpu,
    /// The count of used processor time: a controller of its own on v1, always there on v2.
    CpuAccount,
    Pids,
    /// Always there on v2.
    Freezer,
}

impl Controller {
    pub(super) const ALL: [Self; 5] = [
        Self::Memory,
        Self::Cpu,
        Self::CpuAccount,
        Self::Pids,
        Self::Freezer,
    ];

    /// Its name in the kernel's texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::CpuAccount => "cpuacct",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}

/// A mounted cgroup file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// The group that is seen at the mount point.
    pub(super) root: PathBuf,
    pub(super) mount_point: PathBuf,
    /// On v1, the options that name controllers (among others).
    pub(super) options: Vec<String>,
}

/// The group of a process in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    /// Empty for v2.
    pub(super) controllers: Vec<String>,
    pub(super) path: PathBuf,
}

/// One hierarchy to make groups in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
    /// Groups to make `holm` in, from the top of the mount down to the caller's own.
    pub(super) candidates: Vec<PathBuf>,
}

/// The cgroup mounts in the text of `/proc/self/mountinfo`. Lines of other kinds are passed over.
pub(super) fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_mount).collect()
}

/// `31 23 0:28 <root> <mount point> <options> [tag]... - <type> <source> <super options>`
fn parse_mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut back = back.split(' ');
    let version = match back.next()? {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let options = back.nth(1).unwrap_or_default();
    let mut front = front.split(' ').skip(3);
    Some(Mount {
        version,
        root: unescape(front.next()?),
        mount_point: unescape(front.next()?),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The memberships in the text of `/proc/self/cgroup`: `4:memory:/some/group`, for v2 `0::/group`.
pub(super) fn parse_memberships(cgroup: &str) -> Vec<Membership> {
    cgroup
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let _hierarchy = fields.next()?;
            let controllers = fields.next()?;
            Some(Membership {
                controllers: controllers
                    .split(',')
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect(),
                path: PathBuf::from(fields.next()?),
            })
        })
        .collect()
}

/// Chooses a hierarchy for each controller: v1 where it is mounted, else v2.
///
/// `unified` is the text of `cgroup.controllers` at the top of the v2 mount.
pub(super) fn plan_sites(mounts: &[Mount], memberships: &[Membership], unified: &str) -> Vec<Site> {
    let mut wanted = Controller::ALL.to_vec();
    let mut sites = Vec::new();
    let (first, second): (Vec<_>, Vec<_>) = mounts
        .iter()
        .partition(|mount| mount.version == Version::V1);
    for mount in first.into_iter().chain(second) {
        let (taken, left) = wanted
            .iter()
            .partition(|controller| offers(mount, unified, **controller));
        wanted = left;
        let taken: Vec<Controller> = taken;
        if !taken.is_empty() {
            sites.push(Site {
                version: mount.version,
                controllers: taken,
                candidates: candidates(mount, memberships),
            });
        }
    }
    sites
}

fn offers(mount: &Mount, unified: &str, controller: Controller) -> bool {
    match (mount.version, controller) {
        (Version::V1, _) => mount
            .options
            .iter()
            .any(|option| option == controller.name()),
        (Version::V2, Controller::CpuAccount | Controller::Freezer) => true,
        (Version::V2, Controller::Memory | Controller::Cpu | Controller::Pids) => unified
            .split_ascii_whitespace()
            .any(|name| name == controller.name()),
    }
}

fn candidates(mount: &Mount, memberships: &[Membership]) -> Vec<PathBuf> {
    let own = memberships.iter().find(|membership| match mount.version {
        Version::V1 => membership
            .controllers
            .iter()
            .any(|name| mount.options.contains(name)),
        Version::V2 => membership.controllers.is_empty(),
    });
    let mut places = vec![mount.mount_point.clone()];
    // A group outside of what is mounted (`/../..` in a namespace) has no place here.
    let below = own
        .and_then(|own| own.path.strip_prefix(&mount.root).ok())
        .filter(|below| !below.components().any(|part| part.as_os_str() == ".."))
        .unwrap_or(Path::new(""));
    let mut at = mount.mount_point.clone();
    for part in below.components() {
        at.push(part);
        places.push(at.clone());
    }
    places
}
