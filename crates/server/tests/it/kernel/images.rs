//! Sandboxes with a root of their own, from a registry on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holm_server::operator::{self, OperatorSnapshot, SnapshotSource};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{TestServer, is_empty, wait_until};

fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A media type and what is of it.
type Content = (&'static str, Vec<u8>);

/// A registry with one image, `tiny`, whose layer waits while the gate is closed.
struct Registry {
    address: SocketAddr,
    gate: Arc<AtomicBool>,
    asked_for_layer: Arc<AtomicUsize>,
}

impl Registry {
    fn start() -> Self {
        let layer = holm_testkit::tiny_root_archive();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {
                "Env": ["TINY=1", "PATH=/opt/bin:/bin", "HTTP_PROXY=http://192.0.2.1", "OURS=image"],
                "WorkingDir": "/home/app",
            },
            "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
        })
        .to_string();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest(config.as_bytes()), "size": config.len(),
            },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": digest(&layer), "size": layer.len(),
            }],
        })
        .to_string();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Self {
            address: listener.local_addr().unwrap(),
            gate: Arc::new(AtomicBool::new(true)),
            asked_for_layer: Arc::default(),
        };
        let (gate, asked) = (
            Arc::clone(&registry.gate),
            Arc::clone(&registry.asked_for_layer),
        );
        let layer_path = format!("/v2/tiny/blobs/{}", digest(&layer));
        let config_path = format!("/v2/tiny/blobs/{}", digest(config.as_bytes()));
        let answer = Arc::new(move |path: &str| -> Option<Content> {
            if path == layer_path {
                asked.fetch_add(1, Ordering::SeqCst);
                while !gate.load(Ordering::SeqCst) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                return Some(("application/octet-stream", layer.clone()));
            }
            if path == config_path {
                return Some(("application/octet-stream", config.clone().into()));
            }
            if path.starts_with("/v2/tiny/manifests/") {
                let kind = "application/vnd.oci.image.manifest.v1+json";
                return Some((kind, manifest.clone().into()));
            }
            (path == "/v2/").then(|| ("application/json", b"{}".to_vec()))
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                // A client that has gone is no failure here.
                std::thread::spawn(move || drop(serve(stream, &*answer)));
            }
        });
        registry
    }

    fn image(&self) -> String {
        format!("{}/tiny:latest", self.address)
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> Option<Content>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let is_head = words.next() == Some("HEAD");
    let (status, kind, body) = match answer(words.next().unwrap_or_default()) {
        Some((kind, body)) => (200, kind, body),
        None => (404, "application/json", b"{}".to_vec()),
    };
    let mut head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    if kind.contains("manifest") {
        head += &format!("Docker-Content-Digest: {}\r\n", digest(&body));
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    if !is_head {
        stream.write_all(&body)?;
    }
    Ok(())
}

fn snapshot(server: &TestServer, name: &str) -> Value {
    server.get(&format!("/api/snapshots/{name}")).ok()
}

#[test]
fn a_snapshot_from_a_registry_is_a_root_of_its_own() {
    let server = TestServer::new();
    let registry = Registry::start();
    let made =
        json!({ "name": "tiny", "imageName": registry.image(), "cpu": 1, "memory": 1, "disk": 1 });
    let made = server.post("/api/snapshots", made).ok();
    assert_eq!(made["state"], "pending");
    wait_until("it is pulled", || {
        snapshot(&server, "tiny")["state"] == "active"
    });
    let url = server.get("/api/snapshots/tiny/build-logs-url").ok();
    let path = url["url"]
        .as_str()
        .unwrap()
        .strip_prefix(&server.url)
        .unwrap()
        .to_owned();
    let log = server.get(&format!("{path}?follow=true"));
    assert!(log.body.to_string().contains("pulling"), "{log:?}");

    let id = server.sandbox_from(json!({ "snapshot": "tiny" }));
    assert_eq!(server.run(&id, "cat /etc/tiny; id -u"), "an image\n0");
    server.run(
        &id,
        "echo changed > /etc/tiny; mkdir /opt; chown 1000 /home/app; rm /bin/mkdir",
    );
    assert_eq!(
        server.run(&id, "stat -c %u /home/app; cat /etc/tiny"),
        "1000\nchanged"
    );
    assert!(!Path::new("/etc/tiny").exists());
    // The image's word counts, but not for the way out, and the sandbox's counts more.
    let request = json!({ "snapshot": "tiny", "env": { "OURS": "sandbox" } });
    let told = server.sandbox_from(request);
    assert_eq!(
        server.run(&told, "echo $TINY $PATH $OURS; pwd; echo $HTTP_PROXY"),
        "1 /opt/bin:/bin sandbox\n/home/app\nhttp://127.0.0.1:3128"
    );
    server.delete(&format!("/api/sandbox/{told}")).ok();
    let other = server.sandbox_from(json!({ "snapshot": "tiny", "user": "app" }));
    assert_eq!(
        server.run(&other, "id -u; cat /etc/tiny; ls /bin/mkdir"),
        "1000\nan image\n/bin/mkdir"
    );
    let nobody = json!({ "snapshot": "tiny", "user": "nobody-here" });
    let refused = server.post("/api/sandbox", nobody).refused(400);
    assert!(refused.contains("no user `nobody-here`"), "{refused}");

    // It stays while sandboxes stand on it.
    server
        .delete(&format!("/api/snapshots/{}", made["id"].as_str().unwrap()))
        .ok();
    server.turn(&id, "stop");
    server.turn(&id, "start");
    assert_eq!(server.run(&id, "cat /etc/tiny"), "changed");
    for id in [id, other] {
        server.delete(&format!("/api/sandbox/{id}")).ok();
    }
    let images = server.data.path().join("data/images");
    wait_until("the image is gone", || {
        fs::read_dir(&images)
            .unwrap()
            .flatten()
            .all(|entry| entry.file_name() == ".lock")
    });
    wait_until("its log is gone", || {
        is_empty(&server.data.path().join("data/builds"))
    });
}

#[test]
fn a_user_of_an_image_that_is_not_there_yet() {
    let server = TestServer::new();
    let registry = Registry::start();
    let request = |user: &str| {
        // Of its own text each time, so that none is known already.
        let dockerfile = format!("FROM {}\n# {user}\n", registry.image());
        json!({ "buildInfo": { "dockerfileContent": dockerfile }, "user": user })
    };
    let state = |id: &str| server.get(&format!("/api/sandbox/{id}")).ok()["state"].clone();
    let made = |user: &str| {
        let made = server.post("/api/sandbox", request(user)).ok();
        made["id"].as_str().unwrap().to_owned()
    };
    let id = made("app");
    wait_until("it is started", || state(&id) == "started");
    assert_eq!(server.run(&id, "id -u"), "1000");
    // Neither nobody, nor whom no box has an id for.
    for user in ["nobody-here", "65536", "4294967295", "-1", "0:4294967295"] {
        let id = made(user);
        wait_until("it is said", || state(&id) == "error");
        let shown = server.get(&format!("/api/sandbox/{id}")).ok();
        let reason = shown["errorReason"].as_str().unwrap();
        assert!(reason.contains(&format!("no user `{user}`")), "{reason}");
    }
    for user in ["a\nb", "\u{0}"] {
        server.post("/api/sandbox", request(user)).refused(400);
    }
}

#[test]
fn a_pull_that_fails_says_why() {
    let server = TestServer::new();
    let registry = Registry::start();
    let missing = format!("{}/missing:1", registry.address);
    server
        .post(
            "/api/snapshots",
            json!({ "name": "bad", "imageName": missing }),
        )
        .ok();
    wait_until("it has failed", || {
        snapshot(&server, "bad")["state"] == "error"
    });
    let reason = snapshot(&server, "bad")["errorReason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains("missing"), "{reason}");
    server
        .post("/api/sandbox", json!({ "snapshot": "bad" }))
        .refused(400);
    server
        .post(
            "/api/snapshots",
            json!({ "name": "bad", "imageName": missing }),
        )
        .refused(409);
    server
        .post("/api/snapshots", json!({ "name": "none" }))
        .refused(400);
}

#[test]
fn a_sandbox_from_an_image_waits_for_it_and_a_restart_begins_the_pull_again() {
    let server = TestServer::new();
    let registry = Registry::start();
    registry.gate.store(false, Ordering::SeqCst);
    let build = json!({ "dockerfileContent": format!("FROM {}\n", registry.image()) });
    let made = server
        .post("/api/sandbox", json!({ "buildInfo": build }))
        .ok();
    assert_eq!(made["state"], "pending_build");
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/api/sandbox/{id}");
    wait_until("the layer is asked for", || {
        registry.asked_for_layer.load(Ordering::SeqCst) == 1
    });
    let server = TestServer::at(server.stop(), |_| {});
    assert_eq!(server.get(&path).ok()["state"], "pending_build");
    wait_until("the layer is asked for again", || {
        registry.asked_for_layer.load(Ordering::SeqCst) > 1
    });
    registry.gate.store(true, Ordering::SeqCst);
    wait_until("it is started", || {
        server.get(&path).ok()["state"] == "started"
    });
    assert_eq!(server.run(&id, "cat /etc/tiny"), "an image");
    // The same text is built once.
    let asked = registry.asked_for_layer.load(Ordering::SeqCst);
    let again = server
        .post("/api/sandbox", json!({ "buildInfo": build }))
        .ok();
    assert_eq!(again["state"], "started");
    assert_eq!(registry.asked_for_layer.load(Ordering::SeqCst), asked);
}

/// Makes a snapshot from an archive, as the operator does.
pub(super) fn add_snapshot(server: &TestServer, name: &str, archive: &Path) {
    let data = server.data.path().join("data");
    let store = holm_store::Store::open(&data.join("holm.db")).unwrap();
    let config = holm_server::ServerConfig::new("127.0.0.1:0".parse().unwrap(), data);
    let new = OperatorSnapshot {
        name: name.to_owned(),
        source: SnapshotSource::Tar(archive.to_path_buf()),
        cpu: Some(1),
        memory_gib: Some(1),
        disk_gib: Some(1),
    };
    operator::create_snapshot(&config, &store, &new, &|_| {}).unwrap();
}
