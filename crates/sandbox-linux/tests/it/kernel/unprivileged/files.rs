//! Which files of the host a box shows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holm_sandbox_linux::{Access, MountSpec, Owners, UpperLayer};

use crate::support::{TestBox, TestFolder, token};

#[test]
fn the_host_is_there_to_use_and_not_to_change() {
    let sandbox = TestBox::new();
    sandbox.sh("ls /usr/bin/env /bin/sh /etc/passwd").success();
    for place in [
        "/usr/x",
        "/usr/bin/x",
        "/etc/x",
        "/bin/x",
        "/lib/x",
        "/proc/x",
        "/proc/sys/x",
    ] {
        let output = sandbox.sh(&format!("touch {place}"));
        assert_ne!(output.exit, holm_sandbox_linux::Exit::Code(0), "{place}");
    }
    for script in [
        "rm -f /usr/bin/env",
        "chmod 777 /etc/passwd",
        "echo x >> /etc/passwd",
    ] {
        let output = sandbox.sh(script);
        assert_ne!(output.exit, holm_sandbox_linux::Exit::Code(0), "{script}");
    }
    assert!(Path::new("/usr/bin/env").exists());
}

#[test]
fn folders_of_people_and_services_are_empty() {
    let sandbox = TestBox::new();
    let places = "/root /tmp /run /sys /var/lib /var/log /var/cache /var/tmp /mnt /srv /media";
    let script =
        format!("for p in {places}; do ls -A $p 2>/dev/null; done; ls -A /home /home/holm");
    assert_eq!(sandbox.sh(&script).stdout, "/home:\nholm\n\n/home/holm:\n");
    assert_eq!(
        sandbox
            .sh("ls -A / | grep -vE '^(lib.*|s?bin|nix|gnu)$' | tr '\\n' ' '")
            .stdout,
        "dev etc home opt proc root run sys tmp usr var "
    );
}

#[test]
fn secrets_of_the_system_do_not_exist() {
    let sandbox = TestBox::new();
    for name in [
        "shadow",
        "gshadow",
        "sudoers",
        "machine-id",
        "ssl/private",
        "docker",
    ] {
        let output = sandbox.sh(&format!("ls -d /etc/{name} || cat /etc/{name}"));
        assert_eq!(output.stdout, "", "{name}");
        assert!(
            output.stderr.contains("No such file"),
            "{name}: {}",
            output.stderr
        );
    }
    let passwd = sandbox.sh("cut -d: -f3 /etc/passwd").success();
    let people = passwd
        .lines()
        .filter(|id| id.parse::<u32>().is_ok_and(|id| id >= 1000));
    assert_eq!(people.collect::<Vec<_>>(), ["65534", "1000"]);
    assert_eq!(
        sandbox.sh("cat /etc/hostname; getent hosts localhost").exit,
        holm_sandbox_linux::Exit::Code(0)
    );
}

#[test]
fn files_beside_the_box_are_out_of_reach() {
    let sandbox = TestBox::new();
    let secret = token();
    let directory = sandbox.directory.path();
    fs::write(directory.join("secret"), &secret).unwrap();
    fs::write("/tmp/".to_owned() + &secret, &secret).unwrap();
    let path = directory.display();
    let script = format!(
        "cat {path}/secret /tmp/{secret} /proc/self/root{path}/secret /proc/1/root{path}/secret \
         /proc/self/cwd/../../../..{path}/secret /../../..{path}/secret; \
         ls {path} {path}/box {path}/base; grep -rs {secret} /tmp /run /home /var /dev/shm; true"
    );
    let output = sandbox.sh(&script);
    fs::remove_file("/tmp/".to_owned() + &secret).unwrap();
    assert_eq!(output.stdout, "");
    assert_eq!(
        output.stderr.matches("No such file").count() + output.stderr.matches("denied").count(),
        9,
        "{}",
        output.stderr
    );
}

#[test]
fn the_mount_table_names_no_folder_of_the_host() {
    let sandbox = TestBox::new();
    let table = sandbox
        .sh("cat /proc/self/mounts /proc/self/mountinfo /proc/self/mountstats")
        .success();
    let directory = sandbox.directory.path().display().to_string();
    assert!(
        table.contains(" / overlay") || table.contains("overlay / "),
        "{table}"
    );
    assert!(!table.contains(&directory), "{table}");
}

#[test]
fn a_shown_folder_is_shared_as_far_as_it_is_allowed() {
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(shared.path().join("given"), "from the host").unwrap();
    let me = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let bind = |place: &str, access| MountSpec::Bind {
        source: shared.path().to_path_buf(),
        place: place.into(),
        access,
        owners: Owners::BoxUserIs {
            uid: me.0,
            gid: me.1,
        },
    };
    let sandbox = TestBox::with(|spec| {
        spec.mounts = vec![
            bind("/work", Access::ReadWrite),
            bind("/deep/er/view", Access::ReadOnly),
        ];
    });
    let script = "cd /work; cat given; stat -c %u given .; echo back > made; mkdir sub; \
                  touch /deep/er/view/x 2>/dev/null || echo refused; cat /deep/er/view/made";
    let text = sandbox.sh(script).success();
    assert_eq!(text, "from the host1000\n1000\nrefused\nback\n");
    // What the box made belongs to the user of the host, not to a number of the box.
    use std::os::unix::fs::MetadataExt;
    for name in ["made", "sub"] {
        let found = fs::metadata(shared.path().join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), me, "{name}");
    }
}

#[test]
fn an_overlay_keeps_the_hosts_folder_as_it_was() {
    let folder = TestFolder::new();
    let lower = folder.path().join("lower");
    for name in ["lower/sub", "upper", "work"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fs::write(lower.join("sub/file"), "old").unwrap();
    fs::write(lower.join("gone"), "old").unwrap();
    let sandbox = TestBox::with(|spec| {
        let power = holm_sandbox_linux::Engine::start().unwrap().power();
        let owner = power.box_user(spec.ids);
        for name in ["upper", "lower", "lower/sub", "lower/sub/file"] {
            std::os::unix::fs::chown(folder.path().join(name), Some(owner.uid), Some(owner.gid))
                .unwrap();
        }
        spec.mounts = vec![MountSpec::Overlay {
            place: "/work".into(),
            lower: vec![lower.clone()],
            upper: UpperLayer {
                upper: folder.path().join("upper"),
                work: folder.path().join("work"),
            },
        }];
    });
    let script = "cd /work; echo new > sub/file; rm gone; mv sub moved; cat moved/file; ls";
    assert_eq!(sandbox.sh(script).success(), "new\nmoved\n");
    assert_eq!(fs::read_to_string(lower.join("sub/file")).unwrap(), "old");
    assert_eq!(fs::read_to_string(lower.join("gone")).unwrap(), "old");
}

#[test]
fn toolchains_come_without_the_credentials_beside_them() {
    // Not below `/tmp`, which the box has for itself.
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = token();
    for (path, text) in [
        (".cargo/bin/tool", "#!/bin/sh\necho tool runs\n"),
        (".cargo/credentials.toml", secret.as_str()),
        (".local/share/uv/python/x", "fine"),
        (".local/share/uv/credentials/credentials.toml", &secret),
        (".ssh/id_ed25519", &secret),
        (".netrc", &secret),
    ] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        // As careless as it can be: only not being shown protects it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let bases = tempfile::tempdir().unwrap();
    let sandbox = TestBox::with(|spec| {
        let engine = holm_sandbox_linux::Engine::start().unwrap();
        let mut options = crate::support::base_options(bases.path());
        options.toolchain_home = Some(home.path().to_path_buf());
        spec.base = engine.host_base(&options).unwrap().into();
    });
    let path = home.path().display();
    assert_eq!(
        sandbox.sh(&format!("{path}/.cargo/bin/tool")).success(),
        "tool runs\n"
    );
    let script = format!("cat {path}/.local/share/uv/python/x");
    assert_eq!(sandbox.sh(&script).success(), "fine");
    let found = sandbox.sh(&format!(
        "grep -rs {secret} {path}; find {path} -name '*cred*'; ls -A {path}"
    ));
    assert_eq!(found.stdout, ".cargo\n.local\n");
    assert_ne!(
        sandbox.sh(&format!("touch {path}/.cargo/bin/x")).exit,
        holm_sandbox_linux::Exit::Code(0)
    );
}
