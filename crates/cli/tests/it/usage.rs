//! Command lines that cannot work, told before anything is made.

use std::io::Read as _;
use std::process::Stdio;

use crate::support::{TestEnvironment, terminal};

#[test]
fn no_command_at_all() {
    assert_eq!(TestEnvironment::new().run([""; 0]).code(), Some(2));
}

#[test]
fn unknown_flag_of_exec_is_125() {
    insta::assert_snapshot!(TestEnvironment::new().run(["exec", "--bogus", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: unexpected argument '--bogus' found

      tip: to pass '--bogus' as a value, use '-- --bogus'

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    For more information, try '--help'.
    "#);
}

#[test]
fn unknown_flag_elsewhere_is_2() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "list", "--bogus"]), @r#"
    exit code: 2
    ----- stderr
    error: unexpected argument '--bogus' found

    Usage: holm sandbox list [OPTIONS]

    For more information, try '--help'.
    "#);
}

#[test]
fn exec_needs_a_command() {
    insta::assert_snapshot!(TestEnvironment::new().run(["exec"]), @r#"
    exit code: 125
    ----- stderr
    error: the following required arguments were not provided:
      <COMMAND>...

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    For more information, try '--help'.
    "#);
}

#[test]
fn flags_that_contradict_each_other() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["exec", "--repo", ".", "--dir", ".", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: the argument '--repo <PATH>' cannot be used with '--dir <PATH>'

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(env.run(["exec", "--branch", "a", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: the following required arguments were not provided:
      --repo <PATH>

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    For more information, try '--help'.
    "#);
}

#[test]
fn wrong_values_are_told_with_the_right_form() {
    let env = TestEnvironment::new();
    let run = |flag: &str, value: &str| env.run(["exec", flag, value, "true"]);
    insta::assert_snapshot!(run("--timeout", "5"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value '5' for '--timeout <TIME>': write it as `500ms`, `90s`, `5m`, `2h` or `1h30m`

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(run("--memory", "lots"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value 'lots' for '--memory <SIZE>': write it as `1024`, `64k`, `512m`, `1.5g` or `2GiB`; each step is 1024 times the one before

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(run("--memory", "1k"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value '1k' for '--memory <SIZE>': it must be at least 1m, which a shell needs to start

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(run("--cpus", "0"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value '0' for '--cpus <NUMBER>': write it as `2` or `0.5`, with at most three digits after the point

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(run("--pids", "0"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value '0' for '--pids <NUMBER>': 0 is not in 1..=4294967295

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(run("--isolation", "docker"), @r#"
    exit code: 125
    ----- stderr
    error: invalid value 'docker' for '--isolation <KIND>'
      [possible values: auto, namespaces, none]

    For more information, try '--help'.
    "#);
}

#[test]
fn wrong_variables() {
    let env = TestEnvironment::new();
    let run = |value: &str| env.run(["exec", "--env", value, "true"]);
    insta::assert_snapshot!(run("NOT_THERE"), @r#"
    exit code: 125
    ----- stderr
    error: environment variable `NOT_THERE` is not set

    hint: set it, or give a value: --env NOT_THERE=VALUE
    "#);
    insta::assert_snapshot!(run("1A=x"), @r#"
    exit code: 125
    ----- stderr
    error: Invalid env key "1A" — must match [A-Za-z_][A-Za-z0-9_]*
    "#);
}

#[test]
fn empty_program() {
    insta::assert_snapshot!(TestEnvironment::new().run(["exec", "--", ""]), @r#"
    exit code: 125
    ----- stderr
    error: the program name is empty

    hint: the first argument names the program to run
    "#);
}

#[test]
fn nothing_was_made() {
    let env = TestEnvironment::new();
    assert_eq!(env.run(["exec", "--env", "1A=x", "true"]).code(), Some(125));
    assert!(!env.path("data").exists());
}

#[test]
fn nowhere_to_keep_data() {
    if crate::support::is_root() {
        return; // Root's folder is fixed.
    }
    let env = TestEnvironment::new()
        .without("HOLM_DATA_DIR")
        .without("HOME");
    let said = env.run(["sandbox", "list"]).errors();
    assert!(said.contains("HOME is not set"), "{said}");
}

#[test]
fn colours_are_for_terminals() {
    let env = TestEnvironment::new().with("TERM", "xterm");
    let said = |env: &TestEnvironment| {
        let (theirs, mut ours) = terminal();
        let mut command = env.holm(["exec", "--env", "NOT_THERE", "true"]);
        let status = command.stderr(Stdio::from(theirs)).status().unwrap();
        assert_eq!(status.code(), Some(125));
        drop(command);
        let mut text = Vec::new();
        // A terminal whose other side is closed says so with an error.
        drop(ours.read_to_end(&mut text));
        String::from_utf8(text).unwrap()
    };
    assert!(said(&env).starts_with("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m environment"));
    assert!(said(&env.with("NO_COLOR", "1")).starts_with("error: environment"));
}
