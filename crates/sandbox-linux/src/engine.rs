//! Makes boxes: the one place where spawner, plan, control groups and init come together.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::base::{BaseOptions, HostBase};
use crate::boxes::LinuxBox;
use crate::cgroup::{BoxGroup, Hierarchy, LimitKind, Limits, Unenforced};
use crate::error::{EngineError, HostFileContext, Result};
use crate::plan::{self, BasePlan, Descriptors, Power};
use crate::protocol::{Answer, Order, Then};
use crate::spawner::{NewProcess, Spawner};
use crate::spec::{BoxSpec, MountSpec, Network, Owners};
use crate::step::{Devices, Durability, OverlayOptions, Step};
use crate::{mounts, seccomp::Profile, wire};

/// Makes boxes on this host. Cheap to keep, meant to be made once and early.
#[derive(Debug)]
pub struct Engine {
    spawner: Spawner,
    hierarchy: Hierarchy,
    power: Power,
}

/// A box in all but its files, limits and lock-down: namespaces and the base's mounts exist already.
#[derive(Debug)]
pub struct Prepared {
    id: String,
    directory: PathBuf,
    process: NewProcess,
    group: BoxGroup,
    profile: Profile,
    network: Network,
    durability: Durability,
    base: HostBase,
}

/// What must be known to prepare a box ahead of time.
#[derive(Debug, Clone)]
pub struct PreparedSpec {
    pub id: String,
    pub directory: PathBuf,
    pub base: HostBase,
    pub profile: Profile,
    pub network: Network,
    pub durability: Durability,
}

impl Engine {
    /// Forks the spawner from the calling process and looks at the host's control groups.
    pub fn start() -> Result<Self> {
        let uid = rustix::process::geteuid();
        let power = if uid.is_root() && owns_box_ids() {
            Power::Root
        } else {
            Power::User {
                uid: uid.as_raw(),
                gid: rustix::process::getegid().as_raw(),
            }
        };
        let spawner = Spawner::start()?;
        let hierarchy = Hierarchy::detect().map_err(|source| EngineError::Cgroup { source })?;
        Ok(Self {
            spawner,
            hierarchy,
            power,
        })
    }

    pub fn power(&self) -> Power {
        self.power
    }

    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// The host's root as a base, with skeletons kept below `directory`.
    pub fn host_base(
        &self,
        directory: &Path,
        network: Network,
        toolchain_home: Option<PathBuf>,
    ) -> Result<HostBase> {
        HostBase::prepare(&BaseOptions {
            directory: directory.to_path_buf(),
            network,
            marks: self.power.marks(),
            user: self.power.box_user(),
            toolchain_home,
        })
    }

    /// Makes a box from nothing.
    pub fn create(&self, spec: &BoxSpec) -> Result<LinuxBox> {
        let mut prepared = self.clone_process(
            PreparedSpec {
                id: spec.id.clone(),
                directory: spec.directory.clone(),
                base: spec.base.clone(),
                profile: spec.profile,
                network: spec.network,
                durability: spec.durability,
            },
            &spec.limits,
        )?;
        let finished = self.finish(&mut prepared, spec, BaseSteps::ToDo);
        self.finished_box(prepared, spec, finished)
    }

    /// Does ahead of time what every box on the same base needs.
    pub fn prepare(&self, spec: PreparedSpec) -> Result<Prepared> {
        let prepared = self.clone_process(spec, &Limits::default())?;
        let performed = self.tasks_of(&prepared).and_then(|tasks| {
            let indices: Vec<_> = (0..tasks.len()).collect();
            let borrowed: Vec<_> = tasks.iter().map(AsFd::as_fd).collect();
            let steps = self.base_steps(&prepared, &indices);
            perform(&prepared, &steps, &borrowed, Then::MoreSteps)
        });
        match performed {
            Ok(()) => Ok(prepared),
            Err(error) => {
                abandon(prepared);
                Err(error)
            }
        }
    }

    /// Makes the given box out of a prepared one, or anew where the prepared one does not fit.
    pub fn claim(&self, mut prepared: Prepared, spec: &BoxSpec) -> Result<LinuxBox> {
        if (
            &spec.id,
            &spec.directory,
            spec.profile,
            spec.network,
            spec.durability,
            &spec.base,
        ) != (
            &prepared.id,
            &prepared.directory,
            prepared.profile,
            prepared.network,
            prepared.durability,
            &prepared.base,
        ) {
            abandon(prepared);
            return self.create(spec);
        }
        if let Err(source) = prepared.group.update(&spec.limits) {
            abandon(prepared);
            return Err(EngineError::Cgroup { source });
        }
        let finished = self.finish(&mut prepared, spec, BaseSteps::Done);
        self.finished_box(prepared, spec, finished)
    }

    /// Throws a prepared box away.
    pub fn discard(&self, prepared: Prepared) {
        abandon(prepared);
    }

    fn clone_process(&self, spec: PreparedSpec, limits: &Limits) -> Result<Prepared> {
        self.make_layers(&spec.directory)?;
        let group = self
            .hierarchy
            .create(&spec.id, limits)
            .map_err(|source| EngineError::Cgroup { source })?;
        let user_namespace = match self.power {
            Power::Root => None,
            Power::User { .. } => Some(self.power.user_namespace()),
        };
        let started = group
            .clone_into_fd()
            .map_err(|source| EngineError::Cgroup { source })
            .and_then(|cgroup| {
                self.spawner.new_process(
                    plan::clone_flags(self.power, spec.network),
                    user_namespace,
                    cgroup.as_ref().map(AsFd::as_fd),
                )
            });
        match started {
            Ok(process) => Ok(Prepared {
                id: spec.id,
                directory: spec.directory,
                process,
                group,
                profile: spec.profile,
                network: spec.network,
                durability: spec.durability,
                base: spec.base,
            }),
            Err(error) => {
                // The error that matters is the first one.
                drop(group.remove());
                Err(error)
            }
        }
    }

    fn make_layers(&self, directory: &Path) -> Result<()> {
        for name in ["mnt", "root-work", "root-upper"] {
            let path = directory.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {}
                // A box that is started again keeps its layers.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error).doing("make folder", path),
            }
            // The box's `/` has the mode of this folder, whatever the caller's umask says.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .doing("set the mode of", &path)?;
            match self.power {
                Power::Root if name == "root-upper" => {
                    let owner = self.power.box_root();
                    chown(&path, Some(owner.uid), Some(owner.gid))
                        .doing("change the owner of", path)?;
                }
                Power::Root | Power::User { .. } => {}
            }
        }
        Ok(())
    }

    fn base_steps(&self, prepared: &Prepared, tasks: &[usize]) -> Vec<Step> {
        plan::base_steps(&BasePlan {
            directory: &prepared.directory,
            base: &prepared.base,
            power: self.power,
            profile: prepared.profile,
            network: prepared.network,
            durability: prepared.durability,
            tasks,
        })
    }

    fn tasks_of(&self, prepared: &Prepared) -> Result<Vec<OwnedFd>> {
        prepared
            .group
            .join_fds()
            .map_err(|source| EngineError::Cgroup { source })
    }

    /// Performs what is left, in one message.
    fn finish(&self, prepared: &mut Prepared, spec: &BoxSpec, base: BaseSteps) -> Result<()> {
        let mut sent: Vec<OwnedFd> = Vec::new();
        let mut steps = match base {
            BaseSteps::Done => Vec::new(),
            BaseSteps::ToDo => {
                sent = self.tasks_of(prepared)?;
                let indices: Vec<_> = (0..sent.len()).collect();
                self.base_steps(prepared, &indices)
            }
        };
        let mut index_of = |descriptor: OwnedFd| {
            sent.push(descriptor);
            sent.len() - 1
        };
        let mut descriptors = Descriptors::default();
        match self.power {
            Power::Root => {
                let namespace = self.spawner.user_namespace(&self.power.user_namespace())?;
                descriptors.user_namespace = Some(index_of(namespace));
                for mount in &spec.mounts {
                    descriptors
                        .mounts
                        .push(index_of(self.make_mount(mount, spec.durability)?));
                }
            }
            Power::User { .. } => {}
        }
        let processes_max =
            processes_limit_without_cgroup(self.power, &prepared.group, &spec.limits);
        steps.extend(plan::final_steps(
            spec,
            self.power,
            &descriptors,
            processes_max,
        )?);
        let borrowed: Vec<BorrowedFd<'_>> = sent.iter().map(AsFd::as_fd).collect();
        perform(prepared, &steps, &borrowed, Then::Serve)
    }

    /// Makes a mount of the specification, for init to attach.
    fn make_mount(&self, mount: &MountSpec, durability: Durability) -> Result<OwnedFd> {
        plan::check_place(mount.place())?;
        let made = match mount {
            MountSpec::Overlay { lower, upper, .. } => {
                let options = OverlayOptions {
                    marks: self.power.marks(),
                    durability,
                };
                mounts::overlay(lower, Some(upper), options)
            }
            MountSpec::Bind {
                source,
                access,
                owners,
                ..
            } => {
                let translation = match owners {
                    Owners::AsOnHost => None,
                    Owners::BoxUserIs { uid, gid } => {
                        plan::owner_translation(self.power, *uid, *gid)
                    }
                };
                let translation = translation
                    .map(|maps| self.spawner.user_namespace(&maps))
                    .transpose()?;
                let translation = translation.as_ref().map(AsFd::as_fd);
                mounts::bind(source, *access, Devices::Hidden, translation)
            }
        };
        made.map_err(|source| EngineError::Step {
            step: Box::new(plan::mount_step(mount, self.power, durability)),
            source,
        })
    }

    fn finished_box(
        &self,
        prepared: Prepared,
        spec: &BoxSpec,
        finished: Result<()>,
    ) -> Result<LinuxBox> {
        if let Err(error) = finished {
            abandon(prepared);
            return Err(error);
        }
        Ok(LinuxBox::new(
            spec.id.clone(),
            self.power,
            prepared.process,
            prepared.group,
            processes_limit_is_by_rlimit,
        ))
    }
}

/// Whether the ids of boxes mean anything here: root of a container or of a user namespace often has a few
/// ids only, and is an ordinary user to the kernel.
fn owns_box_ids() -> bool {
    let covers = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        plan::map_covers_box_ids(&text)
    };
    covers("/proc/self/uid_map") && covers("/proc/self/gid_map")
}

/// Whether the steps that every box needs have been performed.
enum BaseSteps {
    Done,
    ToDo,
}

/// Without a pids controller the kernel can still count the box's processes in its user namespace.
fn processes_limit_without_cgroup(power: Power, group: &BoxGroup, limits: &Limits) -> Option<u64> {
    let pids = limits.pids?;
    match power {
        // Root's boxes share one user namespace: each would be held to account for all of them.
        Power::Root => None,
        Power::User { .. } => {
            let missing = group.unenforced().iter().any(is_pids);
            missing.then_some(u64::from(pids))
        }
    }
}

fn is_pids(unenforced: &Unenforced) -> bool {
    unenforced.limit == LimitKind::Pids
}

/// Filters the report: a process limit that the user namespace enforces is enforced.
fn processes_limit_is_by_rlimit(power: Power, unenforced: &Unenforced) -> bool {
    match power {
        Power::Root => false,
        Power::User { .. } => is_pids(unenforced),
    }
}

fn perform(
    prepared: &Prepared,
    steps: &[Step],
    descriptors: &[BorrowedFd<'_>],
    then: Then,
) -> Result<()> {
    let control = |source| EngineError::Control {
        doing: "set up",
        id: prepared.id.clone(),
        source,
    };
    let socket = &prepared.process.control;
    let order = Order::Perform {
        steps: steps.to_vec(),
        then,
    };
    wire::send(socket, &order, descriptors).map_err(control)?;
    match wire::receive_answer::<Answer>(socket).map_err(control)? {
        Some((Answer::Done, _)) => Ok(()),
        Some((Answer::StepFailed { index, errno }, _)) => {
            let source = io::Error::from_raw_os_error(errno);
            Err(match steps.get(index) {
                Some(step) => EngineError::Step {
                    step: Box::new(step.clone()),
                    source,
                },
                None => control(source),
            })
        }
        Some((Answer::Root | Answer::Failed { .. }, _)) => {
            Err(control(io::ErrorKind::InvalidData.into()))
        }
        None => Err(EngineError::NotRunning {
            id: prepared.id.clone(),
        }),
    }
}

/// Ends a box that never came to be. Its folder is the caller's to remove.
fn abandon(prepared: Prepared) {
    crate::boxes::end_process(&prepared.process.pidfd);
    // A group that stays empty does no harm, and the next clean-up finds it.
    drop(prepared.group.remove());
}
