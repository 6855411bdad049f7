//! Files over SSH, by the real `sftp` and `scp`.

use std::fs;
use std::process::Output;

use serde_json::json;

use super::ssh::Ssh;

/// Runs `sftp` with commands, of which the first that fails ends it.
fn sftp(ssh: &Ssh, folder: &std::path::Path, commands: &str) -> Output {
    let batch = folder.join("batch");
    fs::write(&batch, commands).unwrap();
    let mut command = ssh.client_as("sftp", &ssh.token);
    command.current_dir(folder).arg("-b").arg(&batch);
    command.arg("127.0.0.1").output().unwrap()
}

#[test]
fn files_are_put_and_got_with_the_users_rights() {
    let ssh = Ssh::new();
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..2_000_000_u32)
        .map(|index| index.to_le_bytes()[1])
        .collect();
    fs::write(folder.path().join("sent"), &content).unwrap();
    let done = sftp(
        &ssh,
        folder.path(),
        "pwd\nmkdir below\nput sent below/file\nchmod 640 below/file\nrename below/file below/moved\nget below/moved got\n",
    );
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        said.contains("Remote working directory: /home/daytona"),
        "{said}"
    );
    assert!(fs::read(folder.path().join("got")).unwrap() == content);
    let shown = ssh.execute("stat -c '%a %U %s' below/moved");
    assert_eq!(shown["result"], "640 daytona 2000000\n");

    // Links lead where they lead inside, with the rights that the user has there.
    ssh.execute("ln -s /etc/shadow shadow; ln -s / everything");
    fs::write(folder.path().join("hostile"), "x").unwrap();
    let data = ssh.server.data.path().display().to_string();
    for refused in [
        "get shadow".to_owned(),
        "put hostile everything/usr/bin/hostile".to_owned(),
        format!("get {data}/data/holm.db"),
        format!("ls everything{data}"),
    ] {
        let done = sftp(&ssh, folder.path(), &format!("{refused}\n"));
        assert!(!done.status.success(), "{refused}: {done:?}");
    }
    let mut copy = ssh.client_as("scp", &ssh.token);
    copy.current_dir(folder.path());
    let copied = copy.args(["127.0.0.1:below/moved", "copied"]).output();
    assert!(copied.as_ref().unwrap().status.success(), "{copied:?}");
    assert!(fs::read(folder.path().join("copied")).unwrap() == content);
}

#[test]
fn other_subsystems_are_refused_and_a_missing_server_is_told() {
    let ssh = Ssh::new();
    let other = ssh.client().args(["-s", "127.0.0.1", "netconf"]).output();
    let other = other.unwrap();
    assert!(!other.status.success(), "{other:?}");
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("subsystem request failed"), "{said}");

    // An image without one.
    let server = &ssh.server;
    let archive = server.data.path().join("tiny.tar");
    fs::write(&archive, holm_testkit::tiny_root_archive()).unwrap();
    super::images::add_snapshot(server, "tiny", &archive);
    let id = server.sandbox_from(json!({ "snapshot": "tiny" }));
    let access = server.post(&format!("/api/sandbox/{id}/ssh-access"), json!({}));
    let token = access.ok()["token"].as_str().unwrap().to_owned();
    let mut command = ssh.client_as("ssh", &token);
    let missing = command.args(["-s", "127.0.0.1", "sftp"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("install openssh-sftp-server"), "{said}");
    // There is no bash either.
    let mut command = ssh.client_as("ssh", &token);
    let ran = command
        .args(["127.0.0.1", "cat /etc/tiny"])
        .output()
        .unwrap();
    assert_eq!(ran.stdout, b"an image\n", "{ran:?}");
}
