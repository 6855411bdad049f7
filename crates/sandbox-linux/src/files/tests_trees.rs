//! Whole trees: deep ones, locked ones, and copies in and out.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};

use super::*;

const DEPTH: usize = 5_000;

struct Trees {
    scratch: tempfile::TempDir,
    dir: ConfinedDir,
}

impl Trees {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("tree")).unwrap();
        let dir = ConfinedDir::open(&scratch.path().join("tree")).unwrap();
        Self { scratch, dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn export(&self, path: &str) -> Result<CopyReport, FilesError> {
        let limits = CopyLimits::default();
        self.dir
            .copy_tree_out(Path::new(path), &self.at("out"), limits)
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A chain far longer than a path may be.
fn make_chain(top: &Path) {
    fs::create_dir(top).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    mknodat(
        &at,
        "bottom",
        FileType::RegularFile,
        Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
}

#[test]
fn a_chain_deeper_than_the_stack_is_copied_and_removed() {
    let trees = Trees::new();
    make_chain(&trees.at("tree/chain"));
    // A small stack and few descriptors would not survive recursion.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn_scoped(scope, || {
                let report = trees.export("chain").unwrap();
                assert_eq!((report.files, report.directories), (1, 5_000));
                let refreshed = trees
                    .dir
                    .copy_tree_in(&trees.at("out"), Path::new("again"), CopyLimits::default())
                    .unwrap();
                assert_eq!((refreshed.files, refreshed.directories), (1, 5_000));
                trees.dir.remove_tree(Path::new("chain")).unwrap();
                trees.dir.remove_tree(Path::new("again")).unwrap();
                let host = ConfinedDir::open(trees.scratch.path()).unwrap();
                host.remove_tree(Path::new("out")).unwrap();
            })
            .unwrap();
    });
    assert_eq!(fs::read_dir(trees.at("tree")).unwrap().count(), 0);
}

#[test]
fn removal_takes_wide_locked_and_special_things() {
    let trees = Trees::new();
    for index in 0..600 {
        fs::create_dir_all(trees.at(&format!("tree/wide/{index}/x"))).unwrap();
        fs::write(trees.at(&format!("tree/wide/{index}/x/f")), "").unwrap();
    }
    let outside = trees.at("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "").unwrap();
    symlink(&outside, trees.at("tree/wide/link")).unwrap();
    mknodat(
        CWD,
        trees.at("tree/wide/fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    set_mode(&trees.at("tree/wide/7/x"), 0o000);
    set_mode(&trees.at("tree/wide/8/x"), 0o555);
    set_mode(&trees.at("tree/wide/9"), 0o000);
    trees.dir.remove_tree(Path::new("wide")).unwrap();
    assert!(!trees.at("tree/wide").exists());
    assert!(outside.join("kept").exists());
}

#[test]
fn a_tree_is_removed_by_what_it_is() {
    let trees = Trees::new();
    fs::write(trees.at("tree/file"), "").unwrap();
    fs::create_dir(trees.at("tree/empty")).unwrap();
    fs::create_dir(trees.at("kept")).unwrap();
    symlink(trees.at("kept"), trees.at("tree/link")).unwrap();
    for name in ["file", "empty", "link"] {
        trees.dir.remove_tree(Path::new(name)).unwrap();
    }
    assert!(trees.at("kept").exists());
    for name in ["", ".", ".."] {
        let refused = trees.dir.remove_tree(Path::new(name));
        assert!(matches!(refused, Err(FilesError::InvalidPath { .. })));
    }
}

#[test]
fn an_export_copies_what_is_safe_and_reports_the_rest() {
    let trees = Trees::new();
    fs::create_dir_all(trees.at("tree/src/bin")).unwrap();
    fs::write(trees.at("tree/src/bin/run"), "#!").unwrap();
    set_mode(&trees.at("tree/src/bin/run"), 0o6775);
    fs::write(trees.at("tree/src/text"), "text").unwrap();
    set_mode(&trees.at("tree/src/text"), 0o666);
    fs::hard_link(trees.at("tree/src/text"), trees.at("tree/src/twin")).unwrap();
    set_mode(&trees.at("tree/src/bin"), 0o1777);
    symlink("../text", trees.at("tree/src/bin/inside")).unwrap();
    symlink("../../x", trees.at("tree/src/bin/climbs")).unwrap();
    symlink("bin/../text", trees.at("tree/src/winds")).unwrap();
    symlink("/etc/passwd", trees.at("tree/src/absolute")).unwrap();
    mknodat(
        CWD,
        trees.at("tree/src/fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(trees.at("tree/src/socket")).unwrap();

    let report = trees.export("src").unwrap();
    let skipped = |path: &str, reason| Skipped {
        path: PathBuf::from(path),
        reason,
    };
    assert_eq!(
        report,
        CopyReport {
            files: 3,
            directories: 1,
            links: 1,
            bytes: 10,
            skipped: vec![
                skipped("absolute", SkipReason::AbsoluteLink),
                skipped("bin/climbs", SkipReason::ClimbingLink),
                skipped("fifo", SkipReason::Special),
                skipped("socket", SkipReason::Special),
                skipped("winds", SkipReason::ClimbingLink),
            ],
        }
    );
    assert_eq!(mode_of(&trees.at("out")), 0o755);
    assert_eq!(mode_of(&trees.at("out/bin")), 0o755);
    assert_eq!(mode_of(&trees.at("out/bin/run")), 0o755);
    assert_eq!(mode_of(&trees.at("out/text")), 0o644);
    assert_eq!(fs::read(trees.at("out/bin/inside")).unwrap(), b"text");
    assert_eq!(fs::read(trees.at("out/twin")).unwrap(), b"text");
}

#[test]
fn an_export_wants_a_free_place_and_leaves_nothing_when_it_fails() {
    let trees = Trees::new();
    fs::create_dir(trees.at("tree/src")).unwrap();
    fs::write(trees.at("tree/src/a"), "12345").unwrap();
    fs::write(trees.at("tree/src/b"), "12345").unwrap();
    let out = trees.at("out");
    let export = |limits| trees.dir.copy_tree_out(Path::new("src"), &out, limits);
    let limits = CopyLimits::default();
    let bytes = export(CopyLimits {
        bytes_max: 9,
        ..limits
    });
    assert!(matches!(
        bytes,
        Err(FilesError::TooLarge { bytes_max: 9, .. })
    ));
    let entries = export(CopyLimits {
        entries_max: 1,
        ..limits
    });
    assert!(matches!(
        entries,
        Err(FilesError::TooManyEntries { entries_max: 1, .. })
    ));
    assert_eq!(fs::read_dir(trees.scratch.path()).unwrap().count(), 1);

    fs::create_dir(&out).unwrap();
    export(limits).unwrap();
    assert_eq!(fs::read(out.join("b")).unwrap(), b"12345");
    let occupied = export(limits);
    assert!(matches!(
        occupied,
        Err(FilesError::DestinationNotEmpty { .. })
    ));
    fs::remove_dir_all(&out).unwrap();
    symlink("elsewhere", &out).unwrap();
    let occupied = export(limits);
    assert!(matches!(
        occupied,
        Err(FilesError::DestinationNotEmpty { .. })
    ));
    assert_eq!(fs::read_dir(trees.scratch.path()).unwrap().count(), 2);
}

#[test]
fn a_refresh_adds_and_replaces_but_removes_nothing() {
    let trees = Trees::new();
    let host = trees.at("host");
    fs::create_dir_all(host.join("dir")).unwrap();
    fs::create_dir_all(host.join("was-link")).unwrap();
    fs::write(host.join("dir/run"), "new").unwrap();
    set_mode(&host.join("dir/run"), 0o755);
    fs::write(host.join("was-link/file"), "new").unwrap();
    fs::write(host.join("is-directory"), "new").unwrap();
    symlink("dir/run", host.join("inside")).unwrap();
    symlink("/etc/passwd", host.join("absolute")).unwrap();

    let outside = trees.at("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(trees.at("tree/w/dir")).unwrap();
    fs::create_dir_all(trees.at("tree/w/is-directory/kept")).unwrap();
    fs::write(trees.at("tree/w/dir/run"), "old").unwrap();
    fs::write(trees.at("tree/w/dir/extra"), "kept").unwrap();
    fs::write(trees.at("tree/w/inside"), "a file").unwrap();
    symlink(&outside, trees.at("tree/w/was-link")).unwrap();

    let limits = CopyLimits::default();
    let report = trees
        .dir
        .copy_tree_in(&host, Path::new("w"), limits)
        .unwrap();
    let reasons: Vec<_> = report.skipped.iter().map(|skip| skip.reason).collect();
    assert_eq!(
        reasons,
        [SkipReason::AbsoluteLink, SkipReason::DirectoryInTheWay]
    );
    assert_eq!((report.files, report.directories, report.links), (2, 2, 1));
    assert_eq!(fs::read(trees.at("tree/w/dir/run")).unwrap(), b"new");
    assert_eq!(mode_of(&trees.at("tree/w/dir/run")), 0o755);
    assert_eq!(fs::read(trees.at("tree/w/dir/extra")).unwrap(), b"kept");
    assert_eq!(fs::read(trees.at("tree/w/inside")).unwrap(), b"new");
    assert_eq!(fs::read(trees.at("tree/w/was-link/file")).unwrap(), b"new");
    assert!(trees.at("tree/w/is-directory/kept").exists());
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}
