//! Root and other users in boxes on an image: what they can do, and what they cannot.

use std::os::unix::fs::MetadataExt;

use holm_sandbox_linux::{
    Access, CommandUser, Engine, EngineError, Exit, MountSpec, Owners, Profile, Streams,
    TerminalSize,
};

use super::images::Image;
use super::privileged::root;
use crate::image::mode;
use crate::support::{Output, TestBox, TestFolder, command, read_until, run_in, spec};

fn as_user(sandbox: &TestBox, user: CommandUser, script: &str) -> Output {
    let mut command = command(&["sh", "-c", script]);
    command.user = user;
    run_in(&sandbox.inner, &command, None)
}

fn as_root(sandbox: &TestBox, script: &str) -> Output {
    as_user(sandbox, CommandUser::Root, script)
}

#[test]
fn root_inside_owns_the_image_and_nothing_else() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    let script = "id -u; cat /etc/secret; echo more >> /etc/passwd; mkdir -m 700 /srv; touch /srv/f; \
        chown 33:44 /srv/f; stat -c %u:%g /srv/f; chmod 4755 /bin/cat; rm -r /home; mkdir /opt; chroot / /bin/true; \
        touch /run/x /dev/shm/x; echo 127.0.0.1 x >> /etc/hosts; ls /home 2>&1";
    let output = as_root(&sandbox, script);
    assert!(
        output.stdout.starts_with("0\nof root\n33:44\n"),
        "{output:?}"
    );
    let upper = sandbox.directory.path().join("box/root-upper");
    let found = std::fs::metadata(upper.join("srv/f")).unwrap();
    assert_eq!(
        (found.uid(), found.gid()),
        (0x7000_0000 + 33, 0x7000_0000 + 44)
    );
    // The image itself is as it was.
    assert!(image.path("home/app").is_dir());
    assert!(!image.path("srv").exists());
    assert_eq!(
        std::fs::metadata(image.path("bin/cat")).unwrap().mode() & 0o7777,
        0o755
    );
}

#[test]
fn root_inside_has_these_capabilities_and_no_more() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    let status = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
    // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT SETFCAP
    assert_eq!(
        as_root(&sandbox, status).success(),
        "CapInh:\t0000000000000000\nCapPrm:\t00000000800405fb\nCapEff:\t00000000800405fb\n\
         CapBnd:\t00000000800405fb\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
    for user in [CommandUser::BoxUser, CommandUser::Ids { uid: 33, gid: 44 }] {
        let text = as_user(&sandbox, user, status).success();
        assert!(
            text.contains("CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"),
            "{text}"
        );
    }
}

#[test]
fn what_root_inside_must_not_do_fails() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    for attack in [
        "mknod /x c 1 1",
        "mknod /dev/x b 254 0",
        "echo 1 > /proc/sys/kernel/sysrq",
        "echo x > /proc/sysrq-trigger",
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "ls /proc/1/fd",
        "readlink /proc/1/root",
        "rmdir /proc",
        "mv /dev /dev2",
        "mv /etc/passwd /proc/passwd",
        "echo 0 > /proc/1/oom_score_adj",
        "cat /proc/keys | grep .",
        "cat /proc/kcore",
    ] {
        let output = as_root(&sandbox, attack);
        assert_ne!(output.exit, Exit::Code(0), "{attack}: {output:?}");
    }
    // Init shrugs at signals of its own box.
    as_root(&sandbox, "kill -9 1; kill -STOP 1").success();
    assert_eq!(as_root(&sandbox, "echo alive").success(), "alive\n");
}

#[test]
fn a_setuid_program_that_root_made_lends_nothing() {
    if !root() {
        return;
    }
    let image = Image::new();
    mode(&image.path("bin/id"), 0o6755);
    let sandbox = image.start();
    as_root(&sandbox, "cp /bin/id /bin/own && chmod 6755 /bin/own").success();
    assert_eq!(
        sandbox.sh("/bin/own -u; id -u; id -g").success(),
        "1000\n1000\n1000\n"
    );
}

#[test]
fn low_ports_are_open_and_other_users_exist() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start";
    assert_eq!(sandbox.sh(script).success(), "0\n");
    let user = CommandUser::Ids { uid: 33, gid: 44 };
    assert_eq!(
        as_user(&sandbox, user, "id -u; id -g; id -G").success(),
        "33\n44\n44\n"
    );
    assert_eq!(
        as_user(&sandbox, user, "cat /etc/secret").exit,
        Exit::Code(1)
    );
}

#[test]
fn terminals_belong_to_whoever_uses_them() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    for (user, owner) in [
        (CommandUser::BoxUser, "1000"),
        (CommandUser::Root, "0"),
        (CommandUser::Ids { uid: 33, gid: 44 }, "33"),
    ] {
        let mut command = command(&["sh", "-c", "stat -c %u $(tty); echo hello > $(tty)"]);
        command.user = user;
        let size = TerminalSize {
            rows: 24,
            columns: 80,
        };
        let mut job = sandbox
            .inner
            .start(&command, &Streams::Terminal(size))
            .unwrap();
        let terminal = job.take_terminal().unwrap();
        assert_eq!(
            read_until(&terminal, "hello\r\n"),
            format!("{owner}\r\nhello\r\n")
        );
        assert_eq!(job.wait().unwrap(), Exit::Code(0));
    }
}

#[test]
fn ids_outside_the_range_are_refused() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    for (uid, gid) in [(65_536, 0), (0, 65_536), (u32::MAX, u32::MAX)] {
        let mut command = command(&["id"]);
        command.user = CommandUser::Ids { uid, gid };
        let error = sandbox.start_error(&command);
        assert!(
            matches!(error, EngineError::CommandUser { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn the_profile_of_images_comes_with_nothing_that_it_could_harm() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut host = spec(&engine, directory.path());
    host.profile = Profile::Image;
    let error = engine.create(&host).map(|inner| inner.pid()).unwrap_err();
    assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}");
    if !root() {
        return;
    }
    let image = Image::new();
    let refused = image.try_start(|spec| {
        spec.mounts = vec![MountSpec::Bind {
            source: directory.path().to_path_buf(),
            place: "/shared".into(),
            access: Access::ReadWrite,
            owners: Owners::BoxUserIs { uid: 0, gid: 0 },
        }];
    });
    match refused {
        Err(EngineError::Invalid { what, .. }) => assert!(what.contains("setuid"), "{what}"),
        other => panic!("{other:?}"),
    }
}
