//! A box that is made again on the folder of an earlier one, which may have been hostile.

use std::fs;
use std::path::Path;

use holm_sandbox_linux::{BoxSpec, Durability, Engine, EngineError, LinuxBox, Step};

use crate::support::{Output, TestFolder, command, probed, run_in, spec, token};

struct Folder {
    engine: Engine,
    spec: BoxSpec,
    _directory: TestFolder,
}

impl Folder {
    fn new() -> Self {
        let engine = Engine::start().unwrap();
        let directory = TestFolder::new();
        let mut spec = spec(&engine, directory.path());
        spec.durability = Durability::Durable;
        probed(&mut spec);
        Self {
            engine,
            spec,
            _directory: directory,
        }
    }

    /// Runs one script in one life of the box.
    fn live(&self, script: &str) -> Output {
        self.during(|inner| run_in(inner, &command(&["sh", "-c", script]), None))
    }

    fn during<T>(&self, act: impl FnOnce(&LinuxBox) -> T) -> T {
        let inner = self.engine.create(&self.spec).unwrap();
        let result = act(&inner);
        inner.stop().unwrap();
        result
    }
}

#[test]
fn files_of_the_first_life_are_there_in_the_second() {
    let folder = Folder::new();
    folder
        .live("echo kept > ~/file; echo lost > /tmp/file")
        .success();
    assert_eq!(folder.live("cat ~/file; ls -A /tmp").success(), "kept\n");
}

#[test]
fn a_volatile_layer_is_not_taken_for_a_whole_one() {
    let mut folder = Folder::new();
    folder.spec.durability = Durability::Volatile;
    folder.live("echo x > ~/file").success();
    match folder.engine.create(&folder.spec).map(|inner| inner.pid()) {
        Err(EngineError::Step { step, .. }) => assert!(matches!(*step, Step::MountRoot { .. })),
        other => panic!("{other:?}"),
    }
}

#[test]
fn planted_links_move_no_mount_out_of_the_box() {
    let folder = Folder::new();
    let target = tempfile::tempdir().unwrap();
    let secret = token();
    fs::write(target.path().join("secret"), &secret).unwrap();
    let outside = target.path().display();
    // As root's box user most of this is refused; as an ordinary user's it all works.
    let script = format!(
        "for p in /tmp /run /dev /proc /etc /usr /opt /sys /var /root /home/holm /home; do \
           mv $p $p.old 2>/dev/null || rmdir $p 2>/dev/null || continue; \
           ln -s {outside} $p && echo $p; done; \
         ln -s {outside} ~/link 2>/dev/null; ln -s /proc/1/root ~/root 2>/dev/null; true"
    );
    let planted = folder.live(&script).stdout;
    let before: Vec<_> = fs::read_dir(target.path()).unwrap().collect();
    // The mounts themselves cannot be moved away.
    for place in ["/tmp", "/run", "/dev", "/proc", "/etc", "/usr"] {
        assert!(!planted.lines().any(|line| line == place), "{planted}");
    }
    let output = folder.during(|inner| {
        let mut command = command(&[
            "sh",
            "-c",
            "cat /home/secret /var/secret /root/secret; echo end",
        ]);
        command.cwd = "/".into();
        run_in(inner, &command, None)
    });
    assert_eq!(output.stdout, "end\n", "{}", output.stderr);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), before.len());
}

#[test]
fn overlay_marks_set_inside_mean_nothing_in_the_next_life() {
    let folder = Folder::new();
    folder
        .live("mkdir ~/folder; echo x > ~/folder/file; mkdir -p ~/usr ~/etc")
        .success();
    let marks = folder.during(|inner| {
        run_in(
            inner,
            &crate::support::probe_command("overlay_marks", "/home/holm/folder"),
            None,
        )
    });
    for mark in [
        "trusted.overlay.opaque",
        "trusted.overlay.redirect",
        "security.capability",
    ] {
        assert!(
            marks
                .stderr
                .contains(&format!("{mark}: Operation not permitted")),
            "{marks:?}"
        );
    }
    let upper = Path::new(&folder.spec.directory).join("root-upper/home/holm/folder");
    assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "x\n");
    let seen = folder.live("ls -A ~/folder ~; cat ~/folder/file");
    assert_eq!(
        seen.success(),
        "/home/holm:\netc\nfolder\nusr\n\n/home/holm/folder:\nfile\nx\n"
    );
}

#[test]
fn a_planted_whiteout_or_socket_is_only_a_file() {
    let folder = Folder::new();
    folder
        .live("mkfifo ~/pipe; echo x > ~/.wh.file; echo x > ~/file")
        .success();
    let output = folder.live("ls -A ~; test -p ~/pipe && cat ~/file");
    assert_eq!(output.success(), ".wh.file\nfile\npipe\nx\n");
}
