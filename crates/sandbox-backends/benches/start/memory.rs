//! What boxes cost in memory, kernel memory included, however busy the rest of the machine is.
//!
//! This process moves into a memory group of its own, so that what it, the spawner and the boxes
//! allocate is charged there or to the boxes' own groups. Page cache is not counted: it is given back
//! when somebody needs it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use holm_sandbox_linux::Engine;

use crate::lab::EngineBox;

/// Bytes in every page of text that the kernel shows as `kB`.
const KIB: u64 = 1_024;

pub(crate) struct Accounting {
    /// Our group, where we are, and where we were before.
    own: Option<(PathBuf, PathBuf)>,
}

impl Accounting {
    pub(crate) fn start(notes: &mut Vec<String>) -> Self {
        match enter_group() {
            Ok(own) => Self { own: Some(own) },
            Err(error) => {
                notes.push(format!("no memory group of our own: {error:#}"));
                Self { own: None }
            }
        }
    }

    pub(crate) fn description(&self) -> &'static str {
        "anonymous and kernel memory of the boxes' memory groups and of their maker's"
    }

    /// Memory of this process, its spawner and these boxes.
    pub(crate) fn bytes(&self, engine: &Engine, boxes_alive: &[EngineBox]) -> Option<u64> {
        let (own, _) = self.own.as_ref()?;
        let boxes = engine.hierarchy().availability().into_iter();
        let boxes = boxes
            .filter_map(|found| found.place.ok().map(|(_, path)| path))
            .find(|path| path.join("memory.stat").exists())?;
        let mut bytes = group_bytes(own)?;
        if !boxes.starts_with(own) {
            for alive in boxes_alive {
                bytes += group_bytes(&boxes.join(alive.inner.id()))?;
            }
        }
        Some(bytes)
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        if let Some((own, before)) = &self.own {
            // At worst an empty group stays until the next boot.
            drop(join(before));
            drop(fs::remove_dir(own));
        }
    }
}

/// Makes a group below the one that this process is in, and enters it.
fn enter_group() -> Result<(PathBuf, PathBuf)> {
    let before = current_group()?;
    let own = before.join(format!("holm-bench-{}", std::process::id()));
    fs::create_dir(&own).with_context(|| format!("make `{}`", own.display()))?;
    if let Err(error) = join(&own) {
        drop(fs::remove_dir(&own));
        return Err(error);
    }
    Ok((own, before))
}

fn join(group: &Path) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, "0").with_context(|| format!("write `{}`", file.display()))
}

/// The memory group of this process, on v1 or v2.
fn current_group() -> Result<PathBuf> {
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    let below = |root: &str, path: &str| Path::new(root).join(path.trim_start_matches('/'));
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let root = match controllers {
            "memory" => "/sys/fs/cgroup/memory",
            "" => "/sys/fs/cgroup",
            _ => continue,
        };
        let group = below(root, path);
        if group.join("cgroup.procs").exists() {
            return Ok(group);
        }
    }
    anyhow::bail!("no memory controller found")
}

/// Anonymous and kernel memory of a group and all below it.
fn group_bytes(group: &Path) -> Option<u64> {
    let statistics = fs::read_to_string(group.join("memory.stat")).ok()?;
    let field = |name: &str| {
        let mut lines = statistics.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        value.trim().parse::<u64>().ok()
    };
    match fs::read_to_string(group.join("memory.kmem.usage_in_bytes")) {
        Ok(kernel) => Some(field("total_rss")? + kernel.trim().parse::<u64>().ok()?),
        Err(_) => Some(field("anon")? + field("kernel")?),
    }
}

pub(crate) fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .context("find MemAvailable")?;
    let number = line.trim().trim_end_matches(" kB");
    Ok(number.parse::<u64>().context("read MemAvailable")? * KIB)
}
