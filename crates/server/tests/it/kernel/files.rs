//! Files of a sandbox: what is where, made, moved, changed and removed.

use reqwest::Method;
use serde_json::{Value, json};

use super::inside::Tools;

#[test]
fn folders_and_files_are_made_listed_moved_and_removed() {
    let tools = Tools::new();
    assert_eq!(
        tools
            .post("/files/folder?path=a/b&mode=700", json!({}))
            .status,
        201
    );
    // Making it again changes nothing.
    assert_eq!(
        tools
            .post("/files/folder?path=a/b/&mode=755", json!({}))
            .status,
        201
    );
    tools.write("a/b/one.txt", b"one");
    tools.write("a/two.txt", b"two!");

    let listed = tools.get("/files?path=a").ok();
    assert_eq!(
        names(&listed),
        ["/home/daytona/a/b", "/home/daytona/a/two.txt"]
    );
    let folder = &listed[0];
    assert_eq!(
        (
            &folder["name"],
            &folder["isDir"],
            &folder["mode"],
            &folder["permissions"]
        ),
        (
            &json!("b"),
            &json!(true),
            &json!("drwx------"),
            &json!("0700")
        )
    );
    let deep = tools.get("/files?path=a&depth=2").ok();
    assert_eq!(
        names(&deep),
        [
            "/home/daytona/a/b",
            "/home/daytona/a/b/one.txt",
            "/home/daytona/a/two.txt"
        ]
    );
    let info = tools.get("/files/info?path=~/a/two.txt").ok();
    assert_eq!(info["size"], 4);
    assert_eq!(info["owner"], "1000");
    assert_eq!(info["group"], "1000");
    assert_eq!(info["mode"], "-rw-r--r--");
    assert_eq!(tools.get("/files/info?path=/").ok()["isDir"], true);

    tools
        .post(
            "/files/move?source=a/two.txt&destination=a/three.txt",
            json!({}),
        )
        .ok();
    let taken = tools.post("/files/move?source=a/three.txt&destination=a/b", json!({}));
    assert!(taken.refused(409).contains("`a/b` already exists"));
    let missing = tools.post("/files/move?source=a/none&destination=a/x", json!({}));
    assert!(missing.refused(404).contains("a/none"));

    let refused = tools.delete("/files?path=a").refused(400);
    assert!(refused.contains("recursive=true"), "{refused}");
    assert_eq!(tools.delete("/files?path=a/three.txt").status, 204);
    assert_eq!(tools.delete("/files?path=a/&recursive=true").status, 204);
    let gone = tools.get("/files/info?path=a");
    assert_eq!(gone.body["code"], "FILE_NOT_FOUND");
    gone.refused(404);
    tools.delete("/files?path=a").refused(404);
    // The work directory is what is listed when nothing is said.
    assert!(tools.get("/files").ok().is_array());
}

fn names(listed: &Value) -> Vec<&str> {
    let entries = listed.as_array().unwrap().iter();
    entries
        .map(|entry| entry["path"].as_str().unwrap())
        .collect()
}

/// `/tmp` is another file system than the home, and the folder has content.
#[test]
fn a_folder_moves_to_another_file_system() {
    let tools = Tools::new();
    tools.write("folder/file", b"content");
    tools
        .post(
            "/files/move?source=folder&destination=/tmp/moved",
            json!({}),
        )
        .ok();
    assert_eq!(tools.read("/tmp/moved/file"), b"content");
    tools.get("/files/info?path=folder").refused(404);
    tools.write("again", b"x");
    let taken = tools.post("/files/move?source=again&destination=/tmp/moved", json!({}));
    taken.refused(409);
    assert_eq!(tools.read("again"), b"x");
}

#[test]
fn content_and_names_are_found() {
    let tools = Tools::new();
    tools.write("src/a.py", b"import os\n\n# NOTE: later\n");
    tools.write("src/deep/b.py", b"# NOTE: sooner");
    tools.write("src/binary", b"NOTE\0");
    let found = tools.get("/files/find?path=src&pattern=NOTE:").ok();
    assert_eq!(
        found,
        json!([
            { "file": "src/a.py", "line": 3, "content": "# NOTE: later" },
            { "file": "src/deep/b.py", "line": 1, "content": "# NOTE: sooner" },
        ])
    );
    // A text, not a pattern.
    assert_eq!(
        tools.get("/files/find?path=src&pattern=N.TE").ok(),
        json!([])
    );
    let one = tools.get("/files/find?path=src/a.py&pattern=import").ok();
    assert_eq!(one[0]["line"], 1);
    let found = tools.get("/files/search?path=src&pattern=*.py").ok();
    assert_eq!(found, json!({ "files": ["src/a.py", "src/deep/b.py"] }));
    tools.get("/files/search?path=src&pattern=[").refused(400);
    tools.get("/files/find?path=none&pattern=x").refused(404);
    tools.get("/files/find?path=src").refused(400);

    let files = json!(["src/a.py", "src/none", "src/deep/b.py"]);
    let request = json!({ "files": files, "pattern": "NOTE", "newValue": "DONE" });
    let replaced = tools.post("/files/replace", request).ok();
    assert_eq!(replaced[0], json!({ "file": "src/a.py", "success": true }));
    assert_eq!(replaced[1]["success"], false);
    assert!(replaced[1]["error"].as_str().unwrap().contains("src/none"));
    assert_eq!(tools.read("src/a.py"), b"import os\n\n# DONE: later\n");
}

#[test]
fn modes_and_owners_are_set_as_far_as_the_user_may() {
    let tools = Tools::new();
    tools.write("file", b"x");
    tools
        .post(
            "/files/permissions?path=file&mode=0750&owner=daytona&group=1000",
            json!({}),
        )
        .ok();
    assert_eq!(
        tools.get("/files/info?path=file").ok()["permissions"],
        "0750"
    );
    let denied = tools.post("/files/permissions?path=file&owner=root", json!({}));
    assert_eq!(denied.body["code"], "FILE_ACCESS_DENIED");
    denied.refused(403);
    tools
        .post(
            "/files/permissions?path=file&owner=nobody-of-that-name",
            json!({}),
        )
        .refused(400);
    tools
        .post("/files/permissions?path=file&mode=4755", json!({}))
        .refused(400);
    tools
        .post("/files/permissions?path=file", json!({}))
        .refused(400);
    tools
        .post("/files/permissions?path=/etc/passwd&mode=777", json!({}))
        .refused(403);
}

/// What the box's user may not do, the toolbox does not do for it.
#[test]
fn the_toolbox_has_no_more_rights_than_the_user() {
    let tools = Tools::new();
    for path in ["/etc/passwd", "/usr/bin/env", "/etc/new", "/new"] {
        let answer = tools.upload(path, b"x");
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        assert_eq!(answer.body["code"], "FILE_ACCESS_DENIED");
    }
    tools.delete("/files?path=/etc/passwd").refused(403);
    tools.delete("/files?path=/usr&recursive=true").refused(403);
    tools
        .post(
            "/files/move?source=/etc/passwd&destination=/home/daytona/p",
            json!({}),
        )
        .refused(403);
    tools.get("/files/info?path=p").refused(404);
    tools
        .post("/files/folder?path=/usr/x&mode=755", json!({}))
        .refused(403);
    // Files of the host that ordinary users may not read stay unread.
    let shadow = tools.download("/etc/shadow");
    assert!([403, 404].contains(&shadow.0), "{shadow:?}");
}

/// Links that the box plants lead to its own root, not to the host's.
#[test]
fn planted_links_lead_nowhere_else() {
    let tools = Tools::new();
    let secret = tools.server.data.path().join("secret");
    std::fs::write(&secret, "of the host").unwrap();
    let data = tools.server.data.path().display().to_string();
    tools.run(&format!(
        "ln -s {data}/secret file; ln -s {data} folder; ln -s ../../../../../../../../{data} up; ln -s /proc/1/root root; ln -s loop loop; ln -s /etc/shadow shadow"
    ));
    for path in [
        "file",
        "folder/secret",
        "up/secret",
        "root/etc/hostname",
        "loop",
        "shadow",
        "/../../..{}/secret",
    ] {
        let (status, body) = tools.download(path);
        assert!([400, 403, 404].contains(&status), "{path}: {status}");
        assert!(
            !String::from_utf8_lossy(&body).contains("of the host"),
            "{path}"
        );
        let list = tools.get(&format!("/files?path={path}"));
        assert!(!list.status.is_success(), "{path}: {list:?}");
        let found = tools.get(&format!("/files/find?path={path}&pattern=host"));
        assert!(!found.status.is_success(), "{path}: {found:?}");
    }
    for path in ["folder/new", "up/new", "root/tmp/new"] {
        tools.upload(path, b"x");
        tools.post(
            &format!("/files/folder?path={path}-dir&mode=755"),
            json!({}),
        );
        tools.delete(&format!("/files?path={path}&recursive=true"));
    }
    tools.delete("/files?path=folder&recursive=true").ok();
    tools.upload("file", b"mine").ok();
    assert_eq!(tools.read("file"), b"mine");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of the host");
    let left: Vec<_> = std::fs::read_dir(tools.server.data.path())
        .unwrap()
        .collect();
    assert_eq!(left.len(), 2, "the data folder and the secret: {left:?}");
}

/// None of these may hang, or be sent without end.
#[test]
fn what_is_not_a_stored_file_is_refused_at_once() {
    let tools = Tools::new();
    tools.run("mkfifo fifo; mkdir dir; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; ln -s /dev/zero zero");
    for (path, status, code) in [
        ("fifo", 400, "INVALID_FILE_PATH"),
        ("dir", 400, "INVALID_FILE_PATH"),
        ("sock", 400, "INVALID_FILE_PATH"),
        ("zero", 400, "INVALID_FILE_PATH"),
        ("/dev/zero", 400, "INVALID_FILE_PATH"),
        ("/proc/1/environ", 403, "FILE_ACCESS_DENIED"),
        // The toolbox is no process of the box: `self` is nobody there.
        ("/proc/self/environ", 404, "FILE_NOT_FOUND"),
        ("/proc/self/root/etc/hostname", 404, "FILE_NOT_FOUND"),
        ("/proc/meminfo", 403, "FILE_ACCESS_DENIED"),
        ("%00", 400, "INVALID_FILE_PATH"),
        ("a%00b", 400, "INVALID_FILE_PATH"),
        ("%ff", 404, "FILE_NOT_FOUND"),
        ("none", 404, "FILE_NOT_FOUND"),
        ("dir/", 400, "INVALID_FILE_PATH"),
    ] {
        let (found, body) = tools.download(path);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (found, body["code"].as_str()),
            (status, Some(code)),
            "{path}: {body}"
        );
    }
    let long = "x".repeat(5_000);
    assert_eq!(tools.download(&long).0, 400);
    let (status, _) = tools.download(&"x".repeat(300));
    assert!([400, 404].contains(&status), "{status}");
    // Named pipes are passed over by searches.
    assert_eq!(tools.get("/files/find?path=.&pattern=x").ok(), json!([]));
    let request = json!({ "files": ["fifo", "/proc/1/environ"], "pattern": "a", "newValue": "b" });
    let replaced = tools.post("/files/replace", request).ok();
    assert_eq!(
        (&replaced[0]["success"], &replaced[1]["success"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn strangers_are_not_let_in() {
    let tools = Tools::new();
    let other = tools.server.key_of("other");
    for (method, path) in [
        (Method::GET, "/files?path=."),
        (Method::GET, "/files/download?path=x"),
        (Method::POST, "/files/upload-v2?path=x"),
        (Method::POST, "/files/bulk-upload"),
        (Method::POST, "/files/bulk-download"),
        (Method::DELETE, "/files?path=x"),
        (Method::POST, "/git/clone"),
        (Method::GET, "/git/status?path=x"),
        (Method::POST, "/lsp/start"),
        (Method::GET, "/system/metrics"),
        (Method::POST, "/env"),
        (Method::GET, "/port"),
        (Method::GET, "/computeruse/status"),
    ] {
        let path = tools.path(path);
        let ask = |key: &str| tools.server.ask_as(key, method.clone(), &path, None);
        assert_eq!(ask(&other).status, 404, "{path}");
        assert_eq!(ask("wrong").status, 401, "{path}");
    }
}
