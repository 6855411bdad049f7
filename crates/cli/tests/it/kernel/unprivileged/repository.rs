//! Sandboxes on repositories: what stays, and what cannot be used.

use std::fs;

use crate::support::TestEnvironment;

#[test]
fn uncommitted_work_is_kept_on_a_branch() {
    let env = TestEnvironment::new();
    env.repository("project");
    let run = env.run([
        "exec",
        "--repo",
        "project",
        "--",
        "sh",
        "-c",
        "echo new > file",
    ]);
    insta::assert_snapshot!(run, @r#"
    exit code: 0
    ----- stderr
    kept your changes on branch holm/[ID] (1 commit)
    hint: see them: git -C project diff HEAD...holm/[ID]
    "#);
    let branch = env.git(
        "project",
        &["branch", "--list", "--format=%(refname:short)", "holm/*"],
    );
    assert_eq!(
        env.git("project", &["show", &format!("{branch}:file")]),
        "new"
    );
    assert_eq!(env.git("project", &["status", "--short"]), "");
    env.assert_clean();
}

#[test]
fn commits_are_kept_on_the_branch_that_was_named() {
    let env = TestEnvironment::new();
    env.repository("project");
    let script =
        "echo one > a; git add a; git commit -qm one; echo two > b; git add b; git commit -qm two";
    let run = env.run([
        "exec",
        "--repo",
        "project",
        "--branch",
        "fix/it",
        "--discard",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    insta::assert_snapshot!(run, @r#"
    exit code: 0
    ----- stdout
    {"exit_code":0,"signal":null,"timed_out":false,"truncated":false,"duration_ms":[N],"stdout":"","stderr":"","sandbox":{"id":"[ID]","name":null,"isolation":"namespaces","network":"none","work_dir":"[ROOT]/tmp/harness-[ID]"},"branches":[{"name":"fix/it","commit":"[COMMIT]","commits_ahead":2,"origin":"committed"}],"warnings":[]}
    ----- stderr
    kept your changes on branch fix/it (2 commits)
    hint: see them: git -C project diff HEAD...fix/it
    "#);
    assert_eq!(
        env.git("project", &["log", "--format=%s", "fix/it"]),
        "two\none\nfirst"
    );
    env.assert_clean();
}

#[test]
fn nothing_changed_leaves_no_branch() {
    let env = TestEnvironment::new();
    env.repository("project");
    insta::assert_snapshot!(env.run(["exec", "--repo", "project", "--", "cat", "README"]), @r#"
    exit code: 0
    ----- stdout
    hello
    "#);
    assert_eq!(env.git("project", &["branch", "--list"]), "* main");
    env.assert_clean();
}

#[test]
fn discarded_work_is_gone() {
    let env = TestEnvironment::new();
    env.repository("project");
    let run = env.run([
        "exec",
        "--repo",
        "project",
        "--discard",
        "--",
        "touch",
        "file",
    ]);
    assert_eq!((run.code(), run.errors().as_str()), (Some(0), ""));
    assert_eq!(env.git("project", &["branch", "--list"]), "* main");
    env.assert_clean();
}

#[test]
fn without_isolation_the_branch_is_kept_too() {
    let env = TestEnvironment::new();
    env.repository("project");
    let run = env.run([
        "exec",
        "--isolation",
        "none",
        "--repo",
        "project",
        "--branch",
        "plain",
        "--",
        "sh",
        "-c",
        "echo new > file",
    ]);
    insta::assert_snapshot!(run, @r#"
    exit code: 0
    ----- stderr
    warning: there is no isolation: the command can do everything that you can
    kept your changes on branch plain (1 commit)
    hint: see them: git -C project diff HEAD...plain
    "#);
    assert_eq!(env.git("project", &["show", "plain:file"]), "new");
    env.assert_clean();
}

#[test]
fn not_a_repository() {
    let env = TestEnvironment::new();
    fs::create_dir(env.path("plain")).unwrap();
    insta::assert_snapshot!(env.run(["exec", "--repo", "plain", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: `[ROOT]/plain` is not a git repository

    hint: give the path of one with --repo, or make one with `git init`
    "#);
    insta::assert_snapshot!(env.run(["exec", "--repo", "missing", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: repository `missing` does not exist

    hint: give the path of a git repository with --repo
    "#);
    env.assert_clean();
}

#[test]
fn repository_without_commits() {
    let env = TestEnvironment::new();
    fs::create_dir(env.path("project")).unwrap();
    env.git("project", &["init", "--quiet"]);
    insta::assert_snapshot!(env.run(["exec", "--repo", "project", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: could not find the commit to start from: repository `[ROOT]/project` has no commits yet

    hint: make a first one: `git commit --allow-empty -m init`
    "#);
    env.assert_clean();
}

#[test]
fn branch_that_exists_or_cannot_be() {
    let env = TestEnvironment::new();
    env.repository("project");
    env.git("project", &["branch", "taken"]);
    let run = |branch: &str| {
        env.run([
            "exec", "--repo", "project", "--branch", branch, "--", "true",
        ])
    };
    insta::assert_snapshot!(run("taken"), @r#"
    exit code: 125
    ----- stderr
    error: could not make a worktree for branch `taken`: branch `taken` already exists

    hint: choose another name with --branch
    "#);
    insta::assert_snapshot!(run("a..b"), @r#"
    exit code: 125
    ----- stderr
    error: `a..b` is not a valid branch name

    hint: `git help check-ref-format` tells what git allows
    "#);
    env.assert_clean();
    assert_eq!(env.git("project", &["branch", "--list"]), "* main\n  taken");
}
