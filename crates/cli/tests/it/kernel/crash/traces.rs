//! What a server leaves on the machine: folders, processes, mounts and control groups.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::server::{Client, data};
use crate::support::{TestEnvironment, names_in, wait_until};

/// States in which nothing is on its way.
const SETTLED: [&str; 5] = ["started", "stopped", "archived", "paused", "error"];

/// Init processes of a sandbox's boxes, by their control group.
pub(super) fn inits_of(id: &str) -> Vec<u32> {
    let group = format!("/holm/{id}");
    let is_ours = |pid: &u32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        groups.lines().any(|line| line.ends_with(&group)) && line.starts_with(b"holm: box")
    };
    let pids = names_in(Path::new("/proc"));
    let pids = pids.iter().filter_map(|name| name.parse().ok());
    pids.filter(is_ours).collect()
}

/// Folders of control groups that have the name of one of these sandboxes.
fn groups_of(ids: &BTreeSet<String>) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_group = after.starts_with("cgroup");
        is_group.then(|| PathBuf::from(before.split(' ').nth(4).unwrap()))
    });
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = roots.collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if ids.contains(&name) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    found
}

/// Right after a start: each sandbox has settled, has what its state says, and nothing else is there.
#[track_caller]
pub(super) fn assert_all_accounted_for(env: &TestEnvironment, client: &Client) {
    let mut ids = Vec::new();
    for sandbox in client.sandboxes() {
        let id = sandbox["id"].as_str().unwrap();
        let state = sandbox["state"].as_str().unwrap();
        assert!(SETTLED.contains(&state), "{sandbox}");
        let inits = inits_of(id);
        let has_box = ["started", "paused"].contains(&state);
        assert_eq!(inits.len(), usize::from(has_box), "{inits:?} of {sandbox}");
        if state == "started" {
            assert_eq!(client.run(id, "echo here"), "here", "{sandbox}");
        }
        if state == "error" {
            assert!(sandbox["errorReason"].is_string(), "{sandbox}");
        }
        ids.push(id.to_owned());
    }
    ids.sort();
    assert_eq!(names_in(&data(env).join("boxes")), ids);
    wait_until("the trash is empty", || {
        names_in(&data(env).join("trash")).is_empty()
    });
    assert_eq!(mounts_below(env), [""; 0]);
}

fn mounts_below(env: &TestEnvironment) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = data(env);
    let lines = mounts.lines().map(str::to_owned);
    lines
        .filter(|line| line.contains(root.to_str().unwrap()))
        .collect()
}

pub(super) fn delete_everything(client: &Client) {
    for sandbox in client.sandboxes() {
        let id = sandbox["id"].as_str().unwrap();
        client.delete(&format!("/api/sandbox/{id}")).ok();
    }
    let volumes = client.get("/api/volumes").ok();
    for volume in volumes.as_array().unwrap() {
        let id = volume["id"].as_str().unwrap();
        client.delete(&format!("/api/volumes/{id}")).ok();
    }
    let snapshots = client.get("/api/snapshots?limit=200").ok();
    for snapshot in snapshots["items"].as_array().unwrap() {
        if snapshot["general"] != true {
            let id = snapshot["id"].as_str().unwrap();
            client.delete(&format!("/api/snapshots/{id}")).ok();
        }
    }
}

/// After everything was deleted: no folder, no process, no mount, no control group.
#[track_caller]
pub(super) fn assert_nothing_left(env: &TestEnvironment, ids: &BTreeSet<String>) {
    for folder in ["boxes", "layers", "volumes", "trash"] {
        let folder = data(env).join(folder);
        wait_until(&format!("{} is empty", folder.display()), || {
            names_in(&folder).is_empty()
        });
    }
    assert_eq!(mounts_below(env), [""; 0]);
    assert_eq!(groups_of(ids), Vec::<PathBuf>::new());
    for id in ids {
        assert_eq!(inits_of(id), [0; 0], "{id}");
    }
}
