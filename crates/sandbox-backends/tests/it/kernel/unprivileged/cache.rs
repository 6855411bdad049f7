//! The cached checkout: one tree per commit, shared, never changed, never in the way.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use holm_sandbox_backends::local::{CacheLimits, IsolationChoice, LocalSandbox};
use holm_testkit::{Fingerprint, TestRepository};

use crate::support::{COMMIT_ALL, Child, TestHost, Use, child_scene, on_repository, told};

/// Every file below a folder with its inode and times.
fn identities(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                waiting.push(path.clone());
            }
            found.insert(
                path,
                (metadata.ino(), metadata.mtime(), metadata.ctime_nsec()),
            );
        }
    }
    found
}

fn only_tree(host: &TestHost) -> PathBuf {
    let trees = host.cached_trees();
    assert_eq!(trees.len(), 1, "{trees:?}");
    trees.into_iter().next().unwrap()
}

#[test]
fn a_second_sandbox_on_the_same_commit_builds_nothing() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let first = host.boxed(&repository, "one");
    let before = identities(&only_tree(&host));
    let second = host.boxed(&repository, "two");
    assert_eq!(
        second.sh("cat README.md; git branch --show-current"),
        "# A test\ntwo"
    );
    first.end_cleanly();
    second.end_cleanly();
    let third = host.boxed(&repository, "three");
    third.end_cleanly();
    assert_eq!(identities(&only_tree(&host)), before);
}

#[test]
fn the_first_status_is_right_and_reads_no_file() {
    let host = TestHost::new();
    let content = "x".repeat(100);
    let mut builder = TestRepository::builder();
    for number in 0..50 {
        builder = builder.file(format!("file-{number}"), content.as_bytes());
    }
    let repository = builder.build();
    let first = host.boxed(&repository, "one");
    assert_eq!(first.sh("git status --porcelain; git diff --stat"), "");
    first.end_cleanly();
    // The same size and the same date, but other content: whoever reads the file sees the difference.
    let file = only_tree(&host).join("file-7");
    let dates = fs::metadata(&file).unwrap();
    fs::write(&file, "y".repeat(100)).unwrap();
    let handle = fs::File::options().write(true).open(&file).unwrap();
    handle.set_modified(dates.modified().unwrap()).unwrap();
    let second = host.boxed(&repository, "two");
    assert_eq!(second.sh("cat file-7"), "y".repeat(100));
    assert_eq!(second.sh("git status --porcelain; git diff --stat"), "");
    assert_eq!(second.end_cleanly().branches, []);
}

#[test]
fn an_edit_of_the_same_size_at_once_is_seen() {
    let host = TestHost::new();
    let repository = TestRepository::builder().file("file", "aaaa\n").build();
    for round in 0..3 {
        let sandbox = host.boxed(&repository, &format!("edit-{round}"));
        assert_eq!(
            sandbox.sh("printf 'bbbb\\n' > file; git status --porcelain"),
            "M file".replace('M', " M")
        );
        assert_eq!(
            sandbox.sh("git add file; printf 'cccc\\n' > file; git status --porcelain"),
            "MM file"
        );
        assert_eq!(
            sandbox.sh("git commit -qm b; git status --porcelain"),
            " M file"
        );
        assert_eq!(
            sandbox.sh("printf 'bbbb\\n' > file; git status --porcelain"),
            ""
        );
        assert_eq!(
            sandbox.sh("chmod +x file; git status --porcelain"),
            " M file"
        );
        sandbox.end_cleanly();
    }
}

#[test]
fn nothing_done_in_a_box_reaches_the_cached_tree() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "one");
    let tree = only_tree(&host);
    let before = Fingerprint::of(&tree);
    sandbox
        .sh("echo x >> README.md; rm -r src; chmod 777 .gitignore; touch -d 2001-01-01 .gitignore");
    sandbox.sh(&format!(
        "{COMMIT_ALL} -m x; git gc -q; mkdir new; mv new README.md.d; ln README.md hard"
    ));
    sandbox.sh("git config a.b c; git repack -adq; rm -rf .git/refs; ls");
    sandbox.sh("find . -mindepth 1 -delete");
    sandbox.end();
    assert_eq!(
        before.changes_to(&Fingerprint::of(&tree)),
        Vec::<String>::new()
    );
    let second = host.boxed(&repository, "two");
    assert_eq!(
        second.sh("cat README.md; git status --porcelain"),
        "# A test"
    );
    second.end_cleanly();
}

#[test]
fn what_changes_a_checkout_makes_another_one() {
    let host = TestHost::new();
    let repository = TestRepository::builder().file("text", "a\n").build();
    host.boxed(&repository, "one").end_cleanly();
    repository.git(["config", "core.autocrlf", "true"]);
    let sandbox = host.boxed(&repository, "two");
    assert_eq!(sandbox.sh("od -An -c text"), "   a  \\r  \\n");
    sandbox.end_cleanly();
    repository.write("text", "b");
    repository.commit("b");
    let sandbox = host.boxed(&repository, "three");
    assert_eq!(sandbox.sh("git log --oneline | wc -l"), "2");
    sandbox.end_cleanly();
    assert_eq!(host.cached_trees().len(), 3);
}

fn commit_number(repository: &TestRepository, number: u32) -> String {
    repository.write("number", number.to_string());
    repository.commit("next")
}

fn cached_commits(host: &TestHost) -> Vec<String> {
    let trees = host.cached_trees().into_iter();
    let mut commits: Vec<String> = trees
        .map(|tree| fs::read_to_string(tree.join("number")).unwrap())
        .collect();
    commits.sort();
    commits
}

#[test]
fn the_cache_keeps_within_its_bounds_and_what_is_in_use() {
    let host = TestHost::with(|config| {
        config.cache = CacheLimits {
            entries_max: 2,
            bytes_max: 1 << 30,
        };
    });
    let repository = TestRepository::new();
    commit_number(&repository, 0);
    let in_use = host.boxed(&repository, "in-use");
    for number in 1..=4 {
        commit_number(&repository, number);
        host.boxed(&repository, &format!("b{number}")).end_cleanly();
    }
    // The oldest is stood upon; of the others the newest are left.
    assert_eq!(cached_commits(&host), ["0", "3", "4"]);
    assert_eq!(in_use.sh("cat number; git status --porcelain"), "0");
    in_use.end_cleanly();
    commit_number(&repository, 5);
    host.boxed(&repository, "b5").end_cleanly();
    assert_eq!(cached_commits(&host).len(), 2);
    host.assert_nothing_is_left();
}

#[test]
fn the_cache_is_bounded_in_bytes() {
    let host = TestHost::with(|config| {
        config.cache = CacheLimits {
            entries_max: 100,
            bytes_max: 3_000_000,
        };
    });
    let repository = TestRepository::builder()
        .file("big", vec![7; 1_000_000])
        .build();
    for number in 0..5 {
        commit_number(&repository, number);
        host.boxed(&repository, &format!("b{number}")).end_cleanly();
    }
    let left = cached_commits(&host);
    assert!(
        left.len() <= 3 && left.contains(&"4".to_owned()),
        "{left:?}"
    );
}

fn eight_at_once(host: &TestHost, repository: &TestRepository) -> Vec<LocalSandbox> {
    std::thread::scope(|scope| {
        let making: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || host.boxed(repository, &format!("at-once-{number}"))))
            .collect();
        making
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn eight_sandboxes_at_once_on_a_new_commit_are_all_right() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandboxes = eight_at_once(&host, &repository);
    only_tree(&host);
    for (number, sandbox) in sandboxes.iter().enumerate() {
        assert_eq!(
            sandbox.sh("cat README.md; git status --porcelain"),
            "# A test"
        );
        sandbox.sh(&format!("echo {number} > own"));
    }
    std::thread::scope(|scope| {
        for sandbox in &sandboxes {
            scope.spawn(|| sandbox.end_cleanly());
        }
    });
    for number in 0..8 {
        let content = repository.file_at(&format!("at-once-{number}"), "own");
        assert_eq!(content, format!("{number}\n").as_bytes());
    }
    repository.assert_sound();
    host.assert_nothing_is_left();
}

#[test]
fn many_commits_at_once_in_a_small_cache_are_all_right() {
    let host = TestHost::with(|config| {
        config.cache = CacheLimits {
            entries_max: 1,
            bytes_max: 1 << 30,
        };
    });
    let repository = TestRepository::new();
    let commits: Vec<_> = (0..4)
        .map(|number| {
            commit_number(&repository, number);
            repository.linked_worktree(&format!("w{number}"))
        })
        .collect();
    std::thread::scope(|scope| {
        for (number, worktree) in commits.iter().enumerate() {
            let host = &host;
            scope.spawn(move || {
                for round in 0..4 {
                    let sandbox = host.boxed(worktree, &format!("x{number}-{round}"));
                    assert_eq!(
                        sandbox.sh("cat number; git status --porcelain"),
                        number.to_string()
                    );
                    sandbox.end_cleanly();
                }
            });
        }
    });
    host.assert_nothing_is_left();
}

#[test]
#[ignore = "started by other tests, to be killed"]
fn child() {
    let (_, folder, repository) = child_scene();
    let config = crate::support::config_in(&folder);
    let runtime = holm_sandbox_backends::local::LocalRuntime::start(config).unwrap();
    told("building");
    let options = on_repository(IsolationChoice::Namespaces, &repository, "killed");
    let sandbox = runtime.create(&options).unwrap();
    told("built");
    sandbox.end();
}

#[test]
fn a_builder_killed_half_way_leaves_nothing_broken() {
    let host = TestHost::new();
    let mut builder = TestRepository::builder();
    for number in 0..1500 {
        builder = builder.file(format!("d{}/f{number}", number % 50), number.to_string());
    }
    let repository = builder.build();
    let name = "kernel::unprivileged::cache::child";
    let mut child = Child::start(name, "build", host.folder.path(), repository.path());
    assert_eq!(child.hear(), "building");
    let unfinished = || {
        fs::read_dir(host.data("checkouts")).is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry
                    .unwrap()
                    .path()
                    .extension()
                    .is_some_and(|end| end == "new")
            })
        })
    };
    crate::support::wait_until("the build has begun", unfinished);
    child.kill();
    assert!(unfinished(), "it was killed too late");
    // A git that was just being started may hold its locks a moment longer.
    let reaped = || host.runtime.reap().unwrap().len() == 1;
    crate::support::wait_until("the sandbox is reaped", reaped);
    let sandbox = host.boxed(&repository, "after");
    assert_eq!(
        sandbox.sh("git status --porcelain; find . -name .git -prune -o -type f -print | wc -l"),
        "1503"
    );
    sandbox.end_cleanly();
    assert!(!unfinished());
    only_tree(&host);
    host.assert_nothing_is_left();
}

#[test]
fn what_killed_builders_left_of_other_commits_is_removed_some_day() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let stale = host
        .data("checkouts")
        .join("0123456789ab-0000000000000000.new");
    fs::create_dir_all(stale.join("tree/deep")).unwrap();
    fs::write(stale.join("tree/deep/file"), "half").unwrap();
    host.boxed(&repository, "one").end_cleanly();
    assert!(!stale.exists());
}
