//! What comes home from a box, in whatever state its repository is left.

use holm_sandbox::{BranchOrigin, Sandbox, UncommittedWork};
use holm_testkit::TestRepository;

use crate::support::{COMMIT_ALL, TestHost, Use};

struct Scene {
    host: TestHost,
    repository: TestRepository,
    sandbox: holm_sandbox_backends::local::LocalSandbox,
}

/// A sandbox in which a script has run.
fn after(script: &str) -> Scene {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh(script);
    Scene {
        host,
        repository,
        sandbox,
    }
}

impl Scene {
    fn ends_with_branches(&self, expected: &[&str]) {
        let report = self.sandbox.end_cleanly();
        let names: Vec<_> = report
            .branches
            .iter()
            .map(|kept| kept.name.as_str())
            .collect();
        assert_eq!(names, expected, "{report:?}");
        self.is_sound();
    }

    fn is_sound(&self) {
        self.repository.assert_sound();
        self.host.assert_nothing_is_left();
    }
}

#[test]
fn a_lock_that_a_killed_git_left_is_no_obstacle() {
    let scene = after("echo new > file; touch .git/index.lock .git/HEAD.lock");
    scene.sandbox.end();
    assert_eq!(scene.repository.file_at("work", "file"), b"new\n");
    scene.is_sound();
}

#[test]
fn commits_on_a_detached_head_get_a_branch_of_their_own() {
    let scene = after(&format!(
        "git checkout -q --detach; echo d > detached; {COMMIT_ALL} -m detached"
    ));
    scene.ends_with_branches(&["work-head"]);
    assert_eq!(scene.repository.file_at("work-head", "detached"), b"d\n");
}

#[test]
fn commits_on_the_branch_and_on_a_detached_head_both_come_home() {
    let scene = after(&format!(
        "echo b > b; {COMMIT_ALL} -m b; git checkout -q --detach HEAD~1; echo d > d; {COMMIT_ALL} -m d"
    ));
    scene.ends_with_branches(&["work", "work-head"]);
    assert_eq!(scene.repository.file_at("work", "b"), b"b\n");
    assert_eq!(scene.repository.file_at("work-head", "d"), b"d\n");
}

#[test]
fn a_renamed_branch_comes_home_under_the_name_it_was_given() {
    let scene = after(&format!(
        "git branch -m other-name; echo r > r; {COMMIT_ALL} -m r"
    ));
    scene.ends_with_branches(&["work"]);
    assert_eq!(scene.repository.file_at("work", "r"), b"r\n");
}

#[test]
fn a_deleted_branch_does_not_lose_what_is_checked_out() {
    let scene = after(&format!(
        "git checkout -q -b mine; git branch -D work; echo m > m; {COMMIT_ALL} -m m"
    ));
    scene.ends_with_branches(&["work"]);
    assert_eq!(scene.repository.file_at("work", "m"), b"m\n");
}

#[test]
fn commits_on_branches_that_are_not_checked_out_come_home_too() {
    let scene = after(&format!(
        "git checkout -q -b fix; echo f > f; {COMMIT_ALL} -m fix; git checkout -q work; \
         echo w > w; {COMMIT_ALL} -m work"
    ));
    let fix = scene.sandbox.sh("git rev-parse fix");
    let report = scene.sandbox.end_cleanly();
    assert_eq!(scene.repository.file_at("work", "w"), b"w\n");
    let kept = report.branches.iter().find(|kept| kept.commit == fix);
    let kept = kept.unwrap_or_else(|| panic!("branch `fix` was lost: {report:?}"));
    assert_eq!(scene.repository.branch_tip(&kept.name), Some(fix));
    scene.is_sound();
}

#[test]
fn a_rewritten_history_comes_home() {
    let scene = after(
        "echo 1 > f; git add .; git commit -qm one; git commit -q --amend -m two; \
         git checkout -q --orphan fresh; git commit -qm root; git branch -M work",
    );
    let tip = scene.sandbox.sh("git rev-parse HEAD");
    scene.ends_with_branches(&["work"]);
    assert_eq!(scene.repository.branch_tip("work"), Some(tip));
    assert_eq!(scene.repository.git(["rev-list", "--count", "work"]), "1");
}

#[test]
fn a_branch_set_back_behind_its_beginning_is_no_loss() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let first = repository.head();
    repository.write("second", "2");
    repository.commit("second");
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh("git reset -q --hard HEAD~1");
    let report = sandbox.end_cleanly();
    assert_eq!(report.branches.len(), 1);
    assert_eq!(repository.branch_tip("work"), Some(first));
}

#[test]
fn a_merge_in_the_middle_is_kept_as_it_stands() {
    let scene = after(&format!(
        "git checkout -q -b a; echo a > README.md; {COMMIT_ALL} -m a; git checkout -q work; \
         echo b > README.md; {COMMIT_ALL} -m b; git merge a || true; git status --short"
    ));
    let report = scene.sandbox.end_cleanly();
    assert_eq!(report.branches[0].origin, BranchOrigin::Snapshot);
    let text = scene.repository.file_at("work", "README.md");
    assert!(String::from_utf8(text).unwrap().contains("<<<<<<<"));
    scene.is_sound();
}

#[test]
fn files_are_saved_when_git_is_gone() {
    for (case, script) in [
        ("removed", "rm -rf .git"),
        ("a file", "rm -rf .git; echo garbage > .git"),
        ("a link", "rm -rf .git; ln -s /etc .git"),
        ("a dangling link", "rm -rf .git; ln -s nowhere .git"),
        (
            "a gitdir elsewhere",
            "rm -rf .git; git init -q /tmp/x; echo 'gitdir: /tmp/x/.git' > .git",
        ),
        ("no HEAD", "rm .git/HEAD"),
        ("no objects", "rm -rf .git/objects"),
        ("a broken index", "head -c 1000 /dev/urandom > .git/index"),
        ("a broken config", "echo '[' > .git/config"),
        (
            "an unknown format",
            "git config core.repositoryFormatVersion 99",
        ),
        ("another work tree", "git config core.worktree /etc"),
        ("no permissions", "chmod 0 .git"),
    ] {
        let scene = after(&format!("echo new > new; echo x > README.md; {script}"));
        let report = scene.sandbox.end();
        assert!(report.leftovers.is_empty(), "{case}: {report:?}");
        assert_eq!(
            scene.repository.file_at("work", "new"),
            b"new\n",
            "{case}: {report:?}"
        );
        assert_eq!(
            scene.repository.file_at("work", "README.md"),
            b"x\n",
            "{case}"
        );
        scene.is_sound();
    }
}

#[test]
fn a_repository_inside_the_repository_is_put_aside_and_the_rest_comes_home() {
    let scene = after(
        "echo new > new; git init -q nested; cd nested; echo n > file; git add .; \
         git -c user.name=n -c user.email=n@n commit -qm n",
    );
    let report = scene.sandbox.end();
    assert_eq!(scene.repository.file_at("work", "new"), b"new\n");
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.contains("`nested`")),
        "{report:?}"
    );
    assert_is_kept(&report, "nested/file");
}

#[test]
fn a_repository_without_commits_inside_does_not_lose_anything() {
    let scene = after("echo new > new; git init -q empty; echo e > empty/file");
    let report = scene.sandbox.end();
    assert_is_kept(&report, "empty/file");
    if report.branches.is_empty() {
        assert_is_kept(&report, "new");
    } else {
        assert_eq!(scene.repository.file_at("work", "new"), b"new\n");
    }
}

/// What cannot come home as a commit is a file that the report leads to.
fn assert_is_kept(report: &holm_sandbox::TeardownReport, path: &str) {
    let mut candidates = report
        .leftovers
        .iter()
        .flat_map(|left| [left.join(path), left.join("tree-upper").join(path)]);
    assert!(
        candidates.any(|place| place.is_file()),
        "`{path}` is lost: {report:?}"
    );
}

#[test]
fn snapshot_then_more_then_teardown_is_one_line_of_commits() {
    let scene = after("echo 1 > one");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let snapshot = runtime.block_on(scene.sandbox.snapshot()).unwrap();
    scene.sandbox.sh("echo 2 > two");
    let report = scene.sandbox.end_cleanly();
    assert_eq!(report.branches[0].commits_ahead, 2);
    assert_eq!(scene.repository.git(["rev-parse", "work~1"]), snapshot.0);
    scene.is_sound();
}

#[test]
fn discarding_keeps_commits_and_nothing_else() {
    let scene = after(&format!(
        "echo c > committed; {COMMIT_ALL} -m c; echo l > loose; git rm -q README.md"
    ));
    let report = scene.sandbox.teardown_blocking(UncommittedWork::Discard);
    assert!(report.warnings.is_empty(), "{report:?}");
    let files = scene.repository.files_at("work");
    assert_eq!(
        files,
        [".gitignore", "README.md", "committed", "src/main.rs"]
    );
    scene.is_sound();
}

#[test]
fn hard_to_remove_files_are_removed() {
    let scene = after(
        "mkdir -p ignored/a/b; echo x > ignored/a/b/c; chmod 0 ignored/a/b/c ignored/a/b ignored/a; \
         mkfifo ignored/fifo; mkdir -p $(printf 'ignored/%0200d' 1)/$(printf '%0200d' 2)",
    );
    scene.sandbox.end_cleanly();
    scene.host.assert_nothing_is_left();
}
