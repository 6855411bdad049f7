//! Disks that are full, or may not be written.
//!
//! Each test makes a small file system in a mount namespace of its own, which takes root; without it, it says so.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use holm_store::{SqliteOptions, SqliteStreams};
use holm_thread_log::{Outcome, StoreError};

use crate::support::{add, append, count_numbered, entries, make, numbered};

const FOLDER: &str = "HOLM_STORE_TEST_FOLDER";

/// Runs a test of this binary where a script has mounted something at `$HOLM_STORE_TEST_FOLDER/disk`.
fn run_mounted(script: &str, test: &str) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED {test}: mounting takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "sh", "-euc"])
        .arg(format!(
            "cd \"${FOLDER}\"; {script}; exec \"$0\" --ignored --exact \"$1\" --nocapture"
        ))
        .arg(std::env::current_exe().unwrap())
        .arg(format!("sqlite::disk::{test}"))
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn disk() -> std::path::PathBuf {
    Path::new(&std::env::var_os(FOLDER).unwrap()).join("disk")
}

/// The process may not stop for want of space.
fn open(path: &Path) -> SqliteStreams {
    let options = SqliteOptions {
        fail_stop: Arc::new(|reason| panic!("{reason:?}")),
        ..SqliteOptions::default()
    };
    SqliteStreams::open(path, options).unwrap()
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    run_mounted("mount -t tmpfs -o size=6m none disk", "full");
}

#[tokio::test]
#[ignore = "runs in `a_full_disk_refuses_and_loses_nothing`"]
async fn full() {
    let path = disk().join("holm.db");
    let store = open(&path);
    make(&store, "a").await;
    make(&store, "big").await;
    std::fs::write(disk().join("filler"), vec![0; 2 << 20]).unwrap();
    let mut stored = 0;
    let error = loop {
        match add(&store, numbered("a", stored)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(count_numbered(&store, "a").await, stored);
    // Big ones are refused as well, alone.
    for _ in 0..20 {
        let big = add(&store, append("big", vec![1; 3 << 20])).await;
        assert!(matches!(big, Err(StoreError::Full { .. })), "{big:?}");
    }
    assert_eq!(entries(&store, "big").await.len(), 0);
    // With space it goes on where it was.
    std::fs::remove_file(disk().join("filler")).unwrap();
    for seq in stored..stored + 10 {
        let outcome = add(&store, numbered("a", seq)).await.unwrap();
        assert!(matches!(outcome, Outcome::Appended(_)), "{outcome:?}");
    }
    drop(store);
    let store = open(&path);
    assert_eq!(count_numbered(&store, "a").await, stored + 10);
}

/// Whatever it was that had no space left, big or small: after it, exactly what was acknowledged is there.
#[test]
fn a_disk_that_fills_up_again_and_again() {
    run_mounted("mount -t tmpfs -o size=32m none disk", "fills_up");
}

#[tokio::test]
#[ignore = "runs in `a_disk_that_fills_up_again_and_again`"]
async fn fills_up() {
    let path = disk().join("holm.db");
    let mut stored = 0_usize;
    for round in 0..4 {
        let store = open(&path);
        make(&store, "a").await;
        assert_eq!(entries(&store, "a").await.len(), stored);
        let mut size = 1 << (21 - round);
        while size > 1000 {
            match add(&store, append("a", vec![7; size])).await {
                Ok(_) => stored += 1,
                Err(StoreError::Full { .. }) => size /= 2,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(entries(&store, "a").await.len(), stored);
    }
}

#[test]
fn a_disk_that_turns_read_only_refuses_and_shows_what_it_has() {
    let script =
        "truncate -s 32M image; mkfs.ext4 -q image; mount -o loop,errors=remount-ro image disk";
    run_mounted(script, "turns_read_only");
}

#[tokio::test]
#[ignore = "runs in `a_disk_that_turns_read_only_refuses_and_shows_what_it_has`"]
async fn turns_read_only() {
    let path = disk().join("holm.db");
    let store = open(&path);
    make(&store, "a").await;
    add(&store, numbered("a", 0)).await.unwrap();
    // As after an error of the device.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let device = mounts
        .lines()
        .find(|line| line.contains(&*disk().to_string_lossy()))
        .and_then(|line| line.split(' ').next()?.strip_prefix("/dev/"))
        .unwrap();
    std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test").unwrap();
    for _ in 0..3 {
        let refused = add(&store, numbered("a", 1)).await;
        assert!(
            matches!(refused, Err(StoreError::Full { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(count_numbered(&store, "a").await, 1);
}

#[test]
fn a_read_only_disk_is_said_when_the_store_is_opened() {
    let script =
        "mount -t tmpfs -o size=6m none disk; touch disk/holm.db; mount -o remount,ro disk";
    run_mounted(script, "read_only");
}

#[test]
#[ignore = "runs in `a_read_only_disk_is_said_when_the_store_is_opened`"]
fn read_only() {
    let refused = SqliteStreams::open(&disk().join("holm.db"), SqliteOptions::default());
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("holm.db"), "{refused}");
    let hint = refused.hint().unwrap();
    assert!(hint.contains("check that the data folder"), "{hint}");
}
