//! `holm snapshot create` from everything that a snapshot can be made from: a sandbox of it works, and what is wrong
//! is said.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::oci::Layout;
use super::skipped_without_root;
use crate::server::{Client, KEY, Serving, data};
use crate::support::{Output, TestEnvironment, names_in};

const DEBOOTSTRAP: &str = "/usr/sbin/debootstrap";

fn environment() -> TestEnvironment {
    TestEnvironment::new().with("HOLM_API_KEY", KEY)
}

fn create(env: &TestEnvironment, name: &str, source: [&str; 2]) -> Output {
    env.run(["snapshot", "create", name].iter().chain(&source))
}

fn sandbox_from(client: &Client, request: &Value) -> String {
    let made = client.post("/api/sandbox", request).ok();
    assert_eq!(made["state"], "started", "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// A snapshot is what its sandboxes start from.
#[track_caller]
fn assert_tiny(client: &Client, snapshot: &str, user: &str) {
    let id = sandbox_from(client, &json!({ "snapshot": snapshot }));
    assert_eq!(
        client.run(&id, "cat /etc/tiny; id -u"),
        format!("an image\n{user}")
    );
    client.delete(&format!("/api/sandbox/{id}")).ok();
}

/// Neither a snapshot nor an image came of it.
#[track_caller]
fn assert_only_the_builtin(env: &TestEnvironment) {
    let listed = env.run(["snapshot", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    let images = names_in(&data(env).join("images"));
    assert!(images.iter().all(|name| name == ".lock"), "{images:?}");
}

#[test]
fn from_an_archive() {
    if skipped_without_root() {
        return;
    }
    let env = environment();
    let server = Serving::start(&env, &[]);
    let archive = env.path("rootfs.tar");
    fs::write(&archive, holm_testkit::tiny_root_archive()).unwrap();

    insta::assert_snapshot!(create(&env, "none", ["--from-tar", "missing.tar"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `none`
      caused by: could not open `[ROOT]/missing.tar`
      caused by: No such file or directory (os error 2)
    ");
    fs::write(env.path("notes.txt"), "This is no archive.\n".repeat(100)).unwrap();
    insta::assert_snapshot!(create(&env, "text", ["--from-tar", "notes.txt"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `text`
      caused by: the archive is broken: it is no tar archive, or a header was damaged (wrong checksum)
    ");
    insta::assert_snapshot!(create(&env, "folder", ["--from-tar", "home"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `folder`
      caused by: `[ROOT]/home` cannot be used: it is not a file
    ");
    let whole = fs::read(&archive).unwrap();
    fs::write(env.path("half.tar"), &whole[..whole.len() / 2]).unwrap();
    insta::assert_snapshot!(create(&env, "half", ["--from-tar", "half.tar"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `half`
      caused by: the archive is broken: it ends in the middle of an entry
    ");
    let name = create(&env, "not a name", ["--from-tar", "rootfs.tar"]);
    insta::assert_snapshot!(name, @r"
    exit code: 1
    ----- stderr
    error: a name has at most 255 letters, digits, dots, underscores and hyphens
    ");
    assert_only_the_builtin(&env);

    create(&env, "tiny", ["--from-tar", "rootfs.tar"]).success();
    assert_tiny(&server.client(), "tiny", "0");
    server.stop().success();
}

#[test]
fn from_an_oci_layout_and_from_a_registry() {
    if skipped_without_root() {
        return;
    }
    let env = environment();
    let server = Serving::start(&env, &[]);
    let layer = holm_testkit::tiny_root_archive();
    let layout = Layout::make(env.path("layout"), &layer);
    let registry = layout.serve();

    insta::assert_snapshot!(create(&env, "none", ["--from-oci", "missing"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `none`
      caused by: could not open `[ROOT]/missing`
      caused by: `[ROOT]/missing` does not exist
    ");
    insta::assert_snapshot!(create(&env, "home", ["--from-oci", "home"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `home`
      caused by: folder `[ROOT]/home` cannot be used: it is no OCI image layout: it has no `index.json`
    ");
    let missing = format!("{registry}/other:1");
    let missing = create(&env, "missing", ["--from-image", &missing]);
    insta::assert_snapshot!(missing.errors().replace(&registry.to_string(), "[REGISTRY]"), @r"
    error: could not make the image of snapshot `missing`
      caused by: the registry has no image `[REGISTRY]/other:1`
    ");
    insta::assert_snapshot!(create(&env, "bad", ["--from-image", "Not An Image"]), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `bad`
      caused by: `Not An Image` is not the name of an image: invalid reference format
    ");
    assert_only_the_builtin(&env);

    // The user is the image's own.
    create(&env, "layout", ["--from-oci", "layout"]).success();
    assert_tiny(&server.client(), "layout", "1000");
    let id = sandbox_from(&server.client(), &json!({ "snapshot": "layout" }));
    assert_eq!(server.client().run(&id, "echo $TINY; pwd"), "1\n/tmp");
    server.client().delete(&format!("/api/sandbox/{id}")).ok();
    let image = format!("{registry}/tiny:latest");
    create(&env, "pulled", ["--from-image", &image]).success();
    assert_tiny(&server.client(), "pulled", "1000");
    let shown = server.client().get("/api/snapshots/pulled").ok();
    assert_eq!(shown["imageName"], image.as_str());
    server.stop().success();
}

#[test]
fn from_a_sandbox() {
    if skipped_without_root() {
        return;
    }
    let env = environment();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let id = sandbox_from(&client, &json!({}));
    let running = sandbox_from(&client, &json!({}));
    client.run(&id, "echo kept > /home/daytona/file");
    client
        .post(&format!("/api/sandbox/{id}/stop"), &json!({}))
        .ok();
    insta::assert_snapshot!(create(&env, "saved", ["--from-sandbox", &id]), @r"
    exit code: 1
    ----- stderr
    error: a server uses the data folder `[ROOT]/data/server`

    hint: stop the server first, or ask it: `POST /api/sandbox/ID/snapshot` does the same
    ");
    server.stop().success();

    insta::assert_snapshot!(create(&env, "none", ["--from-sandbox", "no-such-sandbox"]), @r"
    exit code: 1
    ----- stderr
    error: there is no sandbox `no-such-sandbox`

    hint: sandboxes are named by their ids here, as `GET /api/sandbox` lists them
    ");
    let refused = create(&env, "moving", ["--from-sandbox", &running]);
    insta::assert_snapshot!(refused.errors().replace(&running, "[SANDBOX]"), @r"
    error: sandbox `[SANDBOX]` is started

    hint: start the server and stop the sandbox; its files have to keep still
    ");
    assert_only_the_builtin(&env);

    create(&env, "saved", ["--from-sandbox", &id]).success();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let copy = sandbox_from(&client, &json!({ "snapshot": "saved" }));
    assert_eq!(client.run(&copy, "cat file"), "kept");
    for id in [&id, &running, &copy] {
        client.delete(&format!("/api/sandbox/{id}")).ok();
    }
    server.stop().success();
}

/// Runs `holm snapshot create` where another file is in debootstrap's place: the real one downloads a whole Debian,
/// which takes minutes and a mirror.
fn create_with(env: &TestEnvironment, program: &Path, name: &str, suite: &str) -> Output {
    let swap = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let holm = env.holm(["snapshot", "create", name, "--debootstrap", suite]);
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
        .arg(program)
        .arg(DEBOOTSTRAP)
        .arg(holm.get_program())
        .args(holm.get_args());
    env.finish(command.spawn().unwrap())
}

#[test]
fn from_debian() {
    if skipped_without_root() {
        return;
    }
    if !Path::new(DEBOOTSTRAP).exists() {
        eprintln!("skipped: debootstrap is not installed");
        return;
    }
    let env = environment();
    let server = Serving::start(&env, &[]);
    // What is no file is no program.
    insta::assert_snapshot!(create_with(&env, Path::new("/dev/null"), "debian", "bookworm"), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `debian`
      caused by: `debootstrap` is not installed: run `apt-get install debootstrap`
    ");
    let program = env.path("debootstrap");
    let write = |script: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("echo 'I: Retrieving InRelease'; echo \"E: No such suite: $2\" >&2; exit 1");
    insta::assert_snapshot!(create_with(&env, &program, "debian", "nonesuch"), @r"
    exit code: 1
    ----- stderr
    I: Retrieving InRelease
    E: No such suite: nonesuch
    error: could not make the image of snapshot `debian`
      caused by: `debootstrap` failed (exit code 1):
            I: Retrieving InRelease
            E: No such suite: nonesuch
    ");
    insta::assert_snapshot!(create_with(&env, &program, "debian", "../suite"), @r"
    exit code: 1
    ----- stderr
    error: could not make the image of snapshot `debian`
      caused by: suite `../suite` cannot be used: it is no name of a Debian release, as `bookworm` is
    ");
    assert_only_the_builtin(&env);

    holm_testkit::tiny_root(&env.path("tiny"));
    let tiny = env.path("tiny");
    write(&format!(
        "[ \"$1 $2\" = '--variant=minbase bookworm' ] && cp -r {}/. \"$3\"/ && mkdir \"$3/dev\" && echo 'I: done'",
        tiny.display()
    ));
    let made = create_with(&env, &program, "debian", "bookworm");
    assert!(made.errors().contains("I: done"), "{made}");
    made.success();
    assert_tiny(&server.client(), "debian", "0");
    server.stop().success();
}
