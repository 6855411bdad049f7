//! Tests that need root: mounts of the test's own, and limits that only root may set.

mod oci;
mod origin;
mod secrets;
mod serve;
mod snapshot;
mod snapshot_killed;
mod snapshot_sources;

use std::fs;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::support::{TestEnvironment, is_root, names_in};

/// A file system of the test's own, gone at its end.
struct Mounted {
    place: std::path::PathBuf,
}

impl Mounted {
    fn tmpfs(place: std::path::PathBuf, options: &str, flags: MountFlags) -> Self {
        fs::create_dir_all(&place).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        mount("none", &place, "tmpfs", flags, Some(options.as_c_str())).unwrap();
        Self { place }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = unmount(&self.place, UnmountFlags::DETACH);
    }
}

/// Says that a test did nothing, where it cannot.
fn skipped_without_root() -> bool {
    let skipped = !is_root();
    if skipped {
        eprintln!("skipped: this test needs root");
    }
    skipped
}

#[test]
fn full_disk_is_told_and_leaves_nothing() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let _disk = Mounted::tmpfs(env.path("data"), "size=1m", MountFlags::empty());
    fs::write(env.path("data/ballast"), vec![0; (1 << 20) - 4096]).unwrap();
    let run = env.run(["exec", "--", "true"]);
    assert_eq!(run.code(), Some(125), "{run}");
    assert!(run.errors().contains("No space left on device"), "{run}");
    assert!(run.errors().contains("hint: the disk is full"), "{run}");
    assert_eq!(names_in(&env.path("data/boxes")), [""; 0]);
}

#[test]
fn small_disk_is_enough_for_a_small_command() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let _disk = Mounted::tmpfs(env.path("data"), "size=1m", MountFlags::empty());
    // What the command writes fills the disk; the command is told, and all is removed.
    let script = "head -c 8000000 /dev/zero > file && echo wrote";
    let run = env.run(["exec", "--", "sh", "-c", script]);
    assert_ne!(run.code(), Some(0), "{run}");
    assert_eq!(run.text(), "");
    assert_eq!(names_in(&env.path("data/boxes")), [""; 0]);
}

#[test]
fn read_only_data_folder() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let _disk = Mounted::tmpfs(env.path("data"), "size=1m", MountFlags::RDONLY);
    insta::assert_snapshot!(env.run(["exec", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: could not set the mode of `[ROOT]/data`
      caused by: Read-only file system (os error 30)

    hint: Holm keeps its data in `[ROOT]/data`; choose another folder with --data-dir or HOLM_DATA_DIR
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "list"]), @r#"
    exit code: 0
    ----- stderr
    there are no sandboxes; make one with `holm sandbox create`
    "#);
}

#[test]
fn memory_limit_kills() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let hog = "tail /dev/zero";
    let run = env.run(["exec", "--memory", "64m", "--", "sh", "-c", hog]);
    assert_eq!(run.code(), Some(137), "{run}");
    env.assert_clean();
}

#[test]
fn fork_bomb_stays_in_its_box() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let bomb = "bomb() { bomb | bomb & }; bomb; exec sleep 600";
    let run = env.run([
        "exec",
        "--pids",
        "64",
        "--timeout",
        "2s",
        "--",
        "sh",
        "-c",
        bomb,
    ]);
    assert_eq!(run.code(), Some(124), "{}", run.code().unwrap_or(-1));
    env.assert_clean();
}

#[test]
fn limits_are_remembered() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let limits = ["--memory", "1.5g", "--cpus", "0.5", "--pids", "100"];
    let create = ["sandbox", "create", "--name", "one"];
    env.run(create.iter().chain(&limits)).success();
    let listed = env.run(["sandbox", "list", "--json"]).json();
    assert_eq!(listed[0]["memory_bytes"], 1_610_612_736);
    assert_eq!(listed[0]["cpu_millis"], 500);
    assert_eq!(listed[0]["pids"], 100);
    env.run(["sandbox", "rm", "one"]).success();
    env.assert_clean();
}
