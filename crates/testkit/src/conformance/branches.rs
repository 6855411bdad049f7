//! Commits: how they come home, and how they get to a remote.

use holm_sandbox::{BranchOrigin, ErrorKind, Sandbox, Secret, UncommittedWork};

use super::{Backend, BranchesBegin, at, finish, sh};
use crate::TestRepository;

async fn fixture(backend: &dyn Backend) -> (TestRepository, Box<dyn Sandbox>) {
    let repository = TestRepository::new();
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    (repository, sandbox)
}

/// Identities are nothing that a sandbox must have.
const COMMIT: &str = "git -c user.name=Agent -c user.email=agent@example.org commit --quiet";

pub async fn a_snapshot_is_a_commit_with_every_change(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    sandbox.write_file(at("new/file"), b"new").await.unwrap();
    sandbox
        .write_file(at("README.md"), b"changed")
        .await
        .unwrap();
    sandbox.delete_file(at("src/main.rs")).await.unwrap();
    sandbox
        .write_file(at("ignored"), b"not kept")
        .await
        .unwrap();
    let snapshot = sandbox.snapshot().await.unwrap();
    assert!(!snapshot.0.is_empty());
    let shown = sh(
        &*sandbox,
        &format!("git show --format= --name-status --no-renames {snapshot} | tr '\\t' ' '"),
    )
    .await;
    assert_eq!(shown, "M README.md\nA new/file\nD src/main.rs");
    assert_eq!(sh(&*sandbox, "git status --porcelain").await, "");
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    assert_eq!(report.branches[0].commit, snapshot.0);
    assert_eq!(repository.file_at("work", "new/file"), b"new");
    repository.assert_sound();
}

pub async fn a_snapshot_without_changes_is_one_too(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    let first = sandbox.snapshot().await.unwrap();
    let second = sandbox.snapshot().await.unwrap();
    assert!(!first.0.is_empty() && !second.0.is_empty());
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    let tree = |commit: &str| repository.git(["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(tree(&second.0), tree("main"));
}

pub async fn the_default_branch_is_the_one_of_origin(backend: &dyn Backend) {
    let repository = TestRepository::new();
    repository.with_bare_origin();
    repository.git(["checkout", "--quiet", "-b", "feature"]);
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    assert_eq!(sandbox.default_branch().await.unwrap(), "main");
    finish(sandbox, backend).await;
}

pub async fn without_a_remote_the_default_branch_is_the_one_checked_out(backend: &dyn Backend) {
    let (_repository, sandbox) = fixture(backend).await;
    assert_eq!(sandbox.default_branch().await.unwrap(), "main");
    finish(sandbox, backend).await;
}

pub async fn a_pushed_branch_is_at_origin(backend: &dyn Backend) {
    let repository = TestRepository::new();
    let origin = repository.with_bare_origin();
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    sandbox.write_file(at("new"), b"pushed").await.unwrap();
    sh(&*sandbox, &format!("git add new; {COMMIT} -m pushed")).await;
    let token = Secret::from("token-token-token");
    let outcome = sandbox.push_branch("work", &token).await.unwrap();
    assert!(outcome.pushed && outcome.error.is_none(), "{outcome:?}");
    assert_eq!(origin.file_at("work", "new"), b"pushed");
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    let names: Vec<&str> = report
        .branches
        .iter()
        .map(|kept| kept.name.as_str())
        .collect();
    assert_eq!(names, ["work"]);
    assert_eq!(repository.branches(), ["main", "work"]);
    assert_eq!(repository.branch_tip("work"), origin.branch_tip("work"));
    let config = std::fs::read_to_string(repository.git_dir().join("config")).unwrap();
    assert!(!config.contains("token-token"), "{config}");
}

pub async fn pushing_brings_later_commits_too(backend: &dyn Backend) {
    let repository = TestRepository::new();
    let origin = repository.with_bare_origin();
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    let token = Secret::from("token-token-token");
    for round in ["1", "2"] {
        sandbox
            .write_file(at("new"), round.as_bytes())
            .await
            .unwrap();
        sh(&*sandbox, &format!("git add new; {COMMIT} -m {round}")).await;
        let outcome = sandbox.push_branch("work", &token).await.unwrap();
        assert!(outcome.pushed, "{outcome:?}");
        assert_eq!(origin.file_at("work", "new"), round.as_bytes());
    }
    sandbox.write_file(at("new"), b"3").await.unwrap();
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    assert_eq!(repository.branches(), ["main", "work"]);
    assert_eq!(repository.file_at("work", "new"), b"3");
}

pub async fn a_refused_push_is_an_outcome_without_the_token(backend: &dyn Backend) {
    let repository = TestRepository::new();
    let missing = repository.folder().join("token-token-token/missing.git");
    repository.git(["remote", "add", "origin", missing.to_str().unwrap()]);
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    let token = Secret::from("token-token-token");
    let outcome = sandbox.push_branch("work", &token).await.unwrap();
    let error = outcome.error.unwrap();
    assert!(!outcome.pushed && !error.is_empty());
    assert!(!error.contains("token-token"), "{error}");
    finish(sandbox, backend).await;
}

pub async fn only_the_own_branch_is_pushed(backend: &dyn Backend) {
    let repository = TestRepository::new();
    let origin = repository.with_bare_origin();
    let sandbox = backend.repository_sandbox(&repository, "work").await;
    let token = Secret::from("token-token-token");
    for branch in ["main", "other", "--all", "work:main", "+work"] {
        let error = sandbox.push_branch(branch, &token).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(origin.branches(), ["main"]);
    finish(sandbox, backend).await;
}

pub async fn commits_are_in_the_repository_after_teardown(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    let base = repository.head();
    for name in ["one", "two"] {
        sandbox.write_file(at(name), name.as_bytes()).await.unwrap();
        sh(&*sandbox, &format!("git add {name}; {COMMIT} -m {name}")).await;
    }
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    let [kept] = report.branches.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((kept.name.as_str(), kept.commits_ahead), ("work", 2));
    assert_eq!(kept.origin, BranchOrigin::Committed);
    assert_eq!(repository.branch_tip("work").unwrap(), kept.commit);
    assert_eq!(repository.git(["merge-base", "main", "work"]), base);
    assert_eq!(repository.file_at("work", "two"), b"two");
    assert_eq!(repository.git(["status", "--porcelain"]), "");
    repository.assert_sound();
}

pub async fn uncommitted_work_is_kept_as_a_commit(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    let script = "echo changed > README.md; rm src/main.rs; echo new > 'a new file'; \
                  printf '#!/bin/sh\\n' > tool; chmod +x tool; ln -s README.md link; \
                  echo no > ignored";
    sh(&*sandbox, script).await;
    let report = finish(sandbox, backend).await;
    backend.bring_home(&repository, &report);
    let [kept] = report.branches.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((kept.name.as_str(), kept.commits_ahead), ("work", 1));
    assert_eq!(kept.origin, BranchOrigin::Snapshot);
    assert_eq!(
        repository.files_at("work"),
        [".gitignore", "README.md", "a new file", "link", "tool"]
    );
    assert_eq!(repository.file_at("work", "README.md"), b"changed\n");
    let modes = repository.git(["ls-tree", "--format=%(objectmode) %(path)", "work"]);
    assert!(
        modes.contains("100755 tool") && modes.contains("120000 link"),
        "{modes}"
    );
    repository.assert_sound();
}

pub async fn discarded_work_is_gone_and_commits_are_kept(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    sandbox.write_file(at("committed"), b"1").await.unwrap();
    sh(&*sandbox, &format!("git add committed; {COMMIT} -m one")).await;
    sandbox.write_file(at("loose"), b"1").await.unwrap();
    let report = sandbox.teardown(UncommittedWork::Discard).await;
    assert!(report.warnings.is_empty(), "{report:?}");
    assert_eq!(report.branches.len(), 1);
    backend.bring_home(&repository, &report);
    let files = repository.files_at("work");
    assert!(files.contains(&"committed".to_owned()) && !files.contains(&"loose".to_owned()));
    backend.assert_nothing_is_left();
}

pub async fn an_untouched_sandbox_keeps_nothing(backend: &dyn Backend) {
    let (repository, sandbox) = fixture(backend).await;
    let base = repository.head();
    sh(&*sandbox, "git status; git log; cat README.md").await;
    let report = finish(sandbox, backend).await;
    assert_eq!(report.branches, []);
    let expected = match backend.branches_begin() {
        // The branch was asked for by name, so it stays, where it began.
        BranchesBegin::InTheRepository => Some(base),
        BranchesBegin::InTheSandbox => None,
    };
    assert_eq!(repository.branch_tip("work"), expected);
}
