//! Makes boxes: the one place where spawner, plan, control groups and init come together.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::base::{BaseOptions, HostBase};
use crate::boxes::{LinuxBox, end_process};
use crate::cgroup::{BoxGroup, Hierarchy, LimitKind, Limits, Unenforced};
use crate::checks;
use crate::error::{EngineError, HostFileContext, Result};
use crate::ids::{HeldIds, IdRange};
use crate::image::{ImageBase, ImageOptions};
use crate::mounts;
use crate::names;
use crate::plan::{self, BasePlan, Descriptors};
use crate::power::{self, Power};
use crate::prepared::{Beginning, Prepared, PreparedSpec, Waiting, abandon, send_steps};
use crate::protocol::Then;
use crate::spawner::{NewProcess, Spawner, UserNamespace};
use crate::spec::{Base, BoxSpec, MountSpec, Network, Owners};
use crate::step::{Devices, OverlayOptions, Step};

/// Makes boxes on this host. Cheap to keep, meant to be made once and early.
#[derive(Debug)]
pub struct Engine {
    spawner: Spawner,
    hierarchy: Hierarchy,
    power: Power,
    /// Users and groups that can be given to boxes.
    held: [HeldIds; 2],
}

impl Engine {
    /// Forks the spawner from the calling process and looks at the host's control groups.
    pub fn start() -> Result<Self> {
        let uid = rustix::process::geteuid();
        let held = held_ids();
        // Root of a container or of a user namespace often has a few ids only, and is an ordinary user to
        // the kernel.
        let power = if uid.is_root() && held.iter().all(|ids| ids.cover(IdRange::FIRST)) {
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
            held,
        })
    }

    pub fn power(&self) -> Power {
        self.power
    }

    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// The host's root as a base.
    pub fn host_base(&self, options: &BaseOptions) -> Result<HostBase> {
        checks::check_ids(self.power, &self.held, options.ids)?;
        HostBase::prepare(options, self.power)
    }

    /// An image as a base, which takes root.
    pub fn image_base(&self, options: &ImageOptions) -> Result<ImageBase> {
        checks::check_images(self.power)?;
        ImageBase::prepare(options)
    }

    /// Says that a box will be made soon: its process is made meanwhile. An optimisation that may fail.
    pub fn expect_box(&self, network: Network, ids: IdRange) {
        // A v2 group must exist before the process that is born into it.
        if !self.hierarchy.needs_birth_inside() {
            let flags = power::clone_flags(self.power, network);
            // The error comes again, and is told, when the box is made.
            let later = match self.power {
                Power::Root => Some(self.power.user_namespace(ids)),
                Power::User { .. } => None,
            };
            drop(
                self.spawner
                    .begin_process(flags, self.namespace_at_birth(), later),
            );
        }
    }

    /// Takes [`Engine::expect_box`] back, if the box has not been made.
    pub fn expect_none(&self) {
        self.spawner.forget_begun();
    }

    fn namespace_at_birth(&self) -> Option<UserNamespace> {
        match self.power {
            Power::Root => None,
            Power::User { .. } => Some(self.power.user_namespace(IdRange::FIRST)),
        }
    }

    /// Makes a box from nothing.
    pub fn create(&self, spec: &BoxSpec) -> Result<LinuxBox> {
        let beginning = self.begin(PreparedSpec::from(spec))?;
        let mut prepared = self.give_group(beginning, &spec.limits)?;
        let finished = self.finish(&mut prepared, spec);
        self.finished_box(prepared, spec, finished)
    }

    /// Does ahead of time what every box on the same base needs.
    pub fn prepare(&self, spec: PreparedSpec) -> Result<Prepared> {
        let beginning = self.begin(spec)?;
        let mut prepared = self.give_group(beginning, &Limits::default())?;
        match self.join(&mut prepared) {
            Ok(()) => Ok(prepared),
            Err(error) => {
                abandon(prepared);
                Err(error)
            }
        }
    }

    /// Makes the given box out of a prepared one, or anew where the prepared one does not fit.
    pub fn claim(&self, mut prepared: Prepared, spec: &BoxSpec) -> Result<LinuxBox> {
        if PreparedSpec::from(spec) != prepared.spec {
            abandon(prepared);
            return self.create(spec);
        }
        if let Err(source) = prepared.group.update(&spec.limits) {
            abandon(prepared);
            return Err(EngineError::Cgroup { source });
        }
        let finished = self.finish(&mut prepared, spec);
        self.finished_box(prepared, spec, finished)
    }

    /// Throws a prepared box away.
    pub fn discard(&self, prepared: Prepared) {
        abandon(prepared);
    }

    /// Has init perform the base steps, and does not wait for it: there is work to do meanwhile.
    fn begin(&self, spec: PreparedSpec) -> Result<Beginning> {
        checks::check_ids(self.power, &self.held, spec.ids)?;
        checks::check_base(&spec, self.power)?;
        self.make_layers(&spec.directory, spec.ids)?;
        let group = if self.hierarchy.needs_birth_inside() {
            Some(self.new_group(&spec.id, &Limits::default())?)
        } else {
            None
        };
        match self.begin_process(&spec, group.as_ref()) {
            Ok((process, sent)) => Ok(Beginning {
                spec,
                process,
                group,
                sent,
            }),
            Err(error) => {
                // The error that matters is the first one.
                drop(group.map(|group| group.remove()));
                Err(error)
            }
        }
    }

    fn begin_process(
        &self,
        spec: &PreparedSpec,
        group: Option<&BoxGroup>,
    ) -> Result<(NewProcess, Vec<Step>)> {
        let cgroup = match group {
            Some(group) => group
                .clone_into_fd()
                .map_err(|source| EngineError::Cgroup { source })?,
            None => None,
        };
        let process = self.spawner.new_process(
            power::clone_flags(self.power, spec.network),
            self.namespace_at_birth(),
            cgroup.as_ref().map(AsFd::as_fd),
        )?;
        let steps = plan::base_steps(&BasePlan {
            directory: &spec.directory,
            base: &spec.base,
            layers: &spec.layers,
            power: self.power,
            ids: spec.ids,
            profile: spec.profile,
            network: spec.network,
            durability: spec.durability,
        });
        let owners = match &spec.base {
            Base::Host(_) => None,
            Base::Image(_) => {
                let maps = self.power.user_namespace(spec.ids);
                Some(self.spawner.user_namespace(&maps)?)
            }
        };
        let sent: Vec<_> = owners.iter().map(AsFd::as_fd).collect();
        send_steps(&spec.id, &process, &steps, &sent, Then::MoreSteps)?;
        Ok((process, steps))
    }

    fn new_group(&self, id: &str, limits: &Limits) -> Result<BoxGroup> {
        self.hierarchy
            .create(id, limits)
            .map_err(|source| EngineError::Cgroup { source })
    }

    /// Gives a beginning its control groups and its limits.
    fn give_group(&self, beginning: Beginning, limits: &Limits) -> Result<Prepared> {
        let Beginning {
            spec,
            process,
            group,
            sent,
        } = beginning;
        let given = match group {
            Some(mut group) => match group.update(limits).map(drop) {
                Ok(()) => Ok(group),
                Err(source) => {
                    drop(group.remove());
                    Err(EngineError::Cgroup { source })
                }
            },
            None => self.new_group(&spec.id, limits),
        };
        match given {
            Ok(group) => Ok(Prepared {
                spec,
                process,
                group,
                waiting: Waiting::Base(sent),
            }),
            Err(error) => {
                end_process(&process.pidfd);
                Err(error)
            }
        }
    }

    fn make_layers(&self, directory: &Path, ids: IdRange) -> Result<()> {
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
                    let owner = self.power.box_root(ids);
                    chown(&path, Some(owner.uid), Some(owner.gid))
                        .doing("change the owner of", path)?;
                }
                Power::Root | Power::User { .. } => {}
            }
        }
        Ok(())
    }

    /// Waits for the base steps and moves init into its groups.
    fn join(&self, prepared: &mut Prepared) -> Result<()> {
        let tasks = prepared.tasks()?;
        let indices: Vec<_> = (0..tasks.len()).collect();
        let borrowed: Vec<_> = tasks.iter().map(AsFd::as_fd).collect();
        let steps = plan::join_steps(&indices);
        prepared.send(&steps, &borrowed, Then::MoreSteps)?;
        prepared.take_base_answer()?;
        prepared.receive(&steps)
    }

    /// Performs what is left.
    fn finish(&self, prepared: &mut Prepared, spec: &BoxSpec) -> Result<()> {
        checks::check_profile(spec)?;
        if let Some(name) = &spec.hostname {
            names::check_hostname(name)?;
            names::write_files(&spec.directory, name)?;
        }
        let mut sent: Vec<OwnedFd> = Vec::new();
        let mut steps = Vec::new();
        match &prepared.waiting {
            Waiting::Nothing => {}
            Waiting::Base(_) => {
                sent = prepared.tasks()?;
                let indices: Vec<_> = (0..sent.len()).collect();
                steps = plan::join_steps(&indices);
            }
        }
        let mut index_of = |descriptor: OwnedFd| {
            sent.push(descriptor);
            sent.len() - 1
        };
        let mut descriptors = Descriptors::default();
        match self.power {
            Power::Root => {
                let maps = self.power.user_namespace(spec.ids);
                let namespace = self.spawner.user_namespace(&maps)?;
                descriptors.user_namespace = Some(index_of(namespace));
                for mount in &plan::all_mounts(spec)? {
                    descriptors
                        .mounts
                        .push(index_of(self.make_mount(mount, spec)?));
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
        prepared.send(&steps, &borrowed, Then::Serve)?;
        prepared.take_base_answer()?;
        prepared.receive(&steps)
    }

    /// Makes a mount of the specification, for init to attach.
    fn make_mount(&self, mount: &MountSpec, spec: &BoxSpec) -> Result<OwnedFd> {
        let made = match mount {
            MountSpec::Overlay { lower, upper, .. } => {
                let options = OverlayOptions {
                    marks: self.power.marks(),
                    durability: spec.durability,
                };
                mounts::overlay(lower, &[], Some(upper), options)
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
                        power::owner_translation(self.power, spec.ids, *uid, *gid)
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
            step: Box::new(plan::mount_step(mount, self.power, spec.durability)),
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
        )
        .with_users(spec.base.command_users()))
    }
}

/// The users and groups of this process's user namespace.
fn held_ids() -> [HeldIds; 2] {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .map(|path| HeldIds::parse(&fs::read_to_string(path).unwrap_or_default()))
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
