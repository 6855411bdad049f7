//! An agent may do with its repository what it likes; the user's stays as it is, save for the branch.

use std::fs;
use std::path::Path;

use holm_testkit::{Fingerprint, TestRepository};

use crate::support::{COMMIT_ALL, TestHost, Use};

/// What changed in the user's repository, without what may: the branch, its reflog and new objects.
fn unexpected_changes(before: &Fingerprint, git_dir: &Path, branch: &str) -> Vec<String> {
    let changes = before.changes_to(&Fingerprint::of(git_dir));
    let expected = |change: &String| {
        let (sign, path) = change.split_at(1);
        let is_object = sign == "+" && path.starts_with("objects/");
        // Git keeps empty parents of refs and of worktrees that are gone.
        is_object
            || path.starts_with(&format!("refs/heads/{branch}"))
            || path.starts_with(&format!("logs/refs/heads/{branch}"))
            || change == "+worktrees"
            || change == "+logs"
            || change == "+logs/refs"
            || change == "+logs/refs/heads"
    };
    changes
        .into_iter()
        .filter(|change| !expected(change))
        .collect()
}

/// A repository with everything that a user may have in it.
fn lived_in() -> TestRepository {
    let repository = TestRepository::new();
    repository.git(["tag", "v1"]);
    repository.git(["branch", "other"]);
    repository.write("README.md", "stashed");
    repository.git(["stash", "push", "--quiet"]);
    let hook = repository.git_dir().join("hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 0\n").unwrap();
    repository.git(["config", "alias.mine", "status"]);
    repository.git(["update-index", "--refresh"]);
    repository
}

#[test]
fn everything_an_agent_does_to_git_stays_inside() {
    let host = TestHost::new();
    let repository = lived_in();
    let before = Fingerprint::of(&repository.git_dir());
    let sandbox = host.boxed(&repository, "work");
    for script in [
        "echo 1 > one; git add .; git commit -qm one",
        "echo 2 > two; git add .; git commit -qm two",
        "git checkout -q -b side HEAD~1; echo s > side; git add .; git commit -qm side",
        "git checkout -q work; git rebase -q side",
        "git merge -q --no-edit other; git tag -f v1; git tag mine",
        "git branch -D other; git branch -f main HEAD; git update-ref refs/heads/new HEAD",
        "git reflog expire --expire=now --all; git gc -q --prune=now --aggressive",
        "git config user.name Evil; git config core.hooksPath /tmp; git remote add x /etc",
        "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/post-commit; chmod +x .git/hooks/*",
        "git stash list; git notes add -m note; git worktree add -q /tmp/elsewhere; git repack -adq",
        "git replace HEAD HEAD~1; git update-ref -d refs/tags/v1; git pack-refs --all --prune",
    ] {
        sandbox.sh(script);
    }
    let tip = sandbox.sh("git rev-parse work");
    let report = sandbox.end_cleanly();
    assert_eq!(report.branches[0].commit, tip);
    assert_eq!(repository.branch_tip("work"), Some(tip));
    assert_eq!(
        unexpected_changes(&before, &repository.git_dir(), "work"),
        Vec::<String>::new()
    );
    assert_eq!(repository.file_at("work", "two"), b"2\n");
    assert_eq!(repository.git(["log", "-1", "--format=%s", "work"]), "two");
    assert_eq!(repository.git(["stash", "list"]).lines().count(), 1);
    repository.assert_sound();
    host.assert_nothing_is_left();
}

#[test]
fn a_sandbox_without_changes_leaves_no_trace_at_all() {
    let host = TestHost::new();
    let repository = lived_in();
    let before = Fingerprint::of(&repository.git_dir());
    let mut options = crate::support::on_repository(
        holm_sandbox_backends::local::IsolationChoice::Namespaces,
        repository.path(),
        "",
    );
    options.source = holm_sandbox_backends::local::Source::Repository {
        path: repository.path().to_path_buf(),
        branch: None,
    };
    let sandbox = host.runtime.create(&options).unwrap();
    let branch = sandbox.sh("git branch --show-current");
    assert!(branch.starts_with("holm/"), "{branch}");
    sandbox.sh("git status; git log --all --oneline; touch ignored");
    assert_eq!(sandbox.end_cleanly().branches, []);
    assert_eq!(repository.branches(), ["main", "other"]);
    let left = unexpected_changes(&before, &repository.git_dir(), "holm");
    assert_eq!(left, Vec::<String>::new());
    host.assert_nothing_is_left();
}

#[test]
fn the_users_work_tree_and_index_are_not_touched() {
    let host = TestHost::new();
    let repository = lived_in();
    repository.write("README.md", "the user is editing");
    repository.write("untracked", "too");
    let before = Fingerprint::of(repository.path());
    let sandbox = host.boxed(&repository, "work");
    // What the user has not committed is not there, either.
    assert_eq!(sandbox.sh("cat README.md; ls"), "# A test\nREADME.md\nsrc");
    sandbox.sh(&format!("echo x > README.md; {COMMIT_ALL} -m x"));
    sandbox.end_cleanly();
    let changes = before.changes_to(&Fingerprint::of(repository.path()));
    let outside_git: Vec<_> = changes
        .iter()
        .filter(|change| !change[1..].starts_with(".git/"))
        .collect();
    assert!(outside_git.is_empty(), "{outside_git:?}");
    assert!(!changes.contains(&"~.git/index".to_owned()), "{changes:?}");
}

#[test]
fn the_host_can_work_on_while_the_box_lives() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    for number in 0..5 {
        repository.write("file", number.to_string());
        repository.commit("more");
    }
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh(&format!("echo a > a; {COMMIT_ALL} -m a"));
    repository.write("mine", "1");
    let on_main = repository.commit("the user's own");
    repository.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(
        sandbox.sh("git log --oneline | wc -l; git fsck --no-dangling; cat file"),
        "7\n4"
    );
    sandbox.sh(&format!(
        "echo b > b; {COMMIT_ALL} -m b; git gc -q --prune=now"
    ));
    sandbox.end_cleanly();
    assert_eq!(repository.branch_tip("main"), Some(on_main));
    assert_eq!(repository.git(["rev-list", "--count", "main~1..work"]), "2");
    repository.assert_sound();
}

#[test]
fn a_branch_that_the_user_moved_meanwhile_is_left_alone() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh(&format!("echo a > a; {COMMIT_ALL} -m a"));
    let tip = sandbox.sh("git rev-parse HEAD");
    let moved = repository.git(["commit-tree", "-p", "HEAD", "-m", "moved", "HEAD^{tree}"]);
    repository.git(["update-ref", "refs/heads/work", &moved]);
    let report = sandbox.end_cleanly();
    assert_eq!(repository.branch_tip("work"), Some(moved));
    let kept = &report.branches[0];
    assert_ne!(kept.name, "work");
    assert_eq!(repository.branch_tip(&kept.name), Some(tip));
    host.assert_nothing_is_left();
}

#[test]
fn a_branch_that_the_user_deleted_meanwhile_does_not_lose_the_work() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh(&format!("echo a > a; {COMMIT_ALL} -m a"));
    let tip = sandbox.sh("git rev-parse HEAD");
    repository.git(["update-ref", "-d", "refs/heads/work"]);
    let report = sandbox.end_cleanly();
    assert_eq!(repository.branch_tip(&report.branches[0].name), Some(tip));
    host.assert_nothing_is_left();
}

#[test]
fn a_worktree_that_the_user_removed_meanwhile_does_not_lose_the_work() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh("echo a > a");
    let work_dir = holm_sandbox::Sandbox::work_dir(&sandbox)
        .to_str()
        .unwrap()
        .to_owned();
    repository.git(["worktree", "unlock", &work_dir]);
    repository.git(["worktree", "remove", "--force", &work_dir]);
    sandbox.end_cleanly();
    assert_eq!(repository.file_at("work", "a"), b"a\n");
    host.assert_nothing_is_left();
}
