//! `holm exec`: exit codes, environment, failures.

use std::fs;

use crate::support::TestEnvironment;

#[test]
fn exit_code_is_the_commands_own() {
    let env = TestEnvironment::new();
    assert_eq!(env.run(["exec", "--", "true"]).code(), Some(0));
    assert_eq!(env.run(["exec", "sh", "-c", "exit 3"]).code(), Some(3));
    env.assert_clean();
}

#[test]
fn streams_stay_apart() {
    let env = TestEnvironment::new();
    let script = "echo to stdout; echo to stderr >&2; exit 3";
    insta::assert_snapshot!(env.run(["exec", "--", "sh", "-c", script]), @r#"
    exit code: 3
    ----- stdout
    to stdout
    ----- stderr
    to stderr
    "#);
}

#[test]
fn signal_gives_128_and_its_number() {
    let env = TestEnvironment::new();
    let run = |script: &str| env.run(["exec", "--", "sh", "-c", script]).code();
    assert_eq!(run("kill -KILL $$"), Some(137));
    assert_eq!(run("kill -TERM $$"), Some(143));
    env.assert_clean();
}

#[test]
fn command_that_is_not_there_is_127() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["exec", "--", "no-such-command"]), @r#"
    exit code: 127
    ----- stderr
    error: command `no-such-command` was not found

    hint: the command is looked up inside the sandbox; use a shell (`sh -c`) for builtins and pipes
    "#);
    env.assert_clean();
}

#[test]
fn command_that_cannot_run_is_126() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["exec", "--", "/etc/passwd"]), @r#"
    exit code: 126
    ----- stderr
    error: command `/etc/passwd` could not be executed
      caused by: Permission denied (os error 13)
    "#);
    env.assert_clean();
}

#[test]
fn timeout_is_124_with_the_output_so_far() {
    let env = TestEnvironment::new();
    let script = "echo before; sleep 600; echo after";
    insta::assert_snapshot!(env.run(["exec", "--timeout", "1s", "--", "sh", "-c", script]), @r#"
    exit code: 124
    ----- stdout
    before
    ----- stderr
    timed out: the command was ended after 1s
    "#);
    env.assert_clean();
}

#[test]
fn environment_is_not_inherited() {
    let env = TestEnvironment::new()
        .with("MINE", "passed on")
        .with("OTHER", "kept out");
    let run = env.run([
        "exec",
        "--env",
        "MINE",
        "--env",
        "GIVEN=a=b",
        "--",
        "sh",
        "-c",
        "echo $MINE, $GIVEN, ${OTHER:-nothing}, $HOME, $HOLM_SANDBOX",
    ]);
    insta::assert_snapshot!(run, @r#"
    exit code: 0
    ----- stdout
    passed on, a=b, nothing, /home/holm, 1
    "#);
}

#[test]
fn secrets_are_taken_out_of_the_output() {
    let env = TestEnvironment::new().with("API_TOKEN", "0123456789abcdef");
    let run = env.run([
        "exec",
        "--env",
        "API_TOKEN",
        "--env",
        "USE_KEYRING=1",
        "--",
        "sh",
        "-c",
        "echo out $API_TOKEN 1; echo err $API_TOKEN >&2",
    ]);
    insta::assert_snapshot!(run, @r#"
    exit code: 0
    ----- stdout
    out [REDACTED:API_TOKEN] 1
    ----- stderr
    err [REDACTED:API_TOKEN]
    "#);
}

#[test]
fn json_has_everything_in_one_object() {
    let env = TestEnvironment::new();
    let script = "printf 'a\\377b'; echo no >&2; exit 4";
    insta::assert_snapshot!(env.run(["exec", "--json", "--", "sh", "-c", script]), @r#"
    exit code: 4
    ----- stdout
    {"exit_code":4,"signal":null,"timed_out":false,"truncated":false,"duration_ms":[N],"stdout":"a�b","stderr":"no\n","sandbox":{"id":"[ID]","name":null,"isolation":"namespaces","network":"none","work_dir":"[ROOT]/tmp/harness-[ID]"},"branches":[],"warnings":[]}
    "#);
}

#[test]
fn json_tells_of_timeout_and_truncation() {
    let env = TestEnvironment::new();
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; sleep 600";
    let run = env.run([
        "exec",
        "--json",
        "--timeout",
        "2s",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(run.code(), Some(124));
    let result = run.json();
    assert_eq!(result["exit_code"], 124);
    assert_eq!(result["timed_out"], true);
    assert_eq!(result["truncated"], true);
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.len() < (1 << 20) + 100 && stdout.ends_with("[truncated]"));
}

#[test]
fn without_isolation_it_says_so() {
    let env = TestEnvironment::new();
    let arguments = ["exec", "--isolation", "none", "--memory", "1g", "--", "pwd"];
    insta::assert_snapshot!(env.run(arguments), @r#"
    exit code: 0
    ----- stdout
    [ROOT]/tmp/harness-[ID]
    ----- stderr
    warning: there is no isolation: the command can do everything that you can
    warning: --memory has no effect without isolation
    "#);
    env.assert_clean();
}

#[test]
fn directory_is_worked_on_in_place() {
    let env = TestEnvironment::new();
    fs::create_dir(env.path("work")).unwrap();
    env.run([
        "exec",
        "--dir",
        "work",
        "--",
        "sh",
        "-c",
        "echo made > file",
    ])
    .success();
    assert_eq!(fs::read_to_string(env.path("work/file")).unwrap(), "made\n");
    env.assert_clean();
}

#[test]
fn network_is_loopback_only() {
    let env = TestEnvironment::new();
    let count = "tail -n +3 /proc/net/dev | wc -l";
    let run = env.run(["exec", "--", "sh", "-c", count]).success();
    assert_eq!(run, "1");
}

#[test]
fn data_folder_that_cannot_be() {
    let env = TestEnvironment::new();
    fs::write(env.path("file"), "").unwrap();
    let inside = env.path("file").join("data");
    let env = env.with("HOLM_DATA_DIR", inside);
    insta::assert_snapshot!(env.run(["exec", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    warning: could not look for interrupted sandboxes: could not read folder `[ROOT]/file/data/boxes`: Not a directory (os error 20)
    error: could not make folder `[ROOT]/file/data`
      caused by: Not a directory (os error 20)

    hint: Holm keeps its data in `[ROOT]/file/data`; choose another folder with --data-dir or HOLM_DATA_DIR
    "#);
}

#[test]
fn flag_for_the_data_folder_comes_first() {
    let env = TestEnvironment::new();
    env.run(["exec", "--data-dir", "other", "--", "true"])
        .success();
    assert!(env.path("other").is_dir());
    assert!(!env.path("data").exists());
}

#[test]
fn temp_folder_that_is_not_there() {
    let env = TestEnvironment::new();
    let missing = env.path("missing");
    let env = env.with("TMPDIR", missing);
    insta::assert_snapshot!(env.run(["exec", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: could not find the temp folder `[ROOT]/missing`
      caused by: No such file or directory (os error 2)
    "#);
}
