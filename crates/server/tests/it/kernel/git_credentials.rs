//! Names and passwords for remotes: used, and not left behind.

use serde_json::json;

use super::git::{cloned, refused};
use super::inside::Tools;

const PASSWORD: &str = "s3cret-p4ss-w0rd";

/// A remote that asks for a password, on a port of the box.
fn guarded() -> Tools {
    use base64::Engine as _;
    let tools = cloned();
    tools.write("/tmp/remote.py", include_bytes!("git_remote.py"));
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("me:{PASSWORD}"));
    tools.run(&format!(
        "mkdir /tmp/served && mv remote.git /tmp/served/ && git -C /tmp/served/remote.git config http.receivepack true && \
         (python3 /tmp/remote.py 8200 /tmp/served {pair} > /tmp/served/log 2>&1 &)"
    ));
    tools.wait_for("the remote listens", || {
        tools.get("/port/8200/in-use").ok() == json!({ "isInUse": true })
    });
    tools
}

#[test]
fn credentials_are_used_and_leave_no_trace() {
    let tools = guarded();
    let url = "http://127.0.0.1:8200/remote.git";
    refused(
        &tools,
        "clone",
        json!({ "url": url, "path": "x" }),
        "GIT_AUTH_FAILED",
    );
    let wrong = json!({ "url": url, "path": "x", "username": "me", "password": "wr0ng-p4ss" });
    let message = refused(&tools, "clone", wrong, "GIT_AUTH_FAILED");
    assert!(!message.contains("wr0ng"), "{message}");
    let none = json!({ "url": "http://127.0.0.1:8200/none.git", "path": "x", "username": "me", "password": PASSWORD });
    refused(&tools, "clone", none, "GIT_REPO_NOT_FOUND");

    // A helper that the box is set up with must not keep what it hears.
    tools.run("git config --global credential.helper store");
    let clone = json!({ "url": url, "path": "by-name", "username": "me", "password": PASSWORD });
    tools.post("/git/clone", clone).ok();
    let in_url = format!("http://me:{PASSWORD}@127.0.0.1:8200/remote.git");
    tools
        .post("/git/clone", json!({ "url": in_url, "path": "by-url" }))
        .ok();
    assert_eq!(tools.read("by-url/file"), b"one\n");
    tools.run("cd by-name && echo two > two && git add . && git commit -qm two");
    let push = json!({ "path": "by-name", "username": "me", "password": PASSWORD });
    tools.post("/git/push", push).ok();
    refused(
        &tools,
        "push",
        json!({ "path": "by-name" }),
        "GIT_AUTH_FAILED",
    );
    let pull = json!({ "path": "by-url", "username": "me", "password": PASSWORD });
    tools.post("/git/pull", pull).ok();
    assert_eq!(tools.read("by-url/two"), b"two\n");

    // Neither in a file, nor in what the box could see of its processes meanwhile.
    let found = tools.run(&format!(
        "grep -rlE '{PASSWORD}|wr0ng-p4ss' /home /tmp /var/tmp 2>/dev/null || true"
    ));
    assert_eq!(found, "");
    let seen = String::from_utf8_lossy(&tools.read("/tmp/served/processes")).into_owned();
    assert!(seen.contains("clone") && seen.contains("push"), "{seen}");
    assert!(!seen.contains(PASSWORD));
    assert_eq!(tools.run("git -C by-url remote get-url origin").trim(), url);
}

/// A remote that sends git to another host does not get the password there.
#[test]
fn credentials_do_not_follow_a_redirection() {
    let tools = guarded();
    tools.run("rm -f /tmp/served/shown");
    let request = json!({
        "url": "http://127.0.0.1:8200/elsewhere/remote.git", "path": "x", "username": "me", "password": PASSWORD,
    });
    refused(&tools, "clone", request, "GIT_AUTH_FAILED");
    let shown = String::from_utf8(tools.read("/tmp/served/shown")).unwrap();
    assert!(shown.contains("localhost:8200 None"), "{shown}");
    assert!(
        !shown
            .lines()
            .any(|line| line.starts_with("localhost") && line.contains("Basic bWU6")),
        "{shown}"
    );
}

#[test]
fn credentials_that_are_to_be_kept_are_kept() {
    let tools = guarded();
    let request = json!({ "username": "me", "password": PASSWORD, "host": "127.0.0.1:8200", "protocol": "http" });
    tools.post("/git/credentials", request).ok();
    let clone = json!({ "url": "http://127.0.0.1:8200/remote.git", "path": "kept" });
    tools.post("/git/clone", clone).ok();
    assert!(tools.run("cat ~/.git-credentials").contains(PASSWORD));
    assert_eq!(
        tools.get("/files/info?path=.git-credentials").ok()["permissions"],
        "0600"
    );
    let injected = json!({ "username": "me\nhost=evil", "password": "x" });
    refused(&tools, "credentials", injected, "BAD_REQUEST");
}
