//! What one organisation can make the server keep: a bound on everything that is remembered.

use std::io::{Read, Write};
use std::time::Duration;

use holm_server::records::{PreviewTokenRecord, SshAccessRecord};
use reqwest::Method;
use serde_json::json;

use super::shell::Shell;
use crate::support::{TestServer, wait_until};

#[test]
fn texts_that_are_kept_are_not_of_any_length() {
    let server = TestServer::new();
    let long = "x".repeat(1024 * 1024);
    let build = |dockerfile: &str| json!({ "dockerfileContent": dockerfile });
    let hosts = vec!["a.example"; 100];
    for (path, request) in [
        ("/api/sandbox", json!({ "name": long })),
        ("/api/sandbox", json!({ "target": long })),
        ("/api/sandbox", json!({ "user": long })),
        ("/api/sandbox", json!({ "labels": { "a": long } })),
        ("/api/sandbox", json!({ "env": { "A": long } })),
        ("/api/sandbox", json!({ "networkAllowList": long })),
        ("/api/sandbox", json!({ "domainAllowList": long })),
        ("/api/sandbox", json!({ "buildInfo": build(&long) })),
        (
            "/api/sandbox",
            json!({ "buildInfo": build("FROM x"), "user": long }),
        ),
        (
            "/api/sandbox",
            json!({ "volumes": [{ "volumeId": "v", "mountPath": format!("/{long}") }] }),
        ),
        ("/api/snapshots", json!({ "name": long, "imageName": "x" })),
        ("/api/snapshots", json!({ "name": "a", "imageName": long })),
        (
            "/api/snapshots",
            json!({ "name": "a", "imageName": "x", "entrypoint": [long] }),
        ),
        (
            "/api/snapshots",
            json!({ "name": "a", "buildInfo": build(&long) }),
        ),
        ("/api/volumes", json!({ "name": long })),
        ("/api/api-keys", json!({ "name": long })),
        (
            "/api/secret",
            json!({ "name": "a", "value": long, "hosts": ["a.example"] }),
        ),
        (
            "/api/secret",
            json!({ "name": "a", "value": "0123456789", "hosts": hosts }),
        ),
        (
            "/api/secret",
            json!({ "name": "a", "value": "0123456789", "hosts": ["a.example"], "description": long }),
        ),
    ] {
        let said = server.post(path, request.clone()).refused(400);
        // Nor does it come back.
        assert!(said.len() < 2 * 1024 * 1024, "{path}");
    }
    let id = server.sandbox();
    server
        .put(
            &format!("/api/sandbox/{id}/labels"),
            json!({ "labels": { "a": long } }),
        )
        .refused(400);
    let path = |rest: &str| format!("/toolbox/{id}/process{rest}");
    let request = json!({ "sessionId": long });
    server.post(&path("/session"), request).refused(400);
    server
        .post(&path("/pty"), json!({ "id": long }))
        .refused(400);
    let listed = server.get("/api/sandbox").ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_session_remembers_so_much_and_no_more() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let sized = |bytes: usize| format!("echo ok #{}", "x".repeat(bytes));
    let refused = shell.exec(json!({ "command": sized(1024 * 1024) }));
    assert!(refused.refused(400).contains("upload it as a file"));
    let envs = json!({ "A": "x".repeat(1024 * 1024) });
    shell
        .exec(json!({ "command": "true", "envs": envs }))
        .refused(400);
    // Old ones are forgotten, the last ones are not.
    let mut ids = Vec::new();
    for _ in 0..20 {
        let answer = shell.exec(json!({ "command": sized(1_000_000) })).ok();
        assert_eq!(answer["stdout"], "ok\n");
        ids.push(answer["cmdId"].as_str().unwrap().to_owned());
    }
    let known = shell.get("").ok()["commands"].as_array().unwrap().len();
    assert!((8..=17).contains(&known), "{known}");
    assert_eq!(shell.stdout(ids.last().unwrap()), "ok\n");
    shell.get(&format!("/command/{}", ids[0])).refused(404);
    // What waits is not forgotten: it is refused.
    shell.start("read line");
    let mut said = None;
    for _ in 0..20 {
        let command = json!({ "command": sized(1_000_000), "runAsync": true });
        let answer = shell.exec(command);
        if answer.status == 429 {
            said = Some(answer.refused(429));
            break;
        }
    }
    assert!(said.unwrap().contains("wait in this session"));
}

#[test]
fn long_answers_share_a_bounded_memory() {
    let server = TestServer::with(|config| {
        // More than fits into the kernel's buffers between two sockets.
        config.limits.answers_bytes_max = 40 * 1024 * 1024;
    });
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let print = "head -c 30000000 /dev/zero | tr '\\0' x";
    let long = shell.start(print);
    wait_until("it has ended", || shell.exit_code(&long) == Some(0));
    let logs = format!("{}/command/{long}/logs", shell.path);
    // A client that asks for much and does not read.
    let address = server.url.strip_prefix("http://").unwrap();
    let mut idle = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "GET {logs} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.key
    );
    idle.write_all(request.as_bytes()).unwrap();
    idle.read_exact(&mut [0; 12]).unwrap();
    // Others are cut short, and short answers are as they were.
    let (code, printed) = server.execute(&id, print);
    assert_eq!(code, 0);
    assert!(printed.ends_with("[truncated]\n") && printed.len() < 20_000_000);
    assert_eq!(server.run(&id, "echo short"), "short");
    // When it has gone, so is what it held.
    drop(idle);
    wait_until("there is room again", || {
        server.execute(&id, print).1.len() == 30_000_000
    });
    assert_eq!(shell.stdout(&long).len(), 30_000_000);
}

#[test]
fn doors_to_a_sandbox_are_counted_and_swept_together() {
    let server = TestServer::with(|config| {
        config.ssh_listen = Some("127.0.0.1:0".parse().unwrap());
        config.limits.tick = Duration::from_millis(50);
    });
    let id = server.sandbox();
    let store = holm_store::Store::open(&server.data.path().join("data/holm.db")).unwrap();
    let ends = i64::MAX;
    // As somebody would who asks for one with every request.
    store
        .write(|transaction| {
            for number in 0..2_000 {
                transaction.put(&PreviewTokenRecord {
                    hash: format!("p{number}"),
                    id: format!("p{number}"),
                    sandbox: id.clone(),
                    port: 80,
                    expires_at: ends,
                })?;
                transaction.put(&SshAccessRecord {
                    hash: format!("s{number}"),
                    id: format!("s{number}"),
                    sandbox: id.clone(),
                    created_at: 0,
                    expires_at: ends,
                })?;
            }
            Ok::<(), holm_store::StoreError>(())
        })
        .unwrap();
    let signed = format!("/api/sandbox/{id}/ports/80/signed-preview-url");
    let ssh = format!("/api/sandbox/{id}/ssh-access");
    for (method, path) in [(Method::GET, &signed), (Method::POST, &ssh)] {
        let said = server.ask_as(&server.key, method, path, None).refused(429);
        assert!(said.contains("revoke some"), "{said}");
    }
    // Another sandbox has its own.
    let other = server.sandbox();
    server
        .get(&format!("/api/sandbox/{other}/ports/80/signed-preview-url"))
        .ok();
    server.delete(&ssh).ok();
    server.post(&ssh, json!({})).ok();
    store
        .write(|transaction| {
            for mut token in transaction.list::<PreviewTokenRecord>(&id)? {
                token.expires_at = 0;
                transaction.put(&token)?;
            }
            Ok::<(), holm_store::StoreError>(())
        })
        .unwrap();
    wait_until("they are swept", || {
        store.list::<PreviewTokenRecord>(&id).unwrap().is_empty()
    });
    server.get(&signed).ok();
}
