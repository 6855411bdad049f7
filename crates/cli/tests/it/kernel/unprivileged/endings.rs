//! Ctrl-C, SIGTERM, and a creator that is killed.

use std::process::Child;

use rustix::process::Signal;

use crate::support::{
    TestEnvironment, processes_with, read_stream_until, read_until, send, token, wait_until,
};

/// Starts a shell script that says `ready`, and waits for that.
fn start(env: &TestEnvironment, script: &str) -> Child {
    let mut child = env
        .holm(["exec", "--", "sh", "-c", script])
        .spawn()
        .unwrap();
    read_until(&mut child, "ready\n");
    child
}

fn until_notice(child: &mut Child) -> String {
    read_stream_until(child.stderr.as_mut().unwrap(), "\n")
}

#[test]
fn ctrl_c_lets_the_command_end_by_itself() {
    let env = TestEnvironment::new();
    let script = "trap 'echo saved; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let child = start(&env, script);
    send(&child, Signal::INT);
    insta::assert_snapshot!(env.finish(child), @r#"
    exit code: 7
    ----- stdout
    saved
    ----- stderr
    interrupted: waiting for the command to end; press Ctrl-C again to kill it
    "#);
    env.assert_clean();
}

#[test]
fn ctrl_c_ends_a_command_that_does_not_care() {
    let env = TestEnvironment::new();
    let child = start(&env, "echo ready; exec sleep 600");
    send(&child, Signal::INT);
    assert_eq!(env.finish(child).code(), Some(130));
    env.assert_clean();
}

#[test]
fn second_ctrl_c_kills() {
    let env = TestEnvironment::new();
    let token = token();
    let script = format!("trap '' INT; echo ready; while :; do sleep 0.05; done # {token}");
    let mut child = start(&env, &script);
    send(&child, Signal::INT);
    assert_eq!(
        until_notice(&mut child),
        "interrupted: waiting for the command to end; press Ctrl-C again to kill it\n"
    );
    send(&child, Signal::INT);
    insta::assert_snapshot!(env.finish(child), @r#"exit code: 130"#);
    assert_eq!(processes_with(&token), 0);
    env.assert_clean();
}

#[test]
fn termination_kills_and_cleans_up() {
    let env = TestEnvironment::new();
    let token = token();
    let script = format!("trap '' TERM; echo ready; while :; do sleep 0.05; done # {token}");
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let child = start(&env, &script);
        send(&child, signal);
        assert_eq!(env.finish(child).code(), Some(code));
        assert_eq!(processes_with(&token), 0);
        env.assert_clean();
    }
}

#[test]
fn killed_creator_takes_its_box_along_and_the_next_call_saves_the_work() {
    let env = TestEnvironment::new();
    env.repository("project");
    let token = token();
    let script = format!("echo work > file; echo ready; sleep 600; : {token}");
    let arguments = [
        "exec",
        "--repo",
        "project",
        "--",
        "sh",
        "-c",
        script.as_str(),
    ];
    let mut child = env.holm(arguments).spawn().unwrap();
    read_until(&mut child, "ready\n");
    send(&child, Signal::KILL);
    assert_eq!(env.finish(child).code(), None);
    wait_until("the box is gone", || processes_with(&token) == 0);

    insta::assert_snapshot!(env.run(["sandbox", "list"]), @r#"
    exit code: 0
    ----- stderr
    note: cleaned up sandbox [ID] whose creator was killed; its work is on branch holm/[ID] (1 commit)
    there are no sandboxes; make one with `holm sandbox create`
    "#);
    env.assert_clean();
    let branch = env.git(
        "project",
        &["branch", "--list", "--format=%(refname:short)", "holm/*"],
    );
    assert_eq!(
        env.git("project", &["show", &format!("{branch}:file")]),
        "work"
    );
    assert_eq!(env.git("project", &["worktree", "list"]).lines().count(), 1);
    assert_eq!(env.git("project", &["status", "--short"]), "");
    // There is nothing more to tell.
    assert_eq!(
        env.run(["sandbox", "list"]).errors(),
        "there are no sandboxes; make one with `holm sandbox create`"
    );
}

#[test]
fn killed_creator_without_a_repository_leaves_nothing() {
    let env = TestEnvironment::new();
    let child = start(&env, "echo ready; sleep 600");
    send(&child, Signal::KILL);
    assert_eq!(env.finish(child).code(), None);
    insta::assert_snapshot!(env.run(["exec", "--", "echo", "next"]), @r#"
    exit code: 0
    ----- stdout
    next
    ----- stderr
    note: cleaned up sandbox [ID] whose creator was killed
    "#);
    env.assert_clean();
}
