//! `holm sandbox`: from create to rm.

use std::fs;

use crate::support::{TestEnvironment, names_in, processes_with, token, wait_until};

/// The cells of a table; their widths and the age differ from run to run.
fn table(output: &crate::support::Output) -> String {
    let text = output.to_string();
    let lines = text.lines().map(|line| {
        let mut cells: Vec<&str> = line.split_whitespace().collect();
        if let Some(age) = cells.last_mut().filter(|last| last.ends_with('s')) {
            *age = "[AGE]";
        }
        cells.join(" | ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn round_trip_with_a_repository() {
    let env = TestEnvironment::new();
    env.repository("project");
    insta::assert_snapshot!(env.run(["sandbox", "create", "--repo", "project", "--name", "one"]), @r#"
    exit code: 0
    ----- stdout
    one
    ----- stderr
    hint: run a command in it: holm sandbox exec one -- COMMAND
    "#);
    insta::assert_snapshot!(table(&env.run(["sandbox", "list"])), @r#"
    exit | code: | 0
    ----- | stdout
    NAME | STATE | ISOLATION | SOURCE | BRANCH | AGE
    one | running | namespaces | [ROOT]/project | holm/[ID] | [AGE]
    "#);

    fs::write(env.path("notes"), "from outside\n").unwrap();
    insta::assert_snapshot!(env.run(["sandbox", "cp", "notes", "one:docs/"]), @r#"exit code: 0"#);
    insta::assert_snapshot!(env.run(["sandbox", "exec", "one", "--", "cat", "docs/notes", "README"]), @r#"
    exit code: 0
    ----- stdout
    from outside
    hello
    "#);
    let pwd = env.run([
        "sandbox",
        "exec",
        "one",
        "--cwd",
        "docs",
        "--",
        "sh",
        "-c",
        "echo more >> notes; basename $PWD; exit 5",
    ]);
    insta::assert_snapshot!(pwd, @r#"
    exit code: 5
    ----- stdout
    docs
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "cp", "one:docs/notes", "back"]), @r#"exit code: 0"#);
    assert_eq!(
        fs::read_to_string(env.path("back")).unwrap(),
        "from outside\nmore\n"
    );
    insta::assert_snapshot!(env.run(["sandbox", "export", "one", "docs", "exported"]), @r#"
    exit code: 0
    ----- stderr
    exported 1 file (18 B) to exported
    "#);
    assert_eq!(names_in(&env.path("exported")), ["notes"]);

    insta::assert_snapshot!(env.run(["sandbox", "rm", "one"]), @r#"
    exit code: 0
    ----- stderr
    kept your changes on branch holm/[ID] (1 commit)
    hint: see them: git -C [ROOT]/project diff HEAD...holm/[ID]
    "#);
    env.assert_clean();
    let branch = env.git(
        "project",
        &["branch", "--list", "--format=%(refname:short)", "holm/*"],
    );
    assert_eq!(
        env.git("project", &["show", &format!("{branch}:docs/notes")]),
        "from outside\nmore"
    );
    insta::assert_snapshot!(env.run(["sandbox", "list"]), @r#"
    exit code: 0
    ----- stderr
    there are no sandboxes; make one with `holm sandbox create`
    "#);
}

#[test]
fn create_prints_the_name_alone() {
    let env = TestEnvironment::new();
    let name = env.run(["sandbox", "create"]).success();
    assert_eq!(name.len(), 8, "{name}");
    let run = env
        .run(["sandbox", "exec", &name, "--", "echo", "in it"])
        .success();
    assert_eq!(run, "in it");
    insta::assert_snapshot!(env.run(["sandbox", "rm", &name]), @r#"exit code: 0"#);
    env.assert_clean();
}

#[test]
fn json_of_every_command() {
    let env = TestEnvironment::new();
    env.repository("project");
    insta::assert_snapshot!(env.run(["sandbox", "create", "--json", "--repo", "project", "--name", "one"]), @r#"
    exit code: 0
    ----- stdout
    {"id":"[ID]","name":"one","isolation":"namespaces","network":"none","work_dir":"[ROOT]/tmp/harness-[ID]","branch":"holm/[ID]","warnings":[]}
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "list", "--json"]), @r#"
    exit code: 0
    ----- stdout
    [{"name":"one","id":"[ID]","state":"running","stay":"until_removed","isolation":"namespaces","network":"none","source":"repository","source_path":"[ROOT]/project","branch":"holm/[ID]","work_dir":"[ROOT]/tmp/harness-[ID]","created_unix_seconds":[N],"memory_bytes":null,"cpu_millis":null,"pids":2048}]
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "exec", "--json", "one", "--", "sh", "-c", "echo x > new"]), @r#"
    exit code: 0
    ----- stdout
    {"exit_code":0,"signal":null,"timed_out":false,"truncated":false,"duration_ms":[N],"stdout":"","stderr":"","sandbox":{"id":"[ID]","name":"one","isolation":"namespaces","network":"none","work_dir":"[ROOT]/tmp/harness-[ID]"},"branches":[],"warnings":[]}
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "rm", "--json", "one"]), @r#"
    exit code: 0
    ----- stdout
    [{"name":"one","branches":[{"name":"holm/[ID]","commit":"[COMMIT]","commits_ahead":1,"origin":"snapshot"}],"warnings":[]}]
    ----- stderr
    kept your changes on branch holm/[ID] (1 commit)
    hint: see them: git -C [ROOT]/project diff HEAD...holm/[ID]
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "list", "--json"]), @r#"
    exit code: 0
    ----- stdout
    []
    "#);
}

#[test]
fn files_outlive_the_box() {
    let env = TestEnvironment::new();
    env.repository("project");
    env.run(["sandbox", "create", "--name", "one", "--repo", "project"])
        .success();
    env.run([
        "sandbox",
        "exec",
        "one",
        "--",
        "sh",
        "-c",
        "echo kept > file",
    ])
    .success();
    let listed = env.run(["sandbox", "list", "--json"]).json();
    assert_eq!(listed[0]["state"], "running");
    let record = env
        .path("data/boxes")
        .join(listed[0]["id"].as_str().unwrap())
        .join("record.json");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let init = i32::try_from(record["init"]["pid"].as_i64().unwrap()).unwrap();
    let init = rustix::process::Pid::from_raw(init).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    wait_until("the box has ended", || {
        env.run(["sandbox", "list", "--json"]).json()[0]["state"] == "stopped"
    });
    let run = env
        .run(["sandbox", "exec", "one", "--", "cat", "file", "README"])
        .success();
    assert_eq!(run, "kept\nhello");
    env.run(["sandbox", "rm", "one", "--discard"]).success();
    env.assert_clean();
}

#[test]
fn removing_ends_what_runs_inside() {
    let env = TestEnvironment::new();
    let token = token();
    env.run(["sandbox", "create", "--name", "one"]).success();
    let script = format!("sleep 600 & echo started; wait; : {token}");
    let mut child = env
        .holm(["sandbox", "exec", "one", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    crate::support::read_until(&mut child, "started\n");
    env.run(["sandbox", "delete", "one"]).success();
    assert_ne!(env.finish(child).code(), Some(0));
    assert_eq!(processes_with(&token), 0);
    env.assert_clean();
}

#[test]
fn names_that_are_taken_or_unknown() {
    let env = TestEnvironment::new();
    env.run(["sandbox", "create", "--name", "one"]).success();
    insta::assert_snapshot!(env.run(["sandbox", "create", "--name", "one"]), @r#"
    exit code: 1
    ----- stderr
    error: a sandbox named `one` exists already

    hint: choose another name, or remove it: `holm sandbox rm one`
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "create", "--name", "a/b"]), @r#"
    exit code: 1
    ----- stderr
    error: `a/b` cannot be the name of a sandbox

    hint: use up to 63 letters, digits, `-`, `_` and `.`, beginning with a letter or digit
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "exec", "other", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: there is no sandbox named `other`

    hint: `holm sandbox list` shows those that exist
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "cp", "other:x", "."]), @r#"
    exit code: 1
    ----- stderr
    error: there is no sandbox named `other`

    hint: `holm sandbox list` shows those that exist
    "#);
    insta::assert_snapshot!(env.run(["sandbox", "rm", "other"]), @r#"
    exit code: 1
    ----- stderr
    error: there is no sandbox named `other`

    hint: `holm sandbox list` shows those that exist
    "#);
    // What can be removed is, and the failure is told.
    insta::assert_snapshot!(env.run(["sandbox", "rm", "other", "one"]), @r#"
    exit code: 1
    ----- stderr
    error: there is no sandbox named `other`

    hint: `holm sandbox list` shows those that exist
    "#);
    env.assert_clean();
}

#[test]
fn folders_are_copied_as_cp_does() {
    let env = TestEnvironment::new();
    env.run(["sandbox", "create", "--name", "one"]).success();
    fs::create_dir_all(env.path("tree/sub")).unwrap();
    fs::write(env.path("tree/sub/file"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", env.path("tree/link")).unwrap();

    insta::assert_snapshot!(env.run(["sandbox", "cp", "tree", "one:new"]), @r#"
    exit code: 0
    ----- stderr
    warning: `link` was not copied: it is a link to an absolute path
    "#);
    env.run(["sandbox", "cp", "tree", "one:"]).success();
    env.run(["sandbox", "cp", "tree/.", "one:content"])
        .success();
    let found = env
        .run(["sandbox", "exec", "one", "--", "find", ".", "-type", "f"])
        .success();
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(
        found,
        ["./content/sub/file", "./new/sub/file", "./tree/sub/file"]
    );

    env.run(["sandbox", "cp", "one:tree", "out"]).success();
    assert_eq!(names_in(&env.path("out")), ["sub"]);
    fs::create_dir(env.path("existing")).unwrap();
    env.run(["sandbox", "cp", "one:tree", "existing"]).success();
    assert_eq!(names_in(&env.path("existing/tree")), ["sub"]);
    env.run(["sandbox", "cp", "one:tree/sub/file", "existing"])
        .success();
    assert_eq!(names_in(&env.path("existing")), ["file", "tree"]);
    env.run(["sandbox", "export", "one", "all"]).success();
    assert_eq!(names_in(&env.path("all")), ["content", "new", "tree"]);
    insta::assert_snapshot!(env.run(["sandbox", "export", "one", "all"]), @r#"
    exit code: 1
    ----- stderr
    error: `all` exists and is not an empty directory

    hint: choose a folder that does not exist yet
    "#);
    env.run(["sandbox", "rm", "one"]).success();
}

#[test]
fn copies_that_cannot_be() {
    let env = TestEnvironment::new();
    env.run(["sandbox", "create", "--name", "one"]).success();
    fs::write(env.path("file"), "x").unwrap();
    let copy = |source: &str, destination: &str| env.run(["sandbox", "cp", source, destination]);
    insta::assert_snapshot!(copy("file", "other"), @r#"
    exit code: 1
    ----- stderr
    error: neither path is in a sandbox

    hint: write one of them as NAME:PATH, where NAME is a sandbox
    "#);
    insta::assert_snapshot!(copy("one:a", "one:b"), @r#"
    exit code: 1
    ----- stderr
    error: both paths are in sandboxes, and only one can be copied to or from the machine

    hint: write one of them as NAME:PATH, where NAME is a sandbox
    "#);
    insta::assert_snapshot!(copy("missing", "one:"), @r#"
    exit code: 1
    ----- stderr
    error: could not open `missing`
      caused by: No such file or directory (os error 2)
    "#);
    insta::assert_snapshot!(copy("one:missing", "."), @r#"
    exit code: 1
    ----- stderr
    error: `missing` does not exist in the sandbox
    "#);
    insta::assert_snapshot!(copy("one:../../etc/passwd", "."), @r#"
    exit code: 1
    ----- stderr
    error: path confinement violation: `../../etc/passwd` is outside base directory `[ROOT]/tmp/harness-[ID]`

    hint: use a path at or below `[ROOT]/tmp/harness-[ID]`, or a relative one
    "#);
    insta::assert_snapshot!(copy("file", "one:/etc/file"), @r#"
    exit code: 1
    ----- stderr
    error: path confinement violation: `/etc/file` is outside base directory `[ROOT]/tmp/harness-[ID]`

    hint: use a path at or below `[ROOT]/tmp/harness-[ID]`, or a relative one
    "#);
    assert_eq!(names_in(&env.path(".")), ["data", "file", "home", "tmp"]);
    env.run(["sandbox", "rm", "one"]).success();
}

#[test]
fn link_in_the_sandbox_does_not_lead_out() {
    let env = TestEnvironment::new();
    env.run(["sandbox", "create", "--name", "one"]).success();
    env.run([
        "sandbox",
        "exec",
        "one",
        "--",
        "ln",
        "-s",
        "/etc/passwd",
        "link",
    ])
    .success();
    let run = env.run(["sandbox", "cp", "one:link", "stolen"]);
    assert_eq!(run.code(), Some(1), "{run}");
    assert!(!env.path("stolen").exists());
    env.run(["sandbox", "rm", "one"]).success();
}

#[test]
fn mode_and_size_survive_a_copy() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnvironment::new();
    env.run(["sandbox", "create", "--name", "one"]).success();
    let big: Vec<u8> = (0..=255).cycle().take(20 << 20).collect();
    fs::write(env.path("big"), &big).unwrap();
    fs::set_permissions(env.path("big"), fs::Permissions::from_mode(0o755)).unwrap();
    env.run(["sandbox", "cp", "big", "one:big"]).success();
    env.run(["sandbox", "exec", "one", "--", "test", "-x", "big"])
        .success();
    env.run(["sandbox", "cp", "one:big", "back"]).success();
    assert!(fs::read(env.path("back")).unwrap() == big);
    assert_eq!(
        fs::metadata(env.path("back")).unwrap().permissions().mode() & 0o777,
        0o755
    );
    env.run(["sandbox", "rm", "one"]).success();
    env.assert_clean();
}
