//! How sessions end, and what they outlive.

use std::time::{Duration, Instant};

use holm_server::records::SandboxRecord;
use serde_json::json;

use super::shell::{Shell, heard, text};
use crate::support::{TestServer, wait_until};

#[test]
fn a_timeout_kills_the_command_and_keeps_its_session() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    shell.run("cd /tmp; sleep 4715 &");
    let request =
        json!({ "command": "echo partial; setsid sleep 4716 & sleep 4716", "timeout": 1 });
    let answer = shell.exec(request).ok();
    assert_eq!(
        (&answer["exitCode"], &answer["stdout"]),
        (&json!(124), &json!("partial\n"))
    );
    assert!(
        answer["stderr"]
            .as_str()
            .unwrap()
            .contains("[killed after 1 seconds]")
    );
    assert_eq!(
        shell
            .run("pwd; pgrep -fc '^sleep 4716'; pgrep -fc '^sleep 4715'")
            .0,
        "/tmp\n0\n1\n"
    );
    // A shell that is busy itself ends with its session.
    let request = json!({ "command": "while :; do :; done", "timeout": 1 });
    assert_eq!(shell.exec(request).ok()["exitCode"], 124);
    shell.exec(json!({ "command": "pwd" })).refused(410);
}

#[test]
fn a_fork_bomb_ends_with_its_timeout() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let request = json!({ "command": "b() { b | b & }; b; sleep 60", "timeout": 1 });
    assert_eq!(shell.exec(request).ok()["exitCode"], 124);
    shell.delete().ok();
    wait_until("there is room again", || {
        let path = format!("/toolbox/{id}/process/execute");
        server.post(&path, json!({ "command": "echo alive" })).body["result"] == "alive\n"
    });
}

#[test]
fn the_box_cannot_take_the_pipes_away() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let attack = "ls /run/holm-* 2>&1; rm -rf /run/holm-*; mv /run/holm-* /tmp; touch /run/holm-*/x; \
                  for f in /proc/$$/fd/*; do :; done; echo still";
    let (stdout, _, code) = shell.run(attack);
    assert!(
        stdout.contains("Permission denied") && stdout.ends_with("still\n"),
        "{stdout}"
    );
    assert_eq!(code, 0);
    assert_eq!(shell.run("echo works").0, "works\n");
    assert_eq!(shell.delete().status, 204);
    let other = Shell::named(&server, &id, "s2");
    assert_eq!(other.run("ls -d /run/holm-* | wc -l").0, "1\n");
}

#[test]
fn deleting_gives_processes_time_to_end() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell.start("bash -c 'trap \"sleep 0.5; touch /tmp/ended; exit\" TERM; echo ready; while :; do sleep 0.1; done'");
    wait_until("it runs", || shell.stdout(&command) == "ready\n");
    assert_eq!(shell.delete().status, 204);
    let other = Shell::named(&server, &id, "s2");
    assert_eq!(other.run("ls /tmp/ended").2, 0);
    let stubborn = other
        .start("trap '' TERM; bash -c 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'");
    wait_until("it runs", || other.stdout(&stubborn) == "ready\n");
    let begun = Instant::now();
    assert_eq!(other.delete().status, 204);
    assert!(begun.elapsed() > Duration::from_secs(4));
    let last = Shell::named(&server, &id, "s3");
    assert_eq!(last.run("pgrep -c bash").0, "1\n");
}

#[test]
fn idle_shells_keep_no_sandbox_awake_and_a_running_command_does() {
    let server = TestServer::new();
    let (idle, busy) = (server.sandbox(), server.sandbox());
    for id in [&idle, &busy] {
        assert_eq!(Shell::new(&server, id).run("true").2, 0);
        let terminals = format!("/toolbox/{id}/process/pty");
        server.post(&terminals, json!({ "id": "p1" })).ok();
    }
    Shell::again(&server, &busy, "s1").start("sleep 4717");
    let data = server.stop();
    // As if an hour had gone by.
    let store = holm_store::Store::open(&data.path().join("data/holm.db")).unwrap();
    for id in [&idle, &busy] {
        let mut record: SandboxRecord = store.get(id).unwrap().unwrap();
        record.last_activity_at -= 3_600_000;
        record.intervals.stop = 15;
        store.put(&record).unwrap();
    }
    drop(store);
    let server = TestServer::at(data, |config| {
        config.limits.tick = Duration::from_millis(50);
    });
    let state = |id: &str| server.get(&format!("/api/sandbox/{id}")).ok()["state"].clone();
    wait_until("the idle one is stopped", || state(&idle) == "stopped");
    assert_eq!(state(&busy), "started");
}

#[test]
fn sessions_live_on_when_the_server_is_started_again() {
    let server = TestServer::new();
    let id = server.sandbox();
    let (running, queued, left_behind) = {
        let shell = Shell::new(&server, &id);
        shell.run("export A=b");
        let other = Shell::named(&server, &id, "s2");
        let left_behind = other.start("(sleep 2; echo after) & echo before");
        let running =
            shell.start("echo one; sleep 2; touch went-on; seq 100000; read x; echo $x; (exit 5)");
        let queued = shell.start("echo $A > queued; echo queued");
        wait_until("they run", || shell.stdout(&running) == "one\n");
        (running, queued, left_behind)
    };
    let data = server.stop();
    wait_until("it goes on without a server", || {
        let found = std::process::Command::new("find")
            .arg(data.path())
            .args(["-name", "went-on"])
            .output();
        !found.unwrap().stdout.is_empty()
    });
    let server = TestServer::at(data, |_| {});
    let shell = Shell::again(&server, &id, "s1");
    assert_eq!(shell.exit_code(&running), None);
    wait_until("its output goes on", || {
        shell.stdout(&running).ends_with("\n100000\n")
    });
    assert_eq!(shell.input(&running, "typed").status, 204);
    let (stdout, _) = text(heard(shell.follow(&running)));
    assert!(stdout.starts_with("one\n1\n2\n") && stdout.ends_with("typed\ntyped\n"));
    assert_eq!(shell.exit_code(&running), Some(5));
    wait_until("what waited has run", || {
        shell.exit_code(&queued) == Some(0)
    });
    assert_eq!(shell.run("cat queued").0, "b\n");
    let other = Shell::again(&server, &id, "s2");
    wait_until("what was left behind is logged", || {
        other.stdout(&left_behind) == "before\nafter\n"
    });
    assert_eq!(other.run("echo works").0, "works\n");
    assert_eq!(shell.delete().status, 204);
}

#[test]
fn a_stopped_sandbox_has_no_sessions() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell.start("echo begun; sleep 60");
    wait_until("it runs", || shell.stdout(&command) == "begun\n");
    let follower = shell.follow(&command);
    server
        .post(&format!("/api/sandbox/{id}/stop"), json!({}))
        .ok();
    // Whoever follows is not left waiting.
    assert_eq!(text(heard(follower)).0, "begun\n");
    server
        .post(&format!("/api/sandbox/{id}/start"), json!({}))
        .ok();
    let sessions = server.get(&format!("/toolbox/{id}/process/session")).ok();
    assert_eq!(sessions, json!([]));
    assert!(crate::support::is_empty(
        &server.box_directory(&id).join("sessions")
    ));
}
