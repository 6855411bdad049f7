//! What the box's user and the box itself are called.

use std::path::Path;

use holm_sandbox_linux::{Account, CommandUser, Engine, EngineError};

use crate::support::{TestBox, TestFolder, base_options, command, spec};

#[test]
fn the_user_and_the_home_are_those_of_the_account() {
    let sandbox = TestBox::with(|spec| {
        let mut options = base_options(&spec.directory.with_file_name("base"));
        options.account = Account::new("daytona", Path::new("/home/daytona")).unwrap();
        spec.base = Engine::start().unwrap().host_base(&options).unwrap().into();
    });
    assert_eq!(
        sandbox.sh("id -un; id -gn; id -u").success(),
        "daytona\ndaytona\n1000\n"
    );
    assert_eq!(sandbox.sh("echo ~daytona").success(), "/home/daytona\n");
    sandbox.sh("echo x > /home/daytona/file").success();
    assert_eq!(sandbox.sh("ls /home").success(), "daytona\n");
}

#[test]
fn a_box_has_the_name_it_was_given() {
    let sandbox = TestBox::with(|spec| spec.hostname = Some("web-1".into()));
    let text = sandbox
        .sh("uname -n; cat /etc/hostname; getent hosts web-1")
        .success();
    assert!(text.starts_with("web-1\nweb-1\n127.0.0.1 "), "{text}");
    assert_ne!(
        sandbox.sh("echo 6.6.6.6 localhost > /etc/hosts").exit,
        holm_sandbox_linux::Exit::Code(0)
    );
}

#[test]
fn what_is_no_host_name_makes_no_box() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.hostname = Some("a\n6.6.6.6 b".into());
    match engine.create(&spec).map(|inner| inner.pid()) {
        Err(EngineError::Invalid { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_the_hosts_system_nobody_is_root() {
    let sandbox = TestBox::new();
    for user in [
        CommandUser::Root,
        CommandUser::Ids { uid: 0, gid: 0 },
        CommandUser::Ids { uid: 33, gid: 33 },
    ] {
        let mut command = command(&["id"]);
        command.user = user;
        match sandbox.start_error(&command) {
            EngineError::CommandUser { hint, .. } => assert!(hint.contains("image"), "{hint}"),
            other => panic!("{other:?}"),
        }
    }
}
