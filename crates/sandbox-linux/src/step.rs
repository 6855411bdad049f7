//! The steps that turn a fresh process into a locked-down box, as data.
//!
//! The host plans them ([`crate::plan`]), sends them to the box's future init, and init performs them
//! one by one through a [`Kernel`]. Because the plan is data, the order of mounts and id changes is
//! tested without root, through a kernel that only records.
//!
//! Two kinds of paths occur and never mix: a *host path* is resolved in the host's tree, a *place* is
//! an absolute path as seen inside the box and is resolved beneath the box's root by the kernel.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::seccomp::Profile;

/// Index of a file descriptor sent along with the steps.
pub type DescriptorIndex = usize;

/// What a mount allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Whether device nodes below a mount can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Devices {
    Hidden,
    Usable,
}

/// The writable half of an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpperLayer {
    pub upper: PathBuf,
    pub work: PathBuf,
}

/// A box's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootMount {
    /// Where it is mounted on the host.
    pub at: PathBuf,
    /// Read-only layers as they are, the uppermost first.
    pub lower: Vec<PathBuf>,
    /// More of them, below those.
    pub translated: Option<TranslatedLayers>,
    pub upper: UpperLayer,
    pub options: OverlayOptions,
    /// Who gets the folders that are made on the way to a place; init otherwise.
    pub maker: Option<Owner>,
}

/// Layers whose owners are shown through a user namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslatedLayers {
    /// The uppermost first.
    pub layers: Vec<PathBuf>,
    /// The user namespace.
    pub owners: DescriptorIndex,
}

/// How overlayfs is told to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayOptions {
    pub marks: OverlayMarks,
    pub durability: Durability,
}

/// Where overlayfs keeps its marks (opaque, whiteout, redirect).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverlayMarks {
    /// `trusted.*`, out of reach for the box; needs real root.
    Trusted,
    /// `user.*`, the only ones an ordinary user can set.
    User,
}

/// Whether the upper layer must survive a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// No syncs: for boxes that are thrown away.
    Volatile,
    Durable,
}

/// A kernel file system that every box gets for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filesystem {
    Tmpfs {
        mode: u32,
        devices: Devices,
        owner: Option<Owner>,
    },
    Proc,
    /// `owner` of the terminals, if it is not the one who opens them.
    Devpts {
        owner: Option<Owner>,
    },
}

/// One step. The variants are in the order in which a plan uses them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Mounts made from here on must not leak back to the host.
    MakeMountsPrivate,
    /// Mounts the box's root overlay; later places are beneath it.
    MountRoot(RootMount),
    MakeDirectory {
        place: PathBuf,
        mode: u32,
        owner: Option<Owner>,
    },
    Symlink {
        place: PathBuf,
        target: PathBuf,
    },
    MountOverlay {
        place: PathBuf,
        lower: Vec<PathBuf>,
        upper: Option<UpperLayer>,
        options: OverlayOptions,
    },
    BindMount {
        source: PathBuf,
        place: PathBuf,
        access: Access,
        devices: Devices,
        /// A user namespace that translates owners, if they must be translated.
        owners: Option<DescriptorIndex>,
    },
    Mount {
        place: PathBuf,
        filesystem: Filesystem,
    },
    /// Makes a device node like the host's, or shows the host's own where none may be made.
    MakeDevice {
        place: PathBuf,
    },
    /// Attaches a mount that the host has made.
    AttachMount {
        mount: DescriptorIndex,
        place: PathBuf,
    },
    /// Makes a file or folder of a kernel file system unreadable, if it exists.
    Mask {
        place: PathBuf,
    },
    BringUpLoopback,
    /// Lets every user of the box's network listen on ports below 1024.
    AllowLowPorts,
    SetHostname {
        name: String,
    },
    /// Moves init into the box's control groups, through their `tasks` files.
    JoinControlGroups {
        tasks: Vec<DescriptorIndex>,
    },
    NewCgroupNamespace,
    /// Makes the new root the only one and forgets the host's.
    EnterRoot,
    EnterUserNamespace {
        descriptor: DescriptorIndex,
    },
    BecomeUser {
        uid: u32,
        gid: u32,
        groups: Groups,
    },
    LimitProcesses {
        count_max: u64,
    },
    KeepCapabilities {
        /// What init uses.
        keep: Vec<Capability>,
        /// What commands of root inside may have, and nothing that they start can go beyond.
        commands: Vec<Capability>,
    },
    NoNewPrivileges,
    /// Other processes of the box must not look into init.
    HideFromBox,
    DieWithSpawner,
    InstallSeccomp {
        profile: Profile,
    },
}

/// Ids on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// What happens to supplementary groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Groups {
    Drop,
    /// A user namespace made without root may not change them.
    Keep,
}

/// Capabilities that somebody in a box has, over the box's own ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capability {
    Chown,
    DacOverride,
    /// With [`Capability::SysPtrace`]: reads the environment of commands, to find the marker of a job.
    DacReadSearch,
    Fowner,
    Fsetid,
    Kill,
    NetBindService,
    SetFcap,
    SetGid,
    SetPcap,
    SetUid,
    SysChroot,
    SysPtrace,
}

/// What root inside an image needs to install packages and to add users, as `apt-get` and `dpkg` do it.
/// No mounts, no devices, no network administration, no look into init.
pub(crate) const ROOT_OF_IMAGE: [Capability; 11] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::Kill,
    Capability::NetBindService,
    Capability::SetFcap,
    Capability::SetGid,
    Capability::SetPcap,
    Capability::SetUid,
    Capability::SysChroot,
];

/// Capabilities as the kernel's set.
pub(crate) fn capability_set(capabilities: &[Capability]) -> CapabilitySet {
    capabilities
        .iter()
        .map(|capability| match capability {
            Capability::Chown => CapabilitySet::CHOWN,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Capability::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Capability::Fowner => CapabilitySet::FOWNER,
            Capability::Fsetid => CapabilitySet::FSETID,
            Capability::Kill => CapabilitySet::KILL,
            Capability::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Capability::SetFcap => CapabilitySet::SETFCAP,
            Capability::SetGid => CapabilitySet::SETGID,
            Capability::SetPcap => CapabilitySet::SETPCAP,
            Capability::SetUid => CapabilitySet::SETUID,
            Capability::SysChroot => CapabilitySet::SYS_CHROOT,
            Capability::SysPtrace => CapabilitySet::SYS_PTRACE,
        })
        .collect()
}

impl Step {
    /// The step as the end of a sentence that begins with "could not".
    pub fn describe(&self) -> String {
        match self {
            Self::MakeMountsPrivate => "detach the box's mounts from the host's".into(),
            Self::MountRoot(root) => format!("mount the box's root at `{}`", root.at.display()),
            Self::MakeDirectory { place, .. } => {
                format!("make folder `{}` in the box", place.display())
            }
            Self::Symlink { place, .. } => format!("make link `{}` in the box", place.display()),
            Self::MountOverlay { place, .. } => {
                format!("mount overlay at `{}` in the box", place.display())
            }
            Self::BindMount { source, place, .. } => {
                format!(
                    "show `{}` at `{}` in the box",
                    source.display(),
                    place.display()
                )
            }
            Self::Mount { place, filesystem } => {
                let name = match filesystem {
                    Filesystem::Tmpfs { .. } => "tmpfs",
                    Filesystem::Proc => "proc",
                    Filesystem::Devpts { .. } => "devpts",
                };
                format!("mount {name} at `{}` in the box", place.display())
            }
            Self::MakeDevice { place } => format!("make device `{}` in the box", place.display()),
            Self::AttachMount { place, .. } => {
                format!("attach a mount at `{}` in the box", place.display())
            }
            Self::Mask { place } => format!("mask `{}` in the box", place.display()),
            Self::AllowLowPorts => "open the box's low ports to its users".into(),
            Self::BringUpLoopback => "bring up the box's loopback interface".into(),
            Self::SetHostname { .. } => "set the box's host name".into(),
            Self::JoinControlGroups { .. } => "move the box into its control groups".into(),
            Self::NewCgroupNamespace => "make the box's cgroup namespace".into(),
            Self::EnterRoot => "make the box's root its only one".into(),
            Self::EnterUserNamespace { .. } => "enter the box's user namespace".into(),
            Self::BecomeUser { .. } => "change to the box's user".into(),
            Self::LimitProcesses { .. } => "limit the box's number of processes".into(),
            Self::KeepCapabilities { .. } => "drop capabilities".into(),
            Self::NoNewPrivileges => "forbid new privileges".into(),
            Self::HideFromBox => "hide init from the box".into(),
            Self::DieWithSpawner => "tie the box to its creator".into(),
            Self::InstallSeccomp { .. } => "install the system call filter".into(),
        }
    }

    /// Performs the step.
    pub(crate) fn perform(&self, kernel: &mut dyn Kernel) -> io::Result<()> {
        match self {
            Self::MakeMountsPrivate => kernel.make_mounts_private(),
            Self::MountRoot(root) => kernel.mount_root(root),
            Self::MakeDirectory { place, mode, owner } => {
                kernel.make_directory(place, *mode, *owner)
            }
            Self::Symlink { place, target } => kernel.symlink(place, target),
            Self::MountOverlay {
                place,
                lower,
                upper,
                options,
            } => kernel.mount_overlay(place, lower, upper.as_ref(), *options),
            Self::BindMount {
                source,
                place,
                access,
                devices,
                owners,
            } => kernel.bind_mount(source, place, *access, *devices, *owners),
            Self::Mount { place, filesystem } => kernel.mount(place, filesystem),
            Self::MakeDevice { place } => kernel.make_device(place),
            Self::AttachMount { mount, place } => kernel.attach_mount(*mount, place),
            Self::Mask { place } => kernel.mask(place),
            Self::BringUpLoopback => kernel.bring_up_loopback(),
            Self::AllowLowPorts => kernel.allow_low_ports(),
            Self::SetHostname { name } => kernel.set_hostname(name),
            Self::JoinControlGroups { tasks } => kernel.join_control_groups(tasks),
            Self::NewCgroupNamespace => kernel.new_cgroup_namespace(),
            Self::EnterRoot => kernel.enter_root(),
            Self::EnterUserNamespace { descriptor } => kernel.enter_user_namespace(*descriptor),
            Self::BecomeUser { uid, gid, groups } => kernel.become_user(*uid, *gid, *groups),
            Self::LimitProcesses { count_max } => kernel.limit_processes(*count_max),
            Self::KeepCapabilities { keep, commands } => kernel.keep_capabilities(keep, commands),
            Self::NoNewPrivileges => kernel.no_new_privileges(),
            Self::HideFromBox => kernel.hide_from_box(),
            Self::DieWithSpawner => kernel.die_with_spawner(),
            Self::InstallSeccomp { profile } => kernel.install_seccomp(*profile),
        }
    }
}

/// Whether `path` can be a place: absolute, without `..`, without a NUL.
pub(crate) fn is_place(path: &Path) -> bool {
    use std::path::Component;
    path.is_absolute()
        && !path.as_os_str().as_bytes().contains(&0)
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
