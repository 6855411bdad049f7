//! A box's files, as a server uses them for its clients, while the box does its worst.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use holm_sandbox_linux::OnDisconnect;
use holm_sandbox_linux::files::{EntryKind, FilesError, Replace, WalkLimits, WriteOptions};

use crate::support::{TestBox, read_until};

const LIMITS: WalkLimits = WalkLimits {
    entries_max: 100_000,
    depth_max: 2,
};

fn write(descriptor: &OwnedFd, text: &str) {
    rustix::io::write(descriptor, text.as_bytes()).unwrap();
}

#[test]
fn a_pipe_connects_host_and_command() {
    let sandbox = TestBox::new();
    let files = sandbox.files();
    let (there, back) = (Path::new("/tmp/there"), Path::new("/tmp/back"));
    files.make_fifo(there, 0o600).unwrap();
    files.make_fifo(back, 0o600).unwrap();
    let (to_box, from_box) = (
        files.open_fifo(there).unwrap(),
        files.open_fifo(back).unwrap(),
    );
    let _job = sandbox.start(
        "while read line; do echo you said $line; done < /tmp/there > /tmp/back",
        OnDisconnect::Kill,
    );
    for word in ["one", "two"] {
        write(&to_box, &format!("{word}\n"));
        let mut waited = [rustix::event::PollFd::new(
            &from_box,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut waited, None).unwrap();
        assert_eq!(read_until(&from_box, "\n"), format!("you said {word}\n"));
    }
}

#[test]
fn a_pipe_that_became_something_else_is_not_opened() {
    let sandbox = TestBox::new();
    let files = sandbox.files();
    let path = Path::new("/tmp/fifo");
    files.make_fifo(path, 0o600).unwrap();
    for script in [
        "ln -sf /etc/passwd /tmp/fifo",
        "ln -sf /dev/zero /tmp/fifo",
        "ln -sf /proc/1/fd/0 /tmp/fifo",
        "rm /tmp/fifo; mkfifo /tmp/real; ln -s real /tmp/fifo",
        "rm /tmp/fifo; echo > /tmp/fifo",
    ] {
        sandbox.sh(script).success();
        let outcome = files.open_fifo(path);
        assert!(
            matches!(outcome, Err(FilesError::NotAFifo { .. })),
            "{script}: {outcome:?}"
        );
    }
}

#[test]
fn links_of_the_box_mean_what_they_mean_inside() {
    let sandbox = TestBox::new();
    let files = sandbox.files();
    sandbox
        .sh("mkdir ~/real; ln -s /home/holm/real ~/link; ln -s /../../../etc ~/climbing")
        .success();
    let options = WriteOptions::default();
    files
        .write_atomic(Path::new("/home/holm/link/file"), b"x", options)
        .unwrap();
    assert_eq!(sandbox.sh("cat ~/real/file").success(), "x");
    let inside = files.read(Path::new("/home/holm/climbing/passwd"), 1 << 20);
    assert_eq!(
        String::from_utf8_lossy(&inside.unwrap()),
        sandbox.sh("cat /etc/passwd").success()
    );
    files
        .rename(
            Path::new("/home/holm/link/file"),
            Path::new("/home/holm/moved"),
            Replace::Never,
        )
        .unwrap();
    files
        .set_mode(Path::new("/home/holm/moved"), 0o640)
        .unwrap();
    assert_eq!(
        sandbox.sh("stat -c '%a %U' ~/moved").success(),
        "640 holm\n"
    );
}

#[test]
fn a_walk_from_the_root_sees_the_boxs_mounts_and_not_the_kernels() {
    let sandbox = TestBox::new();
    sandbox
        .sh("mkdir /tmp/mine; echo > /tmp/mine/file")
        .success();
    let files = sandbox.files();
    let mut walk = files.walk(Path::new("/"), LIMITS).unwrap();
    let mut told = Vec::new();
    while let Some(entry) = walk.next() {
        let entry = entry.unwrap();
        if entry.path == Path::new("usr") || entry.path == Path::new("dev") {
            walk.skip_directory();
        }
        told.push((entry.path, entry.metadata.kind));
    }
    let has = |path: &str, kind| told.contains(&(Path::new(path).to_path_buf(), kind));
    assert!(has("tmp/mine/file", EntryKind::File), "{told:?}");
    assert!(has("etc/passwd", EntryKind::File));
    assert!(has("proc", EntryKind::Directory));
    for (path, _) in &told {
        for folder in ["proc", "dev", "usr"] {
            assert!(
                !path.starts_with(folder) || path == Path::new(folder),
                "{path:?}"
            );
        }
    }
}

#[test]
fn a_box_that_swaps_folders_leads_nobody_out() {
    let sandbox = TestBox::new();
    let files = sandbox.files();
    let host = tempfile::tempdir().unwrap();
    let outside = host.path().display().to_string();
    // `~/spot` is a folder at one moment and a link to a folder of the host's at the next.
    let script = format!(
        "cd; mkdir spot; ln -s {outside} link; \
         while :; do mv spot aside; mv link spot; mv spot link; mv aside spot; done"
    );
    let job = sandbox.start(&script, OnDisconnect::Kill);
    for round in 0..300 {
        let at = |name: &str| format!("/home/holm/spot/{name}{round}");
        let options = WriteOptions::default();
        drop(files.write_atomic(Path::new(&at("file")), b"x", options));
        drop(files.make_fifo(Path::new(&at("fifo")), 0o666));
        drop(files.create_dir(Path::new(&at("folder")), 0o777));
        drop(files.rename(
            Path::new(&at("file")),
            Path::new(&at("moved")),
            Replace::Existing,
        ));
        for entry in files.walk(Path::new("/home/holm"), LIMITS).unwrap() {
            drop(entry);
        }
    }
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
    drop(job);
}
