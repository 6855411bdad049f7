//! `holm snapshot create` that is killed: its row does not stay.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::Value;

use super::skipped_without_root;
use crate::server::{KEY, Serving, data};
use crate::support::{Output, TestEnvironment, names_in, send, wait_until};

/// The state of the snapshot, as the next command sees it.
fn state(listed: &Output) -> Option<String> {
    let listed: Value = listed.json();
    let all = listed.as_array().unwrap();
    let found = all.iter().find(|snapshot| snapshot["name"] == "half")?;
    Some(found["state"].as_str().unwrap().to_owned())
}

/// Makes a snapshot from a registry that never answers, until it is killed in the middle. Looking at it does no harm while it
/// lives.
fn kill_in_the_middle(env: &TestEnvironment) {
    // Connections are made by the kernel, and nobody looks at them.
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/half:1", registry.local_addr().unwrap());
    let create = ["snapshot", "create", "half", "--from-image", &image];
    let mut child = env.holm(create).spawn().unwrap();
    let list = || env.run(["snapshot", "list", "--json"]);
    wait_until("it is being made", || state(&list()).is_some());
    for _ in 0..3 {
        assert_eq!(state(&list()).as_deref(), Some("snapshotting"));
    }
    assert_eq!(names_in(&data(env).join("snapshot-makers")).len(), 1);
    send(&child, Signal::KILL);
    child.wait().unwrap();
}

#[test]
fn the_next_command_removes_it_and_the_name_is_free() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let server = Serving::start(&env, &[]);
    kill_in_the_middle(&env);
    let listed = env.run(["snapshot", "list", "--json"]);
    assert_eq!(state(&listed), None);
    let told = listed.errors();
    assert!(told.contains("half was never finished"), "{told}");
    let quiet = env.run(["snapshot", "list", "--json"]);
    assert_eq!(quiet.errors(), "");
    assert_eq!(names_in(&data(&env).join("snapshot-makers")), [""; 0]);
    let archive = env.path("rootfs.tar");
    std::fs::write(&archive, holm_testkit::tiny_root_archive()).unwrap();
    let archive = archive.to_str().unwrap();
    env.run(["snapshot", "create", "half", "--from-tar", archive])
        .success();
    let listed = env.run(["snapshot", "list", "--json"]);
    assert_eq!(state(&listed).as_deref(), Some("active"));
    server.stop().success();
}

#[test]
fn the_next_start_of_the_server_removes_it() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    Serving::start(&env, &[]).stop().success();
    kill_in_the_middle(&env);
    let server = Serving::start(&env, &[]);
    let shown = server.client().get("/api/snapshots").ok().to_string();
    assert!(shown.contains("daytona-small"), "{shown}");
    assert!(!shown.contains("half"), "{shown}");
    let said = server.stop();
    assert!(said.errors().contains("maker was killed"), "{said}");
    let images = names_in(&data(&env).join("images"));
    assert!(images.iter().all(|name| name == ".lock"), "{images:?}");
}
