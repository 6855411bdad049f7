//! The kinds of repositories that users have: each works, or says clearly why not.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use holm_sandbox::{ErrorKind, SandboxError};
use holm_sandbox_backends::local::IsolationChoice;
use holm_testkit::TestRepository;

use crate::support::{COMMIT_ALL, TestHost, Use, on_repository};

const BOTH: [IsolationChoice; 2] = [IsolationChoice::Namespaces, IsolationChoice::None];

/// Makes a sandbox, changes a file, commits, leaves work uncommitted, and finds all of it at home.
#[track_caller]
fn works(repository: &TestRepository) {
    for (number, isolation) in BOTH.into_iter().enumerate() {
        let host = TestHost::new();
        let branch = format!("work-{number}");
        let sandbox = host.sandbox(isolation, repository, &branch);
        assert_eq!(sandbox.sh("git status --porcelain"), "");
        assert_eq!(sandbox.sh("git branch --show-current"), branch);
        sandbox.sh("git config user.name Agent; git config user.email agent@example.org");
        sandbox.sh(&format!(
            "echo committed > committed; {COMMIT_ALL} -m committed"
        ));
        sandbox.sh("echo loose > loose");
        sandbox.end_cleanly();
        assert_eq!(repository.file_at(&branch, "committed"), b"committed\n");
        assert_eq!(repository.file_at(&branch, "loose"), b"loose\n");
        repository.git(["fsck", "--no-dangling"]);
        host.assert_nothing_is_left();
    }
}

#[track_caller]
fn error_of(repository: &TestRepository, branch: &str) -> SandboxError {
    let host = TestHost::new();
    let [mut boxed, plain] = BOTH.map(|isolation| {
        let options = on_repository(isolation, repository.path(), branch);
        host.runtime.create(&options).unwrap_err()
    });
    assert_eq!(boxed.to_string(), plain.to_string());
    host.assert_nothing_is_left();
    if boxed.kind() != plain.kind() {
        boxed = plain;
    }
    boxed
}

#[test]
fn bare() {
    let repository = TestRepository::new().bare_clone();
    works(&repository);
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn with_submodules_which_stay_uninitialised() {
    let library = TestRepository::new();
    let repository = TestRepository::new();
    repository.add_submodule(&library, "vendor/library");
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "look");
    assert_eq!(
        sandbox.sh("ls -A vendor/library; git submodule status | cut -c1"),
        "-"
    );
    sandbox.end_cleanly();
    works(&repository);
    let entry = repository.git(["ls-tree", "work-0", "vendor/library"]);
    assert!(entry.starts_with("160000"), "{entry}");
}

#[test]
fn with_lfs_pointers_which_stay_pointers() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    let repository = TestRepository::builder()
        .file(
            ".gitattributes",
            "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        )
        .file("big.bin", pointer)
        .build();
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "look");
    assert_eq!(sandbox.sh("cat big.bin"), pointer.trim_end());
    sandbox.end_cleanly();
    works(&repository);
    assert_eq!(repository.file_at("work-0", "big.bin"), pointer.as_bytes());
}

#[test]
fn sparse() {
    let full = TestRepository::builder()
        .file("kept/a", "a")
        .file("left-out/b", "b")
        .build();
    let repository = full.sparse_clone(&["kept"]);
    let host = TestHost::new();
    for (number, isolation) in BOTH.into_iter().enumerate() {
        let sandbox = host.sandbox(isolation, &repository, &format!("look-{number}"));
        assert_eq!(sandbox.sh("ls; git status --porcelain"), "README.md\nkept");
        sandbox.end_cleanly();
    }
    works(&repository);
    // What was not checked out was not deleted.
    assert_eq!(repository.file_at("work-0", "left-out/b"), b"b");
}

#[test]
fn a_linked_worktree() {
    let repository = TestRepository::new();
    let linked = repository.linked_worktree("linked");
    linked.write("only-there", "1");
    linked.commit("in the worktree");
    let host = TestHost::new();
    let sandbox = host.boxed(&linked, "look");
    assert_eq!(sandbox.sh("cat only-there"), "1");
    sandbox.end_cleanly();
    works(&linked);
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 2);
}

#[test]
fn a_folder_in_the_work_tree() {
    works(&TestRepository::new().at("src"));
}

#[test]
fn without_commits() {
    let repository = TestRepository::builder().without_commits().build();
    let error = error_of(&repository, "work");
    assert!(error.to_string().contains("has no commits yet"), "{error}");
    assert!(error.hint().unwrap().contains("git commit"), "{error:?}");
}

#[test]
fn shallow() {
    let full = TestRepository::new();
    for number in 0..4 {
        full.write("file", number.to_string());
        full.commit("more");
    }
    let repository = full.shallow_clone(2);
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "look");
    assert_eq!(sandbox.sh("git log --oneline | wc -l; git fsck"), "2");
    sandbox.end_cleanly();
    works(&repository);
}

#[test]
fn with_sha256_objects() {
    works(&TestRepository::builder().object_format("sha256").build());
}

#[test]
fn with_a_table_of_refs() {
    let repository = TestRepository::builder().ref_format("reftable").build();
    works(&repository);
}

#[test]
fn with_borrowed_objects() {
    let lender = TestRepository::new();
    let repository = lender.shared_clone();
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "look");
    assert_eq!(sandbox.sh("git log --format=%s; git fsck"), "first");
    sandbox.end_cleanly();
    works(&repository);
}

#[test]
fn with_a_detached_head() {
    let repository = TestRepository::new();
    repository.write("second", "2");
    repository.commit("second");
    repository.git(["checkout", "--quiet", "--detach", "HEAD~1"]);
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "look");
    assert_eq!(sandbox.sh("git log --format=%s"), "first");
    sandbox.end_cleanly();
    works(&repository);
}

#[test]
fn at_a_path_with_spaces_newlines_and_dashes() {
    for name in [
        "with space",
        "-rf",
        "new\nline",
        "quote'\"`$(id)",
        "ünïcode",
        "a:b;c\\d",
    ] {
        works(&TestRepository::builder().named(name).build());
    }
}

#[test]
fn at_a_path_that_is_no_utf_8() {
    let name = OsString::from_vec(b"invalid-\xff".to_vec());
    let repository = TestRepository::builder().named(name).build();
    let host = TestHost::new();
    for (number, isolation) in BOTH.into_iter().enumerate() {
        let options = on_repository(isolation, repository.path(), &format!("work-{number}"));
        match host.runtime.create(&options) {
            Ok(sandbox) => {
                sandbox.sh("echo x > x");
                sandbox.end_cleanly();
                assert_eq!(repository.file_at(&format!("work-{number}"), "x"), b"x\n");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}"),
        }
        host.assert_nothing_is_left();
    }
}

#[test]
fn with_file_names_of_every_kind() {
    use std::path::PathBuf;
    let mut builder = TestRepository::builder();
    let names: [&[u8]; 8] = [
        b"with space",
        b"-rf",
        b"new\nline",
        b"\xff\xfe",
        b"tab\tquote\"",
        b"--help",
        b":(glob)*",
        b"ends ",
    ];
    for name in names {
        let path = PathBuf::from(OsString::from_vec([b"odd/", name].concat()));
        builder = builder.file(path, name);
    }
    let repository = builder.build();
    for (number, isolation) in BOTH.into_iter().enumerate() {
        let host = TestHost::new();
        let branch = format!("odd-{number}");
        let sandbox = host.sandbox(isolation, &repository, &branch);
        assert_eq!(
            sandbox.sh("git status --porcelain; ls odd | wc -c; ls -A odd/* | head -c 0"),
            "60"
        );
        sandbox
            .sh("cd odd; for f in *; do echo more >> \"./$f\"; cp \"./$f\" \"./copy of $f\"; done");
        sandbox.end_cleanly();
        assert_eq!(repository.files_at(&branch).len(), 3 + 16);
        assert_eq!(
            repository
                .git(["diff", "--numstat", "main", &branch])
                .lines()
                .count(),
            16
        );
    }
}

#[test]
fn a_branch_that_exists_is_not_taken() {
    let repository = TestRepository::new();
    let tip = repository.branch_tip("main");
    for branch in ["main", "taken"] {
        repository.try_git(["branch", "taken"]);
        let error = error_of(&repository, branch);
        assert!(error.to_string().contains("already exists"), "{error}");
        assert!(error.hint().is_some());
    }
    assert_eq!(repository.branch_tip("main"), tip);
    assert_eq!(repository.branch_tip("taken"), tip);
}

#[test]
fn a_branch_name_that_git_does_not_allow_is_refused() {
    let repository = TestRepository::new();
    for branch in [
        "a b", "a..b", "-a", "a.lock", "a~1", "", "/a", "a//b", "@", "HEAD", "a\nb", "a^{}",
    ] {
        let error = error_of(&repository, branch);
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "{branch:?}: {error:?}"
        );
    }
    assert_eq!(repository.branches(), ["main"]);
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_branch_beside_one_that_is_a_folder_of_it_is_a_clear_error() {
    let repository = TestRepository::new();
    repository.git(["branch", "topic"]);
    let error = error_of(&repository, "topic/sub");
    assert!(error.to_string().contains("topic"), "{error}");
    assert_eq!(repository.branches(), ["main", "topic"]);
}

#[test]
fn what_is_no_repository_says_so() {
    let host = TestHost::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (path, expected) in [
        (folder.path().to_path_buf(), "is not a git repository"),
        (folder.path().join("missing"), "does not exist"),
        (folder.path().join("file"), "is not a directory"),
    ] {
        for isolation in BOTH {
            let options = on_repository(isolation, &path, "work");
            let error = host.runtime.create(&options).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
    host.assert_nothing_is_left();
}

#[test]
fn a_missing_object_is_a_clear_error_and_leaves_nothing() {
    let repository = TestRepository::new();
    let blob = repository.git(["rev-parse", "HEAD:README.md"]);
    let (folder, name) = blob.split_at(2);
    std::fs::remove_file(repository.git_dir().join("objects").join(folder).join(name)).unwrap();
    let host = TestHost::new();
    for isolation in BOTH {
        let options = on_repository(isolation, repository.path(), "work");
        let error = host.runtime.create(&options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert_eq!(repository.branches(), ["main"], "{isolation:?}: {error}");
        assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
    }
    assert!(host.cached_trees().is_empty());
    host.assert_nothing_is_left();
}

#[test]
fn line_endings_are_those_of_the_users_settings() {
    let repository = TestRepository::builder().file("text", "a\nb\n").build();
    repository.git(["config", "core.autocrlf", "true"]);
    let host = TestHost::new();
    let sandbox = host.boxed(&repository, "work");
    assert_eq!(
        sandbox.sh("git status --porcelain; od -c text | head -1"),
        "0000000   a  \\r  \\n   b  \\r  \\n"
    );
    sandbox.sh("printf 'c\\r\\n' >> text");
    sandbox.end_cleanly();
    assert_eq!(repository.file_at("work", "text"), b"a\nb\nc\n");
}
