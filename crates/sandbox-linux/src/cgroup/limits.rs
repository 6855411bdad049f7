//! The limits, and the files and values that express them.
//!
//! Memory is a real cap only when swap counts too: v1 limits the sum of both to the same value, v2 forbids swap.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::{CgroupError, Version};

/// The period over which processor time is shared out.
const CPU_PERIOD_USEC: u64 = 100_000;

/// The kernel's least quota is 1 ms per period.
const CPU_MILLIS_MIN: u64 = 10;

/// Below this not even a shell starts; such a value is a mistake in its unit.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// What a box may use. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    /// 1000 is one processor.
    pub cpu_millis: Option<u32>,
    /// Processes and threads.
    pub pids: Option<u32>,
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), CgroupError> {
        let values = [
            (LimitKind::Memory, self.memory_bytes, MEMORY_BYTES_MIN),
            (
                LimitKind::Cpu,
                self.cpu_millis.map(u64::from),
                CPU_MILLIS_MIN,
            ),
            (LimitKind::Pids, self.pids.map(u64::from), 1),
        ];
        for (limit, value, value_min) in values {
            if let Some(value) = value.filter(|value| *value < value_min) {
                return Err(CgroupError::InvalidLimit {
                    limit,
                    value,
                    value_min,
                });
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    Memory,
    /// Memory is capped, but more may be swapped out.
    Swap,
    Cpu,
    Pids,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::Swap => "swap",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        })
    }
}

/// A limit that was asked for and does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unenforced {
    pub limit: LimitKind,
    pub reason: Reason,
}

/// Why the host does not give something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No mounted hierarchy has the controller.
    NoController,
    /// The controller is there, but the caller may not make groups in it.
    NotPermitted,
    /// The kernel refused one step.
    Refused { file: PathBuf, os_error: i32 },
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController => formatter.write_str("no mounted cgroup has the controller"),
            Self::NotPermitted => formatter.write_str("not permitted to make cgroups"),
            Self::Refused { file, os_error } => {
                let error = io::Error::from_raw_os_error(*os_error);
                write!(formatter, "`{}`: {error}", file.display())
            }
        }
    }
}

impl Reason {
    pub(super) fn refused(file: &Path, errno: Errno) -> Self {
        Self::Refused {
            file: file.to_path_buf(),
            os_error: errno.raw_os_error(),
        }
    }
}

/// Sets the memory limit of a group.
pub(super) fn write_memory(
    version: Version,
    group: &Path,
    bytes: Option<u64>,
) -> Result<(), Unenforced> {
    let refused = |file: &str, errno| unenforced(LimitKind::Memory, group, file, errno);
    match version {
        Version::V1 => {
            let value = bytes.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
            let limit = || write_knob(group, V1_MEMORY, &value);
            let total = || write_knob(group, V1_MEMORY_AND_SWAP, &value);
            // The sum may never be less than its part, so raising starts with the sum.
            let outcome = match limit() {
                Err(Errno::INVAL) => total().and_then(|()| limit()),
                outcome => outcome,
            };
            outcome.map_err(|errno| refused(V1_MEMORY, errno))?;
            no_swap(group, V1_MEMORY_AND_SWAP, total())
        }
        Version::V2 => {
            let value = number_or_max(bytes);
            write_knob(group, "memory.max", &value)
                .map_err(|errno| refused("memory.max", errno))?;
            let swap = if bytes.is_some() { "0" } else { "max" };
            let written = write_knob(group, "memory.swap.max", swap);
            no_swap(group, "memory.swap.max", written)
        }
    }
}

const V1_MEMORY: &str = "memory.limit_in_bytes";
const V1_MEMORY_AND_SWAP: &str = "memory.memsw.limit_in_bytes";

/// A kernel that does not count swap matters only on a host that swaps.
fn no_swap(group: &Path, file: &str, written: Result<(), Errno>) -> Result<(), Unenforced> {
    match written {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) if !host_swaps() => Ok(()),
        Err(errno) => Err(unenforced(LimitKind::Swap, group, file, errno)),
    }
}

fn host_swaps() -> bool {
    // One line of heading, then one per swap area.
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// Sets the share of processor time of a group.
pub(super) fn write_cpu(
    version: Version,
    group: &Path,
    cpu_millis: Option<u32>,
) -> Result<(), Unenforced> {
    let quota_usec = cpu_millis.map(|millis| u64::from(millis) * CPU_PERIOD_USEC / 1_000);
    let knobs = match version {
        Version::V1 => vec![
            ("cpu.cfs_period_us", CPU_PERIOD_USEC.to_string()),
            (
                "cpu.cfs_quota_us",
                quota_usec.map_or_else(|| "-1".to_owned(), |quota| quota.to_string()),
            ),
        ],
        Version::V2 => vec![(
            "cpu.max",
            format!("{} {CPU_PERIOD_USEC}", number_or_max(quota_usec)),
        )],
    };
    for (file, value) in knobs {
        write_knob(group, file, &value)
            .map_err(|errno| unenforced(LimitKind::Cpu, group, file, errno))?;
    }
    Ok(())
}

/// Sets the number of processes and threads of a group; the same on both versions.
pub(super) fn write_pids(group: &Path, pids: Option<u32>) -> Result<(), Unenforced> {
    write_knob(group, "pids.max", &number_or_max(pids.map(u64::from)))
        .map_err(|errno| unenforced(LimitKind::Pids, group, "pids.max", errno))
}

fn number_or_max(value: Option<u64>) -> String {
    value.map_or_else(|| "max".to_owned(), |value| value.to_string())
}

fn unenforced(limit: LimitKind, group: &Path, file: &str, errno: Errno) -> Unenforced {
    Unenforced {
        limit,
        reason: Reason::refused(&group.join(file), errno),
    }
}

/// Writes one control file, in the one `write` that the kernel takes as one command.
pub(super) fn write_knob(group: &Path, file: &str, value: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let fd = openat(CWD, group.join(file), flags, Mode::empty())?;
    rustix::io::retry_on_intr(|| rustix::io::write(&fd, value.as_bytes())).map(drop)
}
