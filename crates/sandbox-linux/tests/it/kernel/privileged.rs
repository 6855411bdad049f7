//! What only root can plant on a host, and what root's boxes do about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::{FilesError, WriteOptions};
use holm_sandbox_linux::{
    Access, EngineError, Exit, HOST_ID_BASE, IdRange, Limits, MountSpec, Network, Owners, Power,
};

use crate::support::{TestBox, TestFolder, is_root, probed, processes_with, token, wait_until};

/// Whether the test can run; says so when it cannot.
pub(super) fn root() -> bool {
    if !is_root() {
        eprintln!("skipped: not root");
    }
    is_root()
}

/// A file on the host that is gone at the end of the test, however that ends.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

#[test]
fn sockets_in_system_folders_refuse_the_box() {
    if !root() {
        return;
    }
    for network in [Network::None, Network::Host] {
        let sandbox = TestBox::with(|spec| {
            probed(spec);
            spec.network = network;
        });
        for folder in ["/opt", "/etc", "/run", "/var/run", "/var/tmp"] {
            let planted = Planted(Path::new(folder).join(token()).with_extension("sock"));
            let listener = UnixListener::bind(&planted.0).unwrap();
            fs::set_permissions(&planted.0, fs::Permissions::from_mode(0o777)).unwrap();
            let text = sandbox.probe("connect_unix", planted.0.to_str().unwrap());
            assert!(
                text.contains("No such file") || text.contains("Connection refused"),
                "{folder}: {text}"
            );
            drop(listener);
        }
    }
}

#[test]
fn roots_own_files_are_unreadable_even_where_they_show() {
    if !root() {
        return;
    }
    let secret = token();
    let planted = Planted(Path::new("/etc").join(&secret));
    fs::write(&planted.0, &secret).unwrap();
    fs::set_permissions(&planted.0, fs::Permissions::from_mode(0o600)).unwrap();
    let sandbox = TestBox::new();
    let output = sandbox.sh(&format!("ls /etc/{secret} && cat /etc/{secret}"));
    assert_eq!(output.exit, Exit::Code(1), "{output:?}");
    assert!(output.stderr.contains("Permission denied"), "{output:?}");
}

#[test]
fn a_setuid_file_of_root_gives_nothing() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755)] {
        let path = folder.path().join(name);
        fs::copy("/usr/bin/id", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let sandbox = TestBox::with(|spec| {
        spec.mounts = vec![MountSpec::Bind {
            source: folder.path().to_path_buf(),
            place: "/shown".into(),
            access: Access::ReadWrite,
            owners: Owners::AsOnHost,
        }];
    });
    let script = "test -u /shown/setuid && /shown/setuid && /shown/setgid";
    let text = sandbox.sh(script).success();
    assert_eq!(
        text,
        "uid=1000(holm) gid=1000(holm) groups=1000(holm)\n".repeat(2)
    );
    // Without translation root's folder is nobody's, and not the box's to write.
    assert_eq!(sandbox.sh("touch /shown/x").exit, Exit::Code(1));
    assert_eq!(sandbox.sh("stat -c %u /shown").success(), "65534\n");
}

#[test]
fn files_of_a_box_belong_to_nobody_on_the_host() {
    if !root() {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let sandbox = TestBox::new();
    sandbox.sh("echo x > ~/file").success();
    let file = sandbox
        .directory
        .path()
        .join("box/root-upper/home/holm/file");
    assert_eq!(fs::metadata(file).unwrap().uid(), HOST_ID_BASE + 1000);
}

#[test]
fn init_holds_nothing_but_what_is_its_own() {
    if !root() {
        return;
    }
    let sandbox = TestBox::new();
    for _ in 0..3 {
        sandbox.sh("true").success();
    }
    let folder = format!("/proc/{}/fd", sandbox.inner.pid());
    let links = || {
        let mut links: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .map(|link| {
                let kind = link.display().to_string();
                let kind = kind.split(':').next().unwrap_or_default();
                kind.rsplit('/').next().unwrap_or_default().to_owned()
            })
            .collect();
        links.sort_unstable();
        links
    };
    // The signals, three streams, its own score, and one control connection; ended commands are forgotten in a moment.
    let wanted = [
        "anon_inode",
        "null",
        "null",
        "null",
        "oom_score_adj",
        "socket",
    ];
    wait_until("init holds what it needs", || links() == wanted);
}

#[test]
fn a_spawner_that_dies_is_an_error_and_not_a_hang() {
    if !root() {
        return;
    }
    let sandbox = TestBox::with(|spec| spec.lifetime = holm_sandbox_linux::Lifetime::UntilStopped);
    let stat = fs::read_to_string(format!("/proc/{}/stat", sandbox.inner.pid())).unwrap();
    let parent = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .nth(1)
        .unwrap();
    let spawner = rustix::process::Pid::from_raw(parent.parse().unwrap()).unwrap();
    rustix::process::kill_process(spawner, rustix::process::Signal::KILL).unwrap();
    let directory = TestFolder::new();
    let spec = crate::support::spec(&sandbox.engine, directory.path());
    match sandbox.engine.create(&spec).map(|inner| inner.pid()) {
        Err(EngineError::Spawner { .. }) => {}
        other => panic!("{other:?}"),
    }
    // A box that was made to stay does not need the spawner.
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}

#[test]
fn a_memory_eater_is_ended_and_the_box_survives() {
    if !root() {
        return;
    }
    let sandbox = TestBox::with(|spec| {
        spec.limits = Limits {
            memory_bytes: Some(64 << 20),
            ..Limits::default()
        };
    });
    assert!(
        sandbox.inner.unenforced().is_empty(),
        "{:?}",
        sandbox.inner.unenforced()
    );
    let token = token();
    // `tail` keeps what it reads until a line ends, and no line ever does.
    let output = sandbox.sh(&format!(
        "tr '\\0' x < /dev/zero | tail -n 1; echo ended $?; : {token}"
    ));
    assert_eq!(
        (output.exit, output.stdout.as_str()),
        (Exit::Code(0), "ended 137\n")
    );
    wait_until("it is gone", || processes_with(&token).is_empty());
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}

#[test]
fn the_files_of_a_box_are_used_with_its_users_rights() {
    if !root() {
        return;
    }
    let secret = token();
    let planted = Planted(Path::new("/etc").join(&secret));
    fs::write(&planted.0, &secret).unwrap();
    fs::set_permissions(&planted.0, fs::Permissions::from_mode(0o600)).unwrap();
    let sandbox = TestBox::new();
    let user = Power::Root.box_user(IdRange::FIRST);
    let files = sandbox.inner.files(user).unwrap();
    let denied = |outcome: Result<(), FilesError>| match outcome {
        Err(FilesError::Io { source, .. }) => assert!(
            [
                std::io::ErrorKind::PermissionDenied,
                std::io::ErrorKind::ReadOnlyFilesystem
            ]
            .contains(&source.kind()),
            "{source}"
        ),
        other => panic!("{other:?}"),
    };
    // Seen, as in the box, and not read.
    files.metadata(&planted.0).unwrap();
    denied(files.read(&planted.0, 100).map(drop));
    // By a link of the box's making too.
    sandbox
        .sh(&format!("ln -s /etc/{secret} ~/innocent"))
        .success();
    denied(files.read(Path::new("/home/holm/innocent"), 100).map(drop));
    let options = WriteOptions::default();
    denied(files.write_atomic(Path::new("/usr/bin/sh"), b"x", options));
    denied(files.write_atomic(Path::new("/new"), b"x", options));
    denied(files.write_atomic(Path::new("/etc/new"), b"x", options));
    // What the user may do is done as the user would.
    let mine = Path::new("/home/holm/made/file");
    files.write_atomic(mine, b"mine\n", options).unwrap();
    assert_eq!(
        sandbox
            .sh("stat -c %U ~/made ~/made/file; cat ~/made/file; rm -r ~/made")
            .success(),
        "holm\nholm\nmine\n"
    );
    files
        .write_atomic(Path::new("/tmp/file"), b"", options)
        .unwrap();
    assert_eq!(sandbox.sh("stat -c %u /tmp/file").success(), "1000\n");
}

#[test]
fn a_folder_of_a_host_user_is_used_as_that_user() {
    if !root() {
        return;
    }
    use std::os::unix::fs::{MetadataExt, chown};
    const USER: u32 = 4_242;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(folder.path(), Some(USER), Some(USER)).unwrap();
    fs::write(folder.path().join("roots"), "secret").unwrap();
    fs::set_permissions(
        folder.path().join("roots"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let sandbox = TestBox::with(|spec| {
        spec.mounts = vec![MountSpec::Bind {
            source: folder.path().to_path_buf(),
            place: "/shared".into(),
            access: Access::ReadWrite,
            owners: Owners::BoxUserIs {
                uid: USER,
                gid: USER,
            },
        }];
    });
    let files = sandbox.files();
    let options = WriteOptions::default();
    files
        .write_atomic(Path::new("/shared/new/file"), b"x", options)
        .unwrap();
    files.make_fifo(Path::new("/shared/fifo"), 0o640).unwrap();
    for path in ["new", "new/file", "fifo"] {
        let found = fs::metadata(folder.path().join(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (USER, USER), "{path}");
    }
    let text = sandbox.sh("stat -c '%u %a' /shared/new/file /shared/fifo");
    assert_eq!(text.success(), "1000 644\n1000 640\n");
    let secret = files.read(Path::new("/shared/roots"), 100);
    assert!(matches!(secret, Err(FilesError::Io { .. })), "{secret:?}");
}
