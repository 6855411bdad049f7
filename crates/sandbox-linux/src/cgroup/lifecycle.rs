//! Stopping, killing and removing all of a box.
//!
//! The kernel tells the end of these by no event on v1, so they look again and again, with a pause that
//! doubles, until a fixed time is over.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{Timespec, nanosleep};

use super::group::{GroupDir, failed};
use super::hierarchy::child_groups;
use super::limits::write_knob;
use super::usage::read_field;
use super::{BoxGroup, CgroupError, Controller, Version};

const FREEZE_WAIT_MAX: Duration = Duration::from_secs(5);
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
const REMOVE_WAIT_MAX: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Descriptors held at once while killing.
const KILL_BATCH: usize = 64;

impl BoxGroup {
    /// Stops every process of the box where it is. Returns when all have stopped; one that will not
    /// (it waits for a disk) makes it fail, and all run on.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        let dir = self.freezer("freeze")?;
        set_frozen(dir, Frozen::Yes)?;
        let frozen = wait_until("freeze", &dir.path, FREEZE_WAIT_MAX, || {
            match dir.version {
                Version::V2 => Ok(read_field(&dir.path, "cgroup.events", "frozen") == Some(1)),
                Version::V1 => {
                    let state = fs::read_to_string(dir.path.join("freezer.state"));
                    if state.is_ok_and(|state| state.trim() == "FROZEN") {
                        return Ok(true);
                    }
                    // Saying it again makes the kernel look again at tasks that were busy.
                    set_frozen(dir, Frozen::Yes).map(|()| false)
                }
            }
        });
        if frozen.is_err() {
            set_frozen(dir, Frozen::No)?;
        }
        frozen
    }

    /// Lets the box run on.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        set_frozen(self.freezer("thaw")?, Frozen::No)
    }

    fn freezer(&self, operation: &'static str) -> Result<&GroupDir, CgroupError> {
        self.dir_of(Controller::Freezer)
            .ok_or(CgroupError::Unsupported { operation })
    }

    /// Kills every process in any of the box's groups. Returns when none is left (a zombie is none).
    pub fn kill_all(&self) -> Result<(), CgroupError> {
        let Some(first) = self.dirs.first() else {
            return Err(CgroupError::Unsupported {
                operation: "kill all processes",
            });
        };
        // A frozen box is thawed by each round, since v1 delivers no signal to a frozen process.
        wait_until("kill all processes of", &first.path, KILL_WAIT_MAX, || {
            if self.pids()?.is_empty() {
                return Ok(true);
            }
            self.kill_round().map(|()| false)
        })
    }

    /// Freezing first keeps a fork bomb from outrunning the list that is read.
    fn kill_round(&self) -> Result<(), CgroupError> {
        for dir in self.dirs.iter().filter(|dir| dir.version == Version::V2) {
            // Kernels before 5.14 have no such file; the signals below do it then.
            let _ = write_knob(&dir.path, "cgroup.kill", "1");
        }
        let freezer = self.dir_of(Controller::Freezer);
        if let Some(dir) = freezer {
            set_frozen(dir, Frozen::Yes)?;
        }
        let killed = self.kill_listed();
        if let Some(dir) = freezer {
            set_frozen(dir, Frozen::No)?;
        }
        killed
    }

    /// A number in the list may be another process's by the time it is used. So each is first
    /// pinned by a descriptor, and gets its signal only when its number is in the list once more.
    fn kill_listed(&self) -> Result<(), CgroupError> {
        // Somebody who attached the caller to a box wants that box dead, not the caller.
        let listed: Vec<Pid> = self
            .pids()?
            .into_iter()
            .filter(|pid| *pid != getpid())
            .collect();
        for batch in listed.chunks(KILL_BATCH) {
            let mut pinned = Vec::with_capacity(batch.len());
            for pid in batch {
                match pidfd_open(*pid, PidfdFlags::empty()) {
                    Ok(fd) => pinned.push((*pid, fd)),
                    Err(Errno::SRCH) => {}
                    Err(errno) => return Err(kill_failed(*pid, errno)),
                }
            }
            let still = self.pids()?;
            for (pid, fd) in pinned.iter().filter(|(pid, _)| still.contains(pid)) {
                match pidfd_send_signal(fd, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(errno) => return Err(kill_failed(*pid, errno)),
                }
            }
        }
        Ok(())
    }

    /// The processes in all of the box's groups and in those below them.
    pub fn pids(&self) -> Result<HashSet<Pid>, CgroupError> {
        let mut pids = HashSet::new();
        for dir in &self.dirs {
            for group in subtree(&dir.path)? {
                match fs::read_to_string(group.join("cgroup.procs")) {
                    Ok(text) => pids.extend(parse_pids(&text)),
                    Err(error) if gone(&error) => {}
                    Err(source) => {
                        return Err(CgroupError::Io {
                            operation: "list the processes of",
                            path: group,
                            source,
                        });
                    }
                }
            }
        }
        Ok(pids)
    }

    /// Removes the box's groups, deepest first. That they are gone already is fine.
    ///
    /// The kernel holds a group for a moment after its last process died; one that is still used later than
    /// that makes this fail.
    pub fn remove(&self) -> Result<(), CgroupError> {
        for dir in &self.dirs {
            wait_until("remove", &dir.path, REMOVE_WAIT_MAX, || {
                for group in subtree(&dir.path)?.iter().rev() {
                    match rustix::fs::rmdir(group) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(Errno::BUSY | Errno::NOTEMPTY) => return Ok(false),
                        Err(errno) => return Err(failed("remove", group, errno)),
                    }
                }
                Ok(true)
            })?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Frozen {
    Yes,
    No,
}

fn set_frozen(dir: &GroupDir, frozen: Frozen) -> Result<(), CgroupError> {
    let (file, value) = match (dir.version, frozen) {
        (Version::V1, Frozen::Yes) => ("freezer.state", "FROZEN"),
        (Version::V1, Frozen::No) => ("freezer.state", "THAWED"),
        (Version::V2, Frozen::Yes) => ("cgroup.freeze", "1"),
        (Version::V2, Frozen::No) => ("cgroup.freeze", "0"),
    };
    write_knob(&dir.path, file, value).map_err(|errno| failed("freeze or thaw", &dir.path, errno))
}

/// A group and all below it, parents before children. A missing one is an empty list.
fn subtree(top: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let mut groups = vec![top.to_path_buf()];
    let mut next = 0;
    while let Some(group) = groups.get(next) {
        let below = child_groups(group)?;
        groups.extend(below);
        next += 1;
    }
    Ok(groups)
}

/// The kernel shows a process of a foreign pid namespace as 0, which as a target would be our own process group.
pub(super) fn parse_pids(text: &str) -> Vec<Pid> {
    text.lines()
        .filter_map(|line| line.trim().parse::<i32>().ok())
        .filter(|number| *number > 0)
        .filter_map(Pid::from_raw)
        .collect()
}

fn kill_failed(pid: Pid, errno: Errno) -> CgroupError {
    let path = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    failed("kill process", &path, errno)
}

fn gone(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NODEV)
    )
}

/// Asks again until `done` says so.
fn wait_until(
    operation: &'static str,
    path: &Path,
    wait_max: Duration,
    mut done: impl FnMut() -> Result<bool, CgroupError>,
) -> Result<(), CgroupError> {
    let started = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        if done()? {
            return Ok(());
        }
        if started.elapsed() > wait_max {
            return Err(CgroupError::TimedOut {
                operation,
                path: path.to_path_buf(),
                seconds: wait_max.as_secs(),
            });
        }
        // Cut short by a signal it only means to look sooner.
        let _ = nanosleep(&Timespec {
            tv_sec: 0,
            tv_nsec: pause.subsec_nanos().into(),
        });
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
