//! What a sandbox could leave behind, looked for everywhere.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{TestHost, wait_until};

#[track_caller]
pub(super) fn assert_none(host: &TestHost) {
    assert_empty(&host.data("boxes"));
    assert_empty(&host.data("doomed"));
    assert_empty(&host.folder.path().join("tmp"));
    assert_eq!(mounts_below(host.folder.path()), Vec::<String>::new());
    // A box's init is reaped by its spawner a moment after it was killed.
    let spawners = super::RUNTIMES.load(Ordering::Relaxed);
    wait_until("only spawners are left", || descendants() <= spawners);
}

#[track_caller]
fn assert_empty(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(names.is_empty(), "left behind: {names:?}");
}

/// Mounts below a folder, in the mount namespace of any process that we may look into.
fn mounts_below(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for pid in processes().into_keys() {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let below = mounts.lines().filter(|line| line.contains(folder));
        found.extend(below.map(|line| format!("{pid}: {line}")));
    }
    found
}

/// How many processes descend from this one.
pub(crate) fn descendants() -> usize {
    let parents = processes();
    let own = std::process::id();
    let descends = |mut pid: u32| {
        // A chain longer than this is a loop of reused numbers.
        for _ in 0..64 {
            match parents.get(&pid) {
                Some(&parent) if parent == own => return true,
                Some(&parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().filter(|pid| descends(**pid)).count()
}

/// Every living process with its parent.
fn processes() -> HashMap<u32, u32> {
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        (state != "Z").then_some((pid, parent))
    })
    .collect()
}
