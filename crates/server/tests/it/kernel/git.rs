//! Git in a sandbox, against real repositories.

use reqwest::Method;
use serde_json::{Value, json};

use super::inside::Tools;

/// A sandbox with a bare repository `remote.git` of one commit on `main`, and a clone of it in `work`.
pub(super) fn cloned() -> Tools {
    let tools = Tools::new();
    tools.run(
        "git config --global user.name Me && git config --global user.email me@example.com && \
         git init -q --bare -b main remote.git && git init -q -b main seed && cd seed && echo one > file && git add . && \
         git commit -qm first && git push -q ../remote.git main",
    );
    let request = json!({ "url": "/home/daytona/remote.git", "path": "work" });
    tools.post("/git/clone", request).ok();
    tools
}

#[track_caller]
pub(super) fn refused(tools: &Tools, operation: &str, body: Value, code: &str) -> String {
    let answer = tools.post(&format!("/git/{operation}"), body);
    assert_eq!(answer.body["code"], code, "{answer:?}");
    answer.body["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_change_goes_from_a_clone_to_its_remote_and_back() {
    let tools = cloned();
    let clean = tools.get("/git/status?path=work").ok();
    assert_eq!(
        clean,
        json!({
            "currentBranch": "main", "fileStatus": [], "ahead": 0, "behind": 0, "branchPublished": true,
            "detached": false, "upstream": "origin/main",
        })
    );
    tools.write("work/file", b"two");
    tools.write("work/new file", b"x");
    let status = tools.get("/git/status?path=work").ok();
    assert_eq!(
        status["fileStatus"],
        json!([
            { "name": "file", "staging": "Unmodified", "worktree": "Modified", "extra": "" },
            { "name": "new file", "staging": "Untracked", "worktree": "Untracked", "extra": "" },
        ])
    );
    let empty = json!({ "path": "work", "message": "m", "author": "A", "email": "a@b" });
    let message = refused(&tools, "commit", empty.clone(), "BAD_REQUEST");
    assert!(message.contains("no changes added"), "{message}");
    tools
        .post("/git/add", json!({ "path": "work", "files": ["."] }))
        .ok();
    let request = json!({ "path": "work", "message": "second\n\n# not a comment", "author": "Ada", "email": "ada@b" });
    let hash = tools.post("/git/commit", request).ok()["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(hash.len(), 40);
    let mut allowed = empty;
    allowed["allow_empty"] = json!(true);
    tools.post("/git/commit", allowed).ok();
    assert_eq!(tools.get("/git/status?path=work").ok()["ahead"], 2);
    let history = tools.get("/git/history?path=work").ok();
    assert_eq!(history.as_array().unwrap().len(), 3);
    assert_eq!(history[1]["hash"], hash.as_str());
    assert_eq!(history[1]["author"], "Ada");
    assert_eq!(history[1]["message"], "second\n\n# not a comment");
    assert!(history[1]["timestamp"].as_str().unwrap().contains('T'));
    tools.post("/git/push", json!({ "path": "work" })).ok();
    assert_eq!(
        tools
            .run("git -C remote.git log --format=%s main")
            .lines()
            .count(),
        3
    );

    // A second clone sees it, and its own change comes back.
    let request = json!({ "url": "remote.git", "path": "other", "branch": "main", "depth": 1 });
    tools.post("/git/clone", request).ok();
    tools.run("cd other && echo three > third && git add . && git commit -qm third && git push -q origin main");
    tools.post("/git/pull", json!({ "path": "work" })).ok();
    assert_eq!(tools.read("work/third"), b"three\n");
    let request = json!({ "url": "remote.git", "path": "at", "commit_id": hash });
    tools.post("/git/clone", request).ok();
    let at = tools.get("/git/status?path=at").ok();
    assert_eq!(at["detached"], true);
    assert_eq!(tools.run("git -C at rev-parse HEAD").trim(), hash);
}

#[test]
fn branches_are_made_listed_left_and_removed() {
    let tools = cloned();
    let branch = |name: &str| json!({ "path": "work", "name": name });
    assert_eq!(tools.post("/git/branches", branch("feature/a")).status, 201);
    let listed = tools.get("/git/branches?path=work").ok();
    assert_eq!(
        listed,
        json!({ "branches": ["feature/a", "main"], "current": "feature/a" })
    );
    refused(&tools, "branches", branch("main"), "GIT_BRANCH_EXISTS");
    assert_eq!(
        tools.get("/git/status?path=work").ok()["branchPublished"],
        false
    );
    // A new branch needs no upstream to be pushed.
    tools.post("/git/push", json!({ "path": "work" })).ok();
    assert_eq!(
        tools.get("/git/status?path=work").ok()["branchPublished"],
        true
    );
    let push =
        json!({ "path": "work", "branch": "feature/a", "remote": "origin", "set_upstream": true });
    tools.post("/git/push", push).ok();
    assert_eq!(
        tools.get("/git/status?path=work").ok()["upstream"],
        "origin/feature/a"
    );

    tools
        .post("/git/checkout", json!({ "path": "work", "branch": "main" }))
        .ok();
    refused(
        &tools,
        "checkout",
        json!({ "path": "work", "branch": "none" }),
        "GIT_BRANCH_NOT_FOUND",
    );
    let delete = |name: &str| {
        let path = tools.path("/git/branches");
        tools
            .server
            .ask_as(&tools.server.key, Method::DELETE, &path, Some(branch(name)))
    };
    assert_eq!(delete("feature/a").status, 204);
    let gone = delete("feature/a");
    assert_eq!(gone.body["code"], "GIT_BRANCH_NOT_FOUND", "{gone:?}");
    assert!(!delete("main").status.is_success(), "it is checked out");
}

#[test]
fn failures_have_codes_that_clients_know() {
    let tools = cloned();
    tools.get("/git/status?path=none").refused(404);
    let none = tools.get("/git/status?path=/tmp");
    assert_eq!(none.body["code"], "GIT_REPO_NOT_FOUND");
    refused(
        &tools,
        "clone",
        json!({ "url": "/none", "path": "x" }),
        "GIT_REPO_NOT_FOUND",
    );
    refused(
        &tools,
        "clone",
        json!({ "url": "remote.git", "path": "x", "branch": "none" }),
        "GIT_BRANCH_NOT_FOUND",
    );
    refused(
        &tools,
        "clone",
        json!({ "url": "remote.git", "path": "work" }),
        "CONFLICT",
    );
    refused(
        &tools,
        "clone",
        json!({ "url": "http://127.0.0.1:1/x", "path": "x" }),
        "GIT_TRANSPORT_FAILED",
    );
    refused(
        &tools,
        "clone",
        json!({ "url": "remote.git", "path": "/etc/x" }),
        "FILE_ACCESS_DENIED",
    );
    tools.get("/files/info?path=x").refused(404);

    tools
        .post(
            "/git/clone",
            json!({ "url": "remote.git", "path": "other" }),
        )
        .ok();
    tools.run("cd other && echo theirs > file && git commit -qam theirs && git push -q");
    tools.run("cd work && echo ours > file && git commit -qam ours");
    let push = json!({ "path": "work" });
    refused(&tools, "push", push.clone(), "GIT_PUSH_REJECTED");
    refused(&tools, "pull", push, "GIT_MERGE_CONFLICT");
    let conflict = tools.get("/git/status?path=work").ok();
    assert_eq!(
        conflict["fileStatus"][0]["worktree"],
        "Updated but unmerged"
    );
    tools
        .post(
            "/git/reset",
            json!({ "path": "work", "mode": "hard", "target": "HEAD" }),
        )
        .ok();
    tools.run("cd work && git branch -q side HEAD~1 && echo dirty > file");
    refused(
        &tools,
        "checkout",
        json!({ "path": "work", "branch": "side" }),
        "GIT_DIRTY_WORKTREE",
    );
    tools.run("printf '#!/bin/sh\\nexit 1\\n' > remote.git/hooks/pre-receive; chmod +x remote.git/hooks/pre-receive");
    let push = json!({ "path": "work", "branch": "side" });
    refused(&tools, "push", push, "GIT_REMOTE_REJECTED");
}

#[test]
fn files_are_reset_and_restored() {
    let tools = cloned();
    tools.write("work/file", b"two");
    tools
        .post("/git/add", json!({ "path": "work", "files": ["file"] }))
        .ok();
    let staging = || tools.get("/git/status?path=work").ok()["fileStatus"][0]["staging"].clone();
    assert_eq!(staging(), "Modified");
    tools
        .post("/git/reset", json!({ "path": "work", "files": ["file"] }))
        .ok();
    assert_eq!(staging(), "Unmodified");
    tools
        .post("/git/add", json!({ "path": "work", "files": ["file"] }))
        .ok();
    tools
        .post(
            "/git/restore",
            json!({ "path": "work", "files": ["file"], "staged": true }),
        )
        .ok();
    assert_eq!(staging(), "Unmodified");
    tools
        .post("/git/restore", json!({ "path": "work", "files": ["file"] }))
        .ok();
    assert_eq!(tools.read("work/file"), b"one\n");
    refused(
        &tools,
        "reset",
        json!({ "path": "work", "mode": "odd" }),
        "BAD_REQUEST",
    );
    refused(
        &tools,
        "restore",
        json!({ "path": "work", "files": ["none"] }),
        "BAD_REQUEST",
    );
}

#[test]
fn repositories_remotes_and_settings_are_made() {
    let tools = Tools::new();
    let init = json!({ "path": "new", "initial_branch": "trunk" });
    assert_eq!(tools.post("/git/init", init).status, 201);
    assert_eq!(
        tools.get("/git/status?path=new").ok()["currentBranch"],
        "trunk"
    );
    assert_eq!(tools.get("/git/history?path=new").ok(), json!([]));
    tools
        .post("/git/init", json!({ "path": "bare.git", "bare": true }))
        .ok();
    let remote = |url: &str, overwrite: bool| json!({ "path": "new", "name": "origin", "url": url, "overwrite": overwrite });
    assert_eq!(
        tools
            .post("/git/remotes", remote("../bare.git", false))
            .status,
        201
    );
    refused(&tools, "remotes", remote("x", false), "CONFLICT");
    tools
        .post("/git/remotes", remote("/home/daytona/bare.git", true))
        .ok();
    let listed = tools.get("/git/remotes?path=new").ok();
    assert_eq!(
        listed,
        json!({ "remotes": [{ "name": "origin", "url": "/home/daytona/bare.git" }] })
    );
    let fetched = json!({ "path": "new", "name": "second", "url": "../none", "fetch": true });
    refused(&tools, "remotes", fetched, "GIT_REPO_NOT_FOUND");

    let get = |query: &str| tools.get(&format!("/git/config?{query}")).ok();
    assert_eq!(get("key=user.name"), json!({}));
    tools
        .post(
            "/git/config/user",
            json!({ "name": "Me", "email": "-me@x" }),
        )
        .ok();
    assert_eq!(get("key=user.name"), json!({ "value": "Me" }));
    assert_eq!(get("key=user.email"), json!({ "value": "-me@x" }));
    let local = json!({ "key": "core.x", "value": "line\nline", "scope": "local", "path": "new" });
    tools.post("/git/config", local).ok();
    assert_eq!(
        get("key=core.x&scope=local&path=new"),
        json!({ "value": "line\nline" })
    );
    refused(
        &tools,
        "config",
        json!({ "key": "a.b", "value": "x", "scope": "local" }),
        "BAD_REQUEST",
    );
    refused(
        &tools,
        "config",
        json!({ "key": "a.b", "value": "x", "scope": "odd" }),
        "BAD_REQUEST",
    );
    refused(
        &tools,
        "config",
        json!({ "key": "--file=/x", "value": "x" }),
        "BAD_REQUEST",
    );
    let system = tools.post(
        "/git/config",
        json!({ "key": "a.b", "value": "x", "scope": "system" }),
    );
    assert_eq!(system.status, 403, "{system:?}");
}

/// Nothing that a client names becomes an option or a command.
#[test]
fn names_are_names() {
    let tools = cloned();
    let marked = "sh -c 'touch /tmp/marked'";
    for (operation, body) in [
        (
            "clone",
            json!({ "url": format!("ext::{marked}"), "path": "x" }),
        ),
        (
            "clone",
            json!({ "url": format!("--upload-pack={marked}"), "path": "x" }),
        ),
        (
            "clone",
            json!({ "url": "remote.git", "path": "x", "branch": format!("--upload-pack={marked}") }),
        ),
        (
            "clone",
            json!({ "url": "remote.git", "path": "x", "commit_id": format!("--upload-pack={marked}") }),
        ),
        (
            "clone",
            json!({ "url": "ssh://-oProxyCommand=touch%20/tmp/marked/x", "path": "x" }),
        ),
        ("checkout", json!({ "path": "work", "branch": "--detach" })),
        ("branches", json!({ "path": "work", "name": "--orphan" })),
        (
            "push",
            json!({ "path": "work", "remote": format!("--receive-pack={marked}") }),
        ),
        ("push", json!({ "path": "work", "branch": "--all" })),
        (
            "push",
            json!({ "path": "work", "remote": format!("ext::{marked}") }),
        ),
        (
            "pull",
            json!({ "path": "work", "remote": format!("--upload-pack={marked}") }),
        ),
        (
            "pull",
            json!({ "path": "work", "branch": format!("--upload-pack={marked}") }),
        ),
        (
            "remotes",
            json!({ "path": "work", "name": "--mirror=fetch", "url": "x" }),
        ),
        (
            "remotes",
            json!({ "path": "work", "name": "evil", "url": format!("ext::{marked}"), "fetch": true }),
        ),
        ("reset", json!({ "path": "work", "target": "--hard" })),
        (
            "restore",
            json!({ "path": "work", "files": ["file"], "source": "--staged" }),
        ),
        ("config", json!({ "key": "--global", "value": "x" })),
        ("add", json!({ "path": "work", "files": [] })),
        ("add", json!({ "path": "", "files": ["."] })),
    ] {
        let answer = tools.post(&format!("/git/{operation}"), body.clone());
        assert!(
            answer.status.is_client_error(),
            "{operation} {body}: {answer:?}"
        );
    }
    tools.get("/files/info?path=/tmp/marked").refused(404);
    // A folder and a file that look like options are just that.
    tools.run("mkdir ./-x && cd ./-x && git init -q . && touch -- --all");
    tools
        .post("/git/add", json!({ "path": "-x", "files": ["--all"] }))
        .ok();
    assert_eq!(
        tools.get("/git/status?path=-x").ok()["fileStatus"][0]["name"],
        "--all"
    );
}
