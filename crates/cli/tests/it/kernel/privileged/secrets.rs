//! A secret from the API to the wire and nowhere else, through the real server and with real TLS.

use std::fs;
use std::path::Path;

use holm_server::records::{OrganizationRecord, SandboxRecord, SnapshotRecord};
use holm_store::Store;
use serde::Serialize;
use serde_json::{Value, json};

use super::origin::Origin;
use super::skipped_without_root;
use crate::server::{Client, KEY, Serving, data};
use crate::support::TestEnvironment;

const VALUE: &str = "s3cr3t-of-the-owner-0123456789";
const ROTATED: &str = "r0tat3d-of-the-owner-9876543210";

/// A server that knows the names of the test's world, and trusts its authority.
fn start(env: &TestEnvironment) -> Serving<'_> {
    let swap = "mount --bind hosts /etc/hosts && exec \"$@\"";
    let holm = env.holm(["serve", "--listen", "127.0.0.1:0"]);
    let mut command = env.program("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            swap,
            "sh",
        ])
        .arg(holm.get_program())
        .args(holm.get_args());
    Serving::of(env, command)
}

/// What `curl` in a sandbox says in full, headers and all.
fn fetch(client: &Client, id: &str, url: &str) -> String {
    let script = format!("curl -sv -m 20 -H \"Authorization: Bearer $TOKEN\" {url} 2>&1 || true");
    client.run(id, &script)
}

/// The files below a folder that have a text in them.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let found = std::process::Command::new("grep")
        .args(["-rlaF", "--", text, "."])
        .current_dir(folder)
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

/// No row of the store but the secret's own has the value.
fn assert_apart(env: &TestEnvironment) {
    fn texts<D: Serialize>(rows: Vec<D>) -> String {
        serde_json::to_string(&rows).unwrap()
    }
    let store = Store::open(&data(env).join("holm.db")).unwrap();
    for rows in [
        texts(store.all::<SandboxRecord>().unwrap()),
        texts(store.all::<SnapshotRecord>().unwrap()),
        texts(store.all::<OrganizationRecord>().unwrap()),
    ] {
        assert!(!rows.contains(VALUE), "{rows}");
    }
}

#[test]
fn a_secret_goes_to_its_host_by_tls_and_nowhere_else() {
    if skipped_without_root() {
        return;
    }
    let origin = Origin::start(&["api.test", "other.test"]);
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let env = env.with("HOLM_LOG", "trace");
    let roots = env.path("roots.pem");
    let env = env.with("SSL_CERT_FILE", &roots);
    fs::write(&roots, &origin.door.authority_pem).unwrap();
    let hosts = format!(
        "127.0.0.1 localhost\n{} api.test other.test\n",
        origin.door.address.ip()
    );
    fs::write(env.path("hosts"), hosts).unwrap();
    let server = start(&env);
    let client = server.client();
    let made = json!({ "name": "token", "value": VALUE, "hosts": ["api.test"] });
    let made = client.post("/api/secret", &made).ok();
    let placeholder = made["placeholder"].as_str().unwrap().to_owned();
    let secret = format!("/api/secret/{}", made["id"].as_str().unwrap());
    let request = json!({
        "secrets": [{ "TOKEN": "token" }],
        "networkAllowList": format!("{}/32", origin.door.address.ip()),
    });
    let sandbox = client.post("/api/sandbox", &request).ok();
    let id = sandbox["id"].as_str().unwrap().to_owned();
    let port = origin.door.address.port();
    let (ours, others) = (
        format!("https://api.test:{port}/"),
        format!("https://other.test:{port}/"),
    );

    // The host sees the value, the box the placeholder, also in all that curl tells of the connection.
    let said = fetch(&client, &id, &ours);
    assert!(said.ends_with("hello"), "{said}");
    assert!(
        said.contains(&placeholder) && !said.contains(VALUE),
        "{said}"
    );
    let seen = origin.take();
    assert!(
        seen.contains(&format!("Bearer {VALUE}\r\n").to_string()),
        "{seen}"
    );
    assert!(!seen.contains(&placeholder), "{seen}");
    // Another host of the same machine, and the same host in clear text.
    assert!(fetch(&client, &id, &others).ends_with("hello"));
    assert!(origin.take().contains(&format!("Bearer {placeholder}")));
    let clear = fetch(&client, &id, &format!("http://api.test:{port}/"));
    assert!(clear.contains("would travel in clear text"), "{clear}");
    // A name in the request that is another one than the connection's.
    let posing = client.run(
        &id,
        &format!("curl -s -m 20 -H 'Host: api.test' -H \"X: $TOKEN\" {others} || true"),
    );
    assert!(!origin.take().contains(VALUE), "{posing}");
    assert_eq!(client.run(&id, "echo $TOKEN"), placeholder);

    // It is in no answer, in no log, in no file and in no other row.
    let paths = [
        "/api/secret",
        "/api/secret/paginated",
        &secret,
        &format!("/api/sandbox/{id}"),
        "/api/sandbox",
    ];
    for path in paths {
        let shown = client.get(path).ok().to_string();
        assert!(!shown.contains(VALUE), "{path}: {shown}");
    }
    let keepers = ["./holm.db", "./holm.db-wal"];
    for file in files_with(&data(&env), VALUE) {
        assert!(keepers.contains(&file.as_str()), "{file}");
    }
    assert_apart(&env);

    // A killed server knows it again; a new value counts at once.
    assert!(!server.said().contains(VALUE));
    server.kill();
    let server = start(&env);
    let client = server.client();
    assert!(fetch(&client, &id, &ours).ends_with("hello"));
    assert!(origin.take().contains(VALUE));
    let rotated = client.ask("PATCH", &secret, &json!({ "value": ROTATED }));
    rotated.unwrap().ok();
    assert!(fetch(&client, &id, &ours).ends_with("hello"));
    let seen = origin.take();
    assert!(seen.contains(ROTATED) && !seen.contains(VALUE), "{seen}");

    // One that is deleted while the sandbox is paused is not used afterwards.
    let turn = |change: &str| {
        let path = format!("/api/sandbox/{id}/{change}");
        client.post(&path, &Value::Null).ok()
    };
    turn("pause");
    client.delete(&secret).ok();
    turn("start");
    assert!(fetch(&client, &id, &ours).ends_with("hello"));
    let seen = origin.take();
    assert!(
        seen.contains(&placeholder) && !seen.contains(ROTATED),
        "{seen}"
    );
    client.delete(&format!("/api/sandbox/{id}")).ok();
    let said = server.stop();
    for value in [VALUE, ROTATED] {
        assert!(!said.errors().contains(value));
        // Nor is it left on the disk.
        assert_eq!(files_with(&env.path("data"), value), [""; 0]);
    }
}
