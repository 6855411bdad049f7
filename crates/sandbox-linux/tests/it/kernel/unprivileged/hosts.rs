//! Hosts that give less than a box needs: a clear word instead of a box, or a box of the lesser kind.

use std::process::Stdio;

use holm_sandbox_linux::{Engine, EngineError, IdRange, ImageOptions, Network};

use crate::support::{TestFolder, base_options, host_probe, is_root};

/// Runs a probe as root of a user namespace that maps nobody else, after `script` has changed it.
fn in_user_namespace(script: &str) -> String {
    let directory = TestFolder::new();
    let probe = host_probe("try_to_create", directory.path().to_str().unwrap());
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--", "sh", "-c"]);
    command.arg(format!("{script}; exec \"$0\" \"$@\""));
    command.arg(probe.get_program()).args(probe.get_args());
    for (key, value) in probe.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let output = command.stdout(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_host_without_user_namespaces_is_told_so() {
    // The limit belongs to the user namespace that the probe runs in: the host's own stays.
    let text = in_user_namespace("echo 0 > /proc/sys/user/max_user_namespaces");
    insta::assert_snapshot!(text, @r"
    error: this host cannot run isolated boxes: could not make a process in new namespaces: No space left on device (os error 28)
    hint: a limit of this host is reached: look at `sysctl user` (`user.max_user_namespaces` and its like)
    ");
}

#[test]
fn a_host_without_network_namespaces_is_told_so() {
    let text = in_user_namespace("echo 0 > /proc/sys/user/max_net_namespaces");
    insta::assert_snapshot!(text, @r"
    error: this host cannot run isolated boxes: could not make a process in new namespaces: No space left on device (os error 28)
    hint: a limit of this host is reached: look at `sysctl user` (`user.max_user_namespaces` and its like)
    ");
}

#[test]
fn a_careful_umask_of_the_host_does_not_close_the_box_to_its_user() {
    let directory = TestFolder::new();
    let script = "id -un; cat /etc/hostname; touch ~/file; stat -c %a ~/file";
    let probe = host_probe(
        "creator",
        &format!("{}\n{script}\nonce", directory.path().display()),
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\""]);
    command.arg(probe.get_program()).args(probe.get_args());
    for (key, value) in probe.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let output = command.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "holm\nholm\n644\n\n"
    );
}

#[test]
fn root_of_a_container_makes_boxes_as_an_ordinary_user_does() {
    assert_eq!(in_user_namespace(":"), "made a box\n");
}

#[test]
fn without_root_there_is_one_range() {
    if is_root() {
        return;
    }
    let directory = TestFolder::new();
    let mut options = base_options(directory.path());
    options.ids = IdRange::new(5).unwrap();
    match Engine::start().unwrap().host_base(&options) {
        Err(EngineError::HostLacks { reason, .. }) => assert!(reason.contains("root"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_root_there_are_no_images() {
    if is_root() {
        return;
    }
    let directory = TestFolder::new();
    let options = ImageOptions {
        directory: base_options(directory.path()).directory,
        network: Network::None,
        layers: vec!["/".into()],
    };
    match Engine::start().unwrap().image_base(&options) {
        Err(EngineError::HostLacks { hint, .. }) => assert!(hint.contains("root"), "{hint}"),
        other => panic!("{other:?}"),
    }
}
