//! The group of one box.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::Pid;

use super::hierarchy::Place;
use super::limits::{write_cpu, write_knob, write_memory, write_pids};
use super::{CgroupError, Controller, LimitKind, Limits, Reason, Unenforced, Version};

/// A box's directories in all hierarchies. Dropping it leaves them; [`remove`](Self::remove) takes them away.
#[derive(Debug)]
pub struct BoxGroup {
    name: String,
    pub(super) dirs: Vec<GroupDir>,
    pub(super) missing: Vec<(Controller, Reason)>,
    unenforced: Vec<Unenforced>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupDir {
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
    pub(super) path: PathBuf,
}

impl GroupDir {
    pub(super) fn new(place: &Place, path: PathBuf) -> Self {
        Self {
            version: place.version,
            controllers: place.controllers.clone(),
            path,
        }
    }
}

/// Whether limits that were not asked for are written too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// A new group has none anyway.
    Skip,
    Lift,
}

impl BoxGroup {
    pub(super) fn new(name: &str, missing: Vec<(Controller, Reason)>) -> Self {
        Self {
            name: name.to_owned(),
            dirs: Vec::new(),
            missing,
            unenforced: Vec::new(),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits that were asked for and do not hold.
    #[must_use]
    pub fn unenforced(&self) -> &[Unenforced] {
        &self.unenforced
    }

    /// Sets exactly these limits; `None` lifts one. Returns what does not hold, as [`unenforced`](Self::unenforced).
    ///
    /// The kernel refuses a memory limit below what the box uses and cannot give back (EBUSY).
    pub fn update(&mut self, limits: &Limits) -> Result<&[Unenforced], CgroupError> {
        limits.check()?;
        self.apply(limits, Absent::Lift);
        Ok(&self.unenforced)
    }

    pub(super) fn apply_new(&mut self, limits: &Limits) {
        self.apply(limits, Absent::Skip);
    }

    fn apply(&mut self, limits: &Limits, absent: Absent) {
        let steps = [
            (
                LimitKind::Memory,
                Controller::Memory,
                limits.memory_bytes.is_some(),
            ),
            (LimitKind::Cpu, Controller::Cpu, limits.cpu_millis.is_some()),
            (LimitKind::Pids, Controller::Pids, limits.pids.is_some()),
        ];
        let mut unenforced = Vec::new();
        for (limit, controller, asked) in steps {
            if !asked && absent == Absent::Skip {
                continue;
            }
            let written = match self.dir_of(controller) {
                Some(dir) => write_limit(dir, controller, limits),
                None if asked => Err(Unenforced {
                    limit,
                    reason: self.reason_missing(controller),
                }),
                None => Ok(()),
            };
            unenforced.extend(written.err());
        }
        self.unenforced = unenforced;
    }

    pub(super) fn dir_of(&self, controller: Controller) -> Option<&GroupDir> {
        self.dirs
            .iter()
            .find(|dir| dir.controllers.contains(&controller))
    }

    fn reason_missing(&self, controller: Controller) -> Reason {
        self.missing
            .iter()
            .find(|(missing, _)| *missing == controller)
            .map_or(Reason::NoController, |(_, reason)| reason.clone())
    }

    /// Descriptors for [`join_via_fds`](super::join_via_fds), to be opened before the process forks.
    ///
    /// They are the v1 `tasks` files. Writing `cgroup.procs` instead would make the kernel stop all forks of
    /// the machine and wait a grace period (5-15 ms); a single thread that moves itself skips that (10-20 us each).
    pub fn join_fds(&self) -> Result<Vec<OwnedFd>, CgroupError> {
        self.dirs
            .iter()
            .filter(|dir| dir.version == Version::V1)
            .map(|dir| open(&dir.path.join("tasks"), OFlags::WRONLY))
            .collect()
    }

    /// The v2 group for `CLONE_INTO_CGROUP`, if there is one. A process needs this *and* the fds above.
    pub fn clone_into_fd(&self) -> Result<Option<OwnedFd>, CgroupError> {
        self.dirs
            .iter()
            .find(|dir| dir.version == Version::V2)
            .map(|dir| open(&dir.path, OFlags::RDONLY | OFlags::DIRECTORY))
            .transpose()
    }

    /// Moves a running process with all its threads. Slow (5-15 ms on an idle machine), but it works from outside.
    pub fn attach(&self, pid: Pid) -> Result<(), CgroupError> {
        let number = pid.as_raw_nonzero().to_string();
        for dir in &self.dirs {
            write_knob(&dir.path, "cgroup.procs", &number)
                .map_err(|errno| failed("join", &dir.path, errno))?;
        }
        Ok(())
    }
}

fn write_limit(dir: &GroupDir, controller: Controller, limits: &Limits) -> Result<(), Unenforced> {
    match controller {
        Controller::Memory => write_memory(dir.version, &dir.path, limits.memory_bytes),
        Controller::Cpu => write_cpu(dir.version, &dir.path, limits.cpu_millis),
        Controller::Pids => write_pids(&dir.path, limits.pids),
        Controller::CpuAccount | Controller::Freezer => Ok(()),
    }
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, CgroupError> {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed("open", path, errno))
}

pub(super) fn failed(operation: &'static str, path: &Path, errno: Errno) -> CgroupError {
    CgroupError::Io {
        operation,
        path: path.to_path_buf(),
        source: errno.into(),
    }
}
