//! Images that have little: no bash, no home, no shell at all; and what they say about themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::images::add_snapshot;
use super::shell::Shell;
use super::sockets::Socket;
use crate::support::{TestServer, wait_until};

/// A server with a snapshot `tiny` of a tree that was changed first.
fn server_with(change: impl FnOnce(&Path)) -> TestServer {
    let server = TestServer::new();
    let root = server.data.path().join("tiny");
    holm_testkit::tiny_root(&root);
    change(&root);
    let archive = server.data.path().join("tiny.tar");
    let packed = Command::new("tar")
        .args(["--owner=0", "--group=0", "-C"])
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    add_snapshot(&server, "tiny", &archive);
    server
}

#[test]
fn sessions_work_with_sh_alone() {
    let server = server_with(|_| {});
    let id = server.sandbox_from(json!({ "snapshot": "tiny", "user": "app" }));
    let (code, _) = server.execute(&id, "bash -c true");
    assert_eq!(code, 127);
    assert_eq!(server.run(&id, "echo $SHELL $HOME"), "/bin/sh /home/app");
    let shell = Shell::new(&server, &id);
    // The shell's state stays, its outputs are apart, and mistakes do not end it.
    assert_eq!(shell.run("cd /tmp; A=b; f() { echo $A; }").2, 0);
    let ran = shell.run("pwd; f; echo wrong >&2; (exit 7)");
    assert_eq!(ran, ("/tmp\nb\n".into(), "wrong\n".into(), 7));
    let (_, said, code) = shell.run("if then; fi (");
    assert!(code != 0 && !said.is_empty(), "{said}");
    assert_eq!(shell.run("no-such-command").2, 127);
    assert_eq!(shell.run("f").0, "b\n");
    let apart = json!({ "command": "pwd; echo $B", "cwd": "/etc", "envs": { "B": "c d" } });
    assert_eq!(shell.exec(apart).ok()["stdout"], "/etc\nc d\n");
    assert_eq!(shell.run("pwd; echo [$B]").0, "/tmp\n[]\n");
    // Input, a timeout, and a follower.
    let reading = shell.start("read line; echo got $line");
    assert_eq!(shell.input(&reading, "typed\n").status, 204);
    wait_until("it has read", || {
        shell.stdout(&reading).contains("got typed")
    });
    let late = shell.exec(json!({ "command": "echo begun; sleep 1000", "timeout": 1 }));
    assert_eq!(late.ok()["stdout"], "begun\n");
    assert_eq!(shell.run("f").0, "b\n");
    let path = format!("/toolbox/{id}/process/pty/create-connect?id=p1");
    let mut terminal = Socket::open(&server, &path, &[]).unwrap();
    terminal.send("echo from-the-'terminal'; exit 4\n".into());
    let (messages, _) = terminal.rest();
    let screen: Vec<u8> = messages
        .into_iter()
        .flat_map(|message| message.into_data().to_vec())
        .collect();
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(screen.contains("from-the-terminal"), "{screen}");
}

#[test]
fn without_any_shell_it_is_said_what_is_missing() {
    let server = server_with(|root| fs::remove_file(root.join("bin/sh")).unwrap());
    let id = server.sandbox_from(json!({ "snapshot": "tiny" }));
    let sessions = format!("/toolbox/{id}/process/session");
    let said = server
        .post(&sessions, json!({ "sessionId": "s1" }))
        .refused(422);
    assert!(said.contains("neither `bash` nor `sh`"), "{said}");
    // The name is free again.
    assert_eq!(server.get(&sessions).ok(), json!([]));
    let (code, said) = server.execute(&id, "true");
    assert_eq!(code, -1);
    assert!(said.contains("`sh`"), "{said}");
    let path = format!("/toolbox/{id}/process/pty");
    let said = server.post(&path, json!({ "id": "p1" })).refused(422);
    assert!(said.contains("neither `bash` nor `sh`"), "{said}");
}

#[test]
fn a_user_without_a_home_begins_at_the_root() {
    let server = server_with(|root| {
        fs::remove_dir(root.join("home/app")).unwrap();
    });
    let id = server.sandbox_from(json!({ "snapshot": "tiny", "user": "app" }));
    assert_eq!(server.run(&id, "pwd; id -u"), "/\n1000");
    let dir = server.get(&format!("/toolbox/{id}/work-dir")).ok();
    assert_eq!(dir["dir"], "/");
    assert_eq!(Shell::new(&server, &id).run("pwd").0, "/\n");
}
