//! `holm snapshot` on a server's data.

use std::fs;
use std::process::Command;

use super::skipped_without_root;
use crate::server::Serving;
use crate::support::TestEnvironment;

#[test]
fn snapshots_are_made_and_removed_beside_a_running_server() {
    if skipped_without_root() {
        return;
    }
    let env = TestEnvironment::new();
    let server = Serving::start(&env, &[]);
    let root = env.path("rootfs");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/tiny"), "tiny").unwrap();
    let archive = env.path("rootfs.tar.zst");
    let packed = Command::new("tar")
        .args(["--zstd", "--owner=0", "--group=0", "-cf"])
        .arg(&archive)
        .arg("-C")
        .arg(&root)
        .arg(".")
        .status()
        .unwrap();
    assert!(packed.success());
    let archive = archive.to_str().unwrap();
    let create = ["snapshot", "create", "tiny", "--from-tar", archive];
    let id = env.run(create).success();
    let again = env.run(create);
    assert!(again.errors().contains("already exists"), "{again}");

    let listed = env.run(["snapshot", "list", "--json"]).json();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|snapshot| snapshot["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["daytona-large", "daytona-medium", "daytona-small", "tiny"]
    );
    assert_eq!(listed[3]["id"], id.trim());
    assert_eq!(listed[3]["state"], "active");

    // A sandbox is saved only while nobody can start it.
    let busy = env.run(["snapshot", "create", "saved", "--from-sandbox", "x"]);
    assert!(
        busy.errors().contains("a server uses the data folder"),
        "{busy}"
    );
    let broken = env.run(["snapshot", "create", "broken", "--from-tar", "/dev/null"]);
    assert_eq!(broken.code(), Some(1), "{broken}");
    let builtin = env.run(["snapshot", "remove", "daytona-small"]);
    assert!(
        builtin.errors().contains("belongs to every server"),
        "{builtin}"
    );
    env.run(["snapshot", "remove", "tiny"]).success();
    let unknown = env.run(["snapshot", "remove", "tiny"]);
    assert!(
        unknown.errors().contains("there is no snapshot `tiny`"),
        "{unknown}"
    );
    let listed = env.run(["snapshot", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    server.stop().success();
}
