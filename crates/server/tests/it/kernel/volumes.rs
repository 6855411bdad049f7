//! Volumes: shared between sandboxes, and no way out of them.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{TestServer, is_empty, wait_until};

fn volume(server: &TestServer, name: &str) -> String {
    let made = server.post("/api/volumes", json!({ "name": name })).ok();
    assert_eq!(made["state"], "ready");
    made["id"].as_str().unwrap().to_owned()
}

fn mounting(volume: &str, place: &str, part: Option<&str>) -> Value {
    json!({ "volumes": [{ "volumeId": volume, "mountPath": place, "subpath": part }] })
}

#[test]
fn two_sandboxes_share_a_volume_that_outlives_them() {
    let server = TestServer::new();
    let id = volume(&server, "shared");
    let first = server.sandbox_from(mounting(&id, "/home/daytona/data", None));
    // By its name, and elsewhere.
    let second = server.sandbox_from(mounting("shared", "/mnt/data", None));
    server.run(&first, "echo hello > data/file");
    assert_eq!(server.run(&second, "cat /mnt/data/file"), "hello");
    server.run(&second, "rm /mnt/data/file; mkdir /mnt/data/folder");
    assert_eq!(server.run(&first, "ls data"), "folder");

    let path = format!("/api/volumes/{id}");
    let refused = server.delete(&path).refused(409);
    assert!(refused.contains("in use by sandbox"), "{refused}");
    for sandbox in [&first, &second] {
        server.delete(&format!("/api/sandbox/{sandbox}")).ok();
    }
    let third = server.sandbox_from(mounting(&id, "/mnt/data", None));
    assert_eq!(server.run(&third, "ls /mnt/data"), "folder");
    server.delete(&format!("/api/sandbox/{third}")).ok();
    server.delete(&path).ok();
    server.get(&path).refused(404);
    wait_until("its files are gone", || {
        is_empty(&server.data.path().join("data/volumes"))
    });
}

#[test]
fn a_part_of_a_volume_is_all_that_is_seen() {
    let server = TestServer::new();
    let id = volume(&server, "parts");
    let part = server.sandbox_from(mounting(&id, "/mnt/part", Some("a/b")));
    let whole = server.sandbox_from(mounting(&id, "/mnt/whole", None));
    server.run(&part, "echo inner > /mnt/part/file");
    server.run(&whole, "echo outer > /mnt/whole/file");
    assert_eq!(server.run(&whole, "cat /mnt/whole/a/b/file"), "inner");
    assert_eq!(
        server.run(
            &part,
            "ls /mnt/part; cat /mnt/part/../file 2>&1 | grep -c outer; true"
        ),
        "file\n0"
    );
}

#[test]
fn a_link_in_a_volume_leads_nowhere_outside() {
    let server = TestServer::new();
    let secret = server.data.path().join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("file"), "of the host").unwrap();
    let id = volume(&server, "trap");
    let planter = server.sandbox_from(mounting(&id, "/mnt/v", None));
    let host = secret.to_str().unwrap();
    server.run(&planter, &format!("ln -s {host} /mnt/v/absolute; ln -s ../../secret /mnt/v/up; ln -s / /mnt/v/root; echo x > /mnt/v/plain"));
    for part in ["absolute", "up", "root/etc", "absolute/deeper", "plain"] {
        let request = mounting(&id, "/mnt/part", Some(part));
        let answer = server.post("/api/sandbox", request);
        let refused = answer.refused(400);
        assert!(refused.contains("`/mnt/part`"), "{part}: {refused}");
    }
    // Also one that was planted on the host's side leads nowhere.
    symlink(
        &secret,
        server
            .data
            .path()
            .join("data/volumes")
            .join(&id)
            .join("planted"),
    )
    .unwrap();
    server
        .post("/api/sandbox", mounting(&id, "/mnt/part", Some("planted")))
        .refused(400);
    assert_eq!(
        std::fs::read_to_string(secret.join("file")).unwrap(),
        "of the host"
    );
    assert_eq!(std::fs::read_dir(&secret).unwrap().count(), 1);
    // What was refused left nothing.
    let boxes = server.data.path().join("data/boxes");
    assert_eq!(std::fs::read_dir(boxes).unwrap().count(), 1);
}

#[test]
fn volumes_are_named_once_and_listed() {
    let server = TestServer::new();
    let id = volume(&server, "one");
    let refused = server
        .post("/api/volumes", json!({ "name": "one" }))
        .refused(409);
    assert_eq!(refused, "Volume with name one already exists");
    let folders = server.data.path().join("data/volumes");
    assert_eq!(std::fs::read_dir(folders).unwrap().count(), 1);
    assert_eq!(server.get("/api/volumes/by-name/one").ok()["id"], json!(id));
    server.get("/api/volumes/by-name/two").refused(404);
    assert_eq!(server.get("/api/volumes").ok()[0]["name"], "one");
    server
        .post("/api/sandbox", mounting("two", "/mnt/v", None))
        .refused(404);
}
