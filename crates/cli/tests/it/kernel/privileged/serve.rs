//! A server on disks that are full or cannot be written.

use std::fs;

use rustix::mount::MountFlags;
use serde_json::{Value, json};

use super::{Mounted, skipped_without_root};
use crate::server::{KEY, Serving, data};
use crate::support::{TestEnvironment, names_in};

#[test]
fn a_folder_that_cannot_be_written() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let _disk = Mounted::tmpfs(env.path("data"), "size=1m", MountFlags::RDONLY);
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: could not make folder `[ROOT]/data/server`
      caused by: Read-only file system (os error 30)

    hint: choose a folder that you may write, with `--data`
    ");
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let _disk = Mounted::tmpfs(env.path("data"), "size=24m", MountFlags::empty());
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let made = client.post("/api/sandbox", &json!({ "labels": { "n": "1" } }));
    let id = made.ok()["id"].as_str().unwrap().to_owned();
    client.run(&id, "echo text > file");
    let path = format!("/api/sandbox/{id}");
    // Fills the disk up to its last page.
    let ballast = env.path("data/ballast");
    let _full = fs::write(&ballast, vec![1; 32 << 20]).unwrap_err();
    let labels = client.ask(
        "PUT",
        &format!("{path}/labels"),
        &json!({ "labels": { "n": "2" } }),
    );
    let labels = labels.unwrap();
    let refused = client.post("/api/sandbox", &json!({}));
    assert!(refused.status >= 500, "{refused:?}");
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.contains("No space left") || message.contains("disk is full"),
        "{message}"
    );
    // What is there goes on, and what was acknowledged is known after a crash on the full disk too.
    assert_eq!(client.run(&id, "cat file"), "text");
    server.kill();
    fs::remove_file(&ballast).unwrap();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let found = client.get(&path).ok();
    let expected = if labels.is_ok() { "2" } else { "1" };
    assert_eq!(found["labels"]["n"], expected, "{labels:?}");
    assert_eq!(client.run(&id, "cat file"), "text");
    assert_eq!(
        names_in(&data(&env).join("boxes")),
        std::slice::from_ref(&id)
    );
    let again = client.post("/api/sandbox", &json!({})).ok();
    for id in [&id, again["id"].as_str().unwrap()] {
        client
            .ask("DELETE", &format!("/api/sandbox/{id}"), &Value::Null)
            .unwrap()
            .ok();
    }
    assert_eq!(server.stop().code(), Some(0));
}
