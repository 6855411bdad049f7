//! From a box's specification to the steps that make it: pure, and the one place that knows the order.
//!
//! The order carries the safety: mounts are made while init still has its creator's power, the host's
//! root is forgotten before the power is, and the filter comes last because it forbids all of that.

use std::path::{Path, PathBuf};

use crate::error::{EngineError, Result};
use crate::ids::IdRange;
use crate::names::{self, HOSTNAME};
use crate::power::Power;
use crate::seccomp::Profile;
use crate::spec::{BOX_USER, Base, BoxSpec, Lifetime, MountSpec, Network};
use crate::step::{
    Access, Capability, DescriptorIndex, Devices, Durability, Filesystem, Groups, OverlayOptions,
    Owner, ROOT_OF_IMAGE, RootMount, Step, TranslatedLayers, UpperLayer, is_place,
};

/// Device nodes that programs expect.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

/// Kernel files that everybody may read and that tell about the host. Those that only root may open need
/// no mask: nobody in a box is the machine's root.
const PROC_MASKED: [&str; 3] = ["keys", "sched_debug", "timer_list"];

/// Read-only layers that a box's root may have. Overlayfs takes 500 (`OVL_MAX_STACK`); each one makes the
/// search for a name that does not exist longer, and needs a descriptor while the box is made.
pub(crate) const LAYERS_MAX: usize = 128;

/// What every box on a base needs, whatever it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BasePlan<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) base: &'a Base,
    pub(crate) layers: &'a [PathBuf],
    pub(crate) power: Power,
    pub(crate) ids: IdRange,
    pub(crate) profile: Profile,
    pub(crate) network: Network,
    pub(crate) durability: Durability,
}

impl BasePlan<'_> {
    /// Who root is inside, where the base has one.
    fn image_root(&self) -> Option<Owner> {
        match self.base {
            Base::Host(_) => None,
            Base::Image(_) => Some(self.power.box_root(self.ids)),
        }
    }
}

/// The descriptor that goes with the base steps of a box on an image: its user namespace.
const IMAGE_OWNERS: DescriptorIndex = 0;

/// The root with the base's files, before the kernel's own file systems are hung in.
fn root_steps(plan: &BasePlan<'_>) -> Vec<Step> {
    let options = OverlayOptions {
        marks: plan.power.marks(),
        durability: plan.durability,
    };
    let mut root = RootMount {
        at: plan.directory.join("mnt"),
        lower: plan.layers.to_vec(),
        translated: None,
        upper: UpperLayer {
            upper: plan.directory.join("root-upper"),
            work: plan.directory.join("root-work"),
        },
        options,
        maker: None,
    };
    let base = match plan.base {
        Base::Host(base) => base,
        Base::Image(image) => {
            root.translated = Some(TranslatedLayers {
                layers: image.all_layers(),
                owners: IMAGE_OWNERS,
            });
            root.maker = plan.image_root();
            return vec![Step::MakeMountsPrivate, Step::MountRoot(root)];
        }
    };
    root.lower.push(base.root_layer.clone());
    let mut steps = vec![Step::MakeMountsPrivate, Step::MountRoot(root)];
    for folder in &base.system {
        steps.push(read_only(folder));
    }
    let shown_through = |folder: &Path, layer: &Path| Step::MountOverlay {
        place: folder.to_path_buf(),
        lower: vec![layer.to_path_buf(), folder.to_path_buf()],
        upper: None,
        options,
    };
    steps.push(shown_through(Path::new("/etc"), &base.etc_layer));
    for folder in &base.optional {
        steps.push(shown_through(folder, &base.empty_layer));
    }
    for toolchain in &base.toolchains {
        steps.push(read_only(&toolchain.path));
    }
    steps
}

/// What is the same for every box on a base: done ahead of time for a prepared one.
pub(crate) fn base_steps(plan: &BasePlan<'_>) -> Vec<Step> {
    let BasePlan {
        power,
        ids,
        profile,
        network,
        ..
    } = *plan;
    let place = |text: &str| PathBuf::from(text);
    // On an image there is a root inside, whose folders these are.
    let owner = plan.image_root();
    let tmpfs = |at: &str, mode, devices| Step::Mount {
        place: place(at),
        filesystem: Filesystem::Tmpfs {
            mode,
            devices,
            owner,
        },
    };
    let run_mode = match plan.base {
        // Nobody inside is root, so everybody may write.
        Base::Host(_) => 0o1777,
        Base::Image(_) => 0o755,
    };
    let mut steps = root_steps(plan);
    steps.push(Step::Mount {
        place: place("/proc"),
        filesystem: Filesystem::Proc,
    });
    match profile {
        Profile::Strict | Profile::Image => {
            steps.extend(PROC_MASKED.iter().map(|name| Step::Mask {
                place: Path::new("/proc").join(name),
            }));
        }
        // The kernel lets a nested user namespace mount its own /proc only if this one is whole.
        Profile::Nested => {}
    }
    steps.push(tmpfs("/tmp", 0o1777, Devices::Hidden));
    steps.push(tmpfs("/run", run_mode, Devices::Hidden));
    steps.push(tmpfs("/dev", 0o755, Devices::Usable));
    for name in DEVICES {
        steps.push(Step::MakeDevice {
            place: Path::new("/dev").join(name),
        });
    }
    steps.push(Step::Mount {
        place: place("/dev/pts"),
        filesystem: Filesystem::Devpts {
            // Init opens the terminals, and the command must be able to open its own by name.
            owner: match power {
                Power::Root => Some(power.box_user(ids)),
                Power::User { .. } => None,
            },
        },
    });
    steps.push(Step::MakeDirectory {
        place: place("/dev/shm"),
        mode: 0o1777,
        owner,
    });
    for (link, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        steps.push(Step::Symlink {
            place: place(link),
            target: place(target),
        });
    }
    match (network, plan.base) {
        (Network::None, base) => {
            steps.push(Step::BringUpLoopback);
            match base {
                Base::Host(_) => {}
                // The network is not the box's own, so root's capability for this does not count.
                Base::Image(_) => steps.push(Step::AllowLowPorts),
            }
        }
        (Network::Host, _) => {}
    }
    steps.push(Step::SetHostname {
        name: HOSTNAME.into(),
    });
    match power {
        // The host makes the rest of the mounts, so nothing of its tree is needed any more.
        Power::Root => steps.push(Step::EnterRoot),
        Power::User { .. } => {}
    }
    steps
}

fn read_only(folder: &Path) -> Step {
    Step::BindMount {
        source: folder.to_path_buf(),
        place: folder.to_path_buf(),
        access: Access::ReadOnly,
        devices: Devices::Hidden,
        owners: None,
    }
}

/// Moves init into the box's control groups; later than the base, so that both are made at once.
pub(crate) fn join_steps(tasks: &[DescriptorIndex]) -> Vec<Step> {
    let mut steps = Vec::new();
    if !tasks.is_empty() {
        steps.push(Step::JoinControlGroups {
            tasks: tasks.to_vec(),
        });
    }
    steps.push(Step::NewCgroupNamespace);
    steps
}

/// Descriptors that go with the final steps, by their index.
#[derive(Debug, Default, Clone)]
pub(crate) struct Descriptors {
    pub(crate) user_namespace: Option<DescriptorIndex>,
    /// As root, [`all_mounts`], made by the host.
    pub(crate) mounts: Vec<DescriptorIndex>,
}

/// What makes this one box out of a prepared one, ending with the loss of all power.
pub(crate) fn final_steps(
    spec: &BoxSpec,
    power: Power,
    descriptors: &Descriptors,
    processes_max: Option<u64>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if let Some(name) = &spec.hostname {
        steps.push(Step::SetHostname { name: name.clone() });
    }
    for (index, mount) in all_mounts(spec)?.iter().enumerate() {
        steps.push(match (power, descriptors.mounts.get(index)) {
            (Power::Root, Some(made)) => Step::AttachMount {
                mount: *made,
                place: mount.place().to_path_buf(),
            },
            (Power::Root | Power::User { .. }, _) => mount_step(mount, power, spec.durability),
        });
    }
    match power {
        Power::Root => {}
        Power::User { .. } => steps.push(Step::EnterRoot),
    }
    match power {
        Power::Root => {
            if let Some(descriptor) = descriptors.user_namespace {
                steps.push(Step::EnterUserNamespace { descriptor });
            }
            steps.push(Step::BecomeUser {
                uid: 0,
                gid: 0,
                groups: Groups::Drop,
            });
        }
        Power::User { .. } => {
            steps.push(Step::BecomeUser {
                uid: BOX_USER,
                gid: BOX_USER,
                groups: Groups::Keep,
            });
        }
    }
    if let Some(count_max) = processes_max {
        steps.push(Step::LimitProcesses { count_max });
    }
    steps.push(capabilities(power, &spec.base));
    steps.push(Step::NoNewPrivileges);
    // Changing ids and capabilities resets both of these, so they come after.
    steps.push(Step::HideFromBox);
    match spec.lifetime {
        Lifetime::WithCreator => steps.push(Step::DieWithSpawner),
        Lifetime::UntilStopped => {}
    }
    steps.push(Step::InstallSeccomp {
        profile: spec.profile,
    });
    Ok(steps)
}

/// What init keeps, and what root's commands may have.
fn capabilities(power: Power, base: &Base) -> Step {
    let (mut keep, mut commands) = (Vec::new(), Vec::new());
    match power {
        Power::Root => keep.extend([
            Capability::Kill,
            Capability::SetGid,
            Capability::SetUid,
            Capability::DacReadSearch,
            Capability::SysPtrace,
        ]),
        Power::User { .. } => {}
    }
    match base {
        Base::Host(_) => {}
        Base::Image(_) => {
            // Terminals belong to whoever uses them.
            keep.push(Capability::Chown);
            commands.extend(ROOT_OF_IMAGE);
        }
    }
    Step::KeepCapabilities { keep, commands }
}

/// The mounts of the specification, checked, after those that come with it.
pub(crate) fn all_mounts(spec: &BoxSpec) -> Result<Vec<MountSpec>> {
    let mut mounts = Vec::new();
    if let Some(name) = &spec.hostname {
        names::check_hostname(name)?;
        mounts.extend(names::mounts(&spec.directory));
    }
    for mount in &spec.mounts {
        check_place(mount.place())?;
        mounts.push(mount.clone());
    }
    Ok(mounts)
}

/// A mount of the specification as the step that makes it.
pub(crate) fn mount_step(mount: &MountSpec, power: Power, durability: Durability) -> Step {
    match mount {
        MountSpec::Overlay {
            place,
            lower,
            upper,
        } => Step::MountOverlay {
            place: place.clone(),
            lower: lower.clone(),
            upper: Some(upper.clone()),
            options: OverlayOptions {
                marks: power.marks(),
                durability,
            },
        },
        MountSpec::Bind {
            source,
            place,
            access,
            ..
        } => Step::BindMount {
            source: source.clone(),
            place: place.clone(),
            access: *access,
            devices: Devices::Hidden,
            // Only root translates owners, and does so where it makes the mount.
            owners: None,
        },
    }
}

/// Refuses mounts over what keeps the box a box.
pub(crate) fn check_place(place: &Path) -> Result<()> {
    let lacks = |reason: String| EngineError::HostLacks {
        reason,
        hint: "choose another folder, for instance one below your home or the temp folder".into(),
    };
    if !is_place(place) {
        return Err(lacks(format!(
            "`{}` is not a place inside a box",
            place.display()
        )));
    }
    let reserved = [
        "/dev", "/etc", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
        "/libx32",
    ];
    if place == Path::new("/") || reserved.iter().any(|taken| place.starts_with(taken)) {
        return Err(lacks(format!(
            "`{}` belongs to the system inside a box",
            place.display()
        )));
    }
    Ok(())
}
