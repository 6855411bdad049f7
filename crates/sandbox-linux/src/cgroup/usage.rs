//! What a box uses, as its groups count it.

use std::fs;
use std::path::Path;

use super::group::GroupDir;
use super::{BoxGroup, Controller, Version};

/// A count is `None` when this host's groups do not keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub memory_bytes: Option<u64>,
    /// The part of it that holds content of files, which the kernel gives up when it is short of memory.
    pub memory_cache_bytes: Option<u64>,
    /// The most that was ever in use at once.
    pub memory_peak_bytes: Option<u64>,
    /// Processes that were killed because the box was out of memory.
    pub oom_kills: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    pub cpu_usec: Option<u64>,
    /// Periods in which the box used up its share of the processor and had to wait.
    pub cpu_throttled_periods: Option<u64>,
}

impl BoxGroup {
    #[must_use]
    pub fn usage(&self) -> Usage {
        let of = |controller| self.dir_of(controller);
        let (memory, cpu) = (of(Controller::Memory), of(Controller::Cpu));
        Usage {
            memory_bytes: number(memory, "memory.usage_in_bytes", "memory.current"),
            memory_cache_bytes: memory_cache_bytes(memory),
            memory_peak_bytes: number(memory, "memory.max_usage_in_bytes", "memory.peak"),
            oom_kills: field(memory, "memory.oom_control", "memory.events", "oom_kill"),
            pids: number(of(Controller::Pids), "pids.current", "pids.current"),
            cpu_usec: of(Controller::CpuAccount).and_then(cpu_usec),
            cpu_throttled_periods: field(cpu, "cpu.stat", "cpu.stat", "nr_throttled"),
        }
    }
}

fn cpu_usec(dir: &GroupDir) -> Option<u64> {
    match dir.version {
        // Nanoseconds.
        Version::V1 => number(Some(dir), "cpuacct.usage", "").map(|nanos| nanos / 1_000),
        Version::V2 => field(Some(dir), "", "cpu.stat", "usage_usec"),
    }
}

fn memory_cache_bytes(memory: Option<&GroupDir>) -> Option<u64> {
    let key = match memory?.version {
        Version::V1 => "total_cache",
        Version::V2 => "file",
    };
    field(memory, "memory.stat", "memory.stat", key)
}

fn read(dir: Option<&GroupDir>, v1: &str, v2: &str) -> Option<String> {
    let dir = dir?;
    let file = match dir.version {
        Version::V1 => v1,
        Version::V2 => v2,
    };
    fs::read_to_string(dir.path.join(file)).ok()
}

fn number(dir: Option<&GroupDir>, v1: &str, v2: &str) -> Option<u64> {
    read(dir, v1, v2)?.trim().parse().ok()
}

fn field(dir: Option<&GroupDir>, v1: &str, v2: &str, key: &str) -> Option<u64> {
    find_field(&read(dir, v1, v2)?, key)
}

/// The value in a text of `key value` lines.
pub(super) fn find_field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == key).then(|| value.trim().parse().ok())?
    })
}

/// [`find_field`] of a control file.
pub(super) fn read_field(group: &Path, file: &str, key: &str) -> Option<u64> {
    find_field(&fs::read_to_string(group.join(file)).ok()?, key)
}
