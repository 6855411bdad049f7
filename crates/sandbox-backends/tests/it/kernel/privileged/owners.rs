//! Root works on a repository of somebody else, and leaves nothing of its own in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use holm_sandbox_backends::local::{CreateOptions, IsolationChoice, Source};
use holm_testkit::TestRepository;

use super::is_skipped;
use crate::support::{COMMIT_ALL, TestHost, Use, on_repository};

/// Nobody in particular, and not root.
const OWNER: u32 = 34567;

fn every_entry(folder: &Path, visit: &mut impl FnMut(&Path)) {
    visit(folder);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            every_entry(&path, visit);
        } else {
            visit(&path);
        }
    }
}

fn anothers_repository() -> TestRepository {
    let repository = TestRepository::new();
    every_entry(repository.path(), &mut |path| {
        lchown(path, Some(OWNER), Some(OWNER)).unwrap();
    });
    repository
}

#[test]
fn what_is_made_in_anothers_repository_is_theirs() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let repository = anothers_repository();
    for (branch, isolation) in [
        ("boxed", IsolationChoice::Namespaces),
        ("plain", IsolationChoice::None),
    ] {
        let sandbox = host.sandbox(isolation, &repository, branch);
        if isolation == IsolationChoice::Namespaces {
            sandbox.sh(&format!("echo c > c; {COMMIT_ALL} -m c"));
        }
        sandbox.sh("echo x > x");
        sandbox.end_cleanly();
        assert_eq!(repository.file_at(branch, "x"), b"x\n");
        every_entry(repository.path(), &mut |path| {
            let found = fs::symlink_metadata(path).unwrap();
            assert_eq!(
                (found.uid(), found.gid()),
                (OWNER, OWNER),
                "{isolation:?} {}",
                path.display()
            );
        });
    }
    host.assert_nothing_is_left();
}

#[test]
fn a_repository_that_its_owner_cannot_write_to_is_a_clear_error() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let repository = anothers_repository();
    let mode = |bits| {
        every_entry(repository.path(), &mut |path| {
            if path.is_dir() {
                fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
            }
        });
    };
    mode(0o555);
    for isolation in [IsolationChoice::Namespaces, IsolationChoice::None] {
        let options = on_repository(isolation, repository.path(), "work");
        let error = host.runtime.create(&options).unwrap_err();
        assert!(error.to_string().contains("worktree"), "{error}");
        assert!(
            error.hint().unwrap().contains("write to the repository"),
            "{error:?}"
        );
        host.assert_nothing_is_left();
    }
    mode(0o755);
    assert_eq!(repository.branches(), ["main"]);
}

#[test]
fn files_made_in_anothers_folder_are_theirs() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "").unwrap();
    every_entry(folder.path(), &mut |path| {
        lchown(path, Some(OWNER), Some(OWNER)).unwrap();
    });
    let options = CreateOptions {
        source: Source::Directory(folder.path().to_path_buf()),
        isolation: IsolationChoice::Namespaces,
        ..CreateOptions::default()
    };
    let sandbox = host.runtime.create(&options).unwrap();
    sandbox
        .write_blocking(Path::new("from/outside"), b"1")
        .unwrap();
    sandbox.sh("echo 2 > inside; echo 3 >> from/outside; echo 4 > old");
    sandbox.end_cleanly();
    every_entry(folder.path(), &mut |path| {
        let found = fs::symlink_metadata(path).unwrap();
        assert_eq!(
            (found.uid(), found.gid()),
            (OWNER, OWNER),
            "{}",
            path.display()
        );
    });
    host.assert_nothing_is_left();
}
