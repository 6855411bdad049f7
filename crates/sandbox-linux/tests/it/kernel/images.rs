//! Boxes on images, which may be hostile.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use holm_sandbox_linux::{
    BoxSpec, CommandUser, Engine, EngineError, Exit, IdRange, ImageOptions, Network, PreparedSpec,
    Profile,
};

use super::privileged::root;
use crate::image::{self, mode};
use crate::support::{TestBox, TestFolder, command, run_in, spec, token};

/// An image below a folder that only root may enter, as a server keeps it.
pub(super) struct Image {
    pub(super) folder: TestFolder,
}

impl Image {
    pub(super) fn new() -> Self {
        let folder = TestFolder::new();
        image::make(&folder.path().join("image"));
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("image").join(name)
    }

    pub(super) fn start(&self) -> TestBox {
        self.start_with(&[self.path("")], IdRange::FIRST)
    }

    /// A box that must not come to be.
    pub(super) fn try_start(&self, change: impl FnOnce(&mut BoxSpec)) -> Result<i32, EngineError> {
        let engine = Engine::start().unwrap();
        let directory = TestFolder::new();
        let mut spec = spec(&engine, directory.path());
        spec.base = engine
            .image_base(&self.options(&[self.path("")]))
            .unwrap()
            .into();
        spec.profile = Profile::Image;
        change(&mut spec);
        engine.create(&spec).map(|inner| inner.pid())
    }

    fn options(&self, layers: &[PathBuf]) -> ImageOptions {
        ImageOptions {
            directory: self.folder.path().join("bases"),
            network: Network::None,
            layers: layers.to_vec(),
        }
    }

    pub(super) fn start_with(&self, layers: &[PathBuf], ids: IdRange) -> TestBox {
        TestBox::with(|spec| {
            let options = self.options(layers);
            spec.base = Engine::start()
                .unwrap()
                .image_base(&options)
                .unwrap()
                .into();
            spec.ids = ids;
            spec.profile = Profile::Image;
        })
    }
}

#[test]
fn the_root_is_the_images_and_its_owners_are_those_inside() {
    if !root() {
        return;
    }
    let image = Image::new();
    for ids in [IdRange::FIRST, IdRange::new(77).unwrap()] {
        let sandbox = image.start_with(&[image.path("")], ids);
        assert_eq!(
            sandbox
                .sh("stat -c %u:%g /etc/passwd /home/app / /tmp /run /dev")
                .success(),
            "0:0\n1000:1000\n0:0\n0:0\n0:0\n0:0\n"
        );
        assert_eq!(sandbox.sh("id -un").success(), "app\n");
        assert_eq!(
            sandbox.sh("ls /").success(),
            "bin\ndev\netc\nhome\nlib\nlib64\nlink\nproc\nroot\nrun\nsys\ntmp\nvar\n"
        );
        sandbox
            .sh("echo x > /home/app/file; echo y > /tmp/file; cat /proc/self/stat; ls /sys")
            .success();
        assert_eq!(sandbox.sh("cat /etc/secret").exit, Exit::Code(1));
        assert_eq!(sandbox.sh("echo x > /etc/new").exit, Exit::Code(2));
        let written = sandbox
            .directory
            .path()
            .join("box/root-upper/home/app/file");
        assert_eq!(fs::metadata(written).unwrap().uid(), ids.base() + 1000);
    }
    assert!(!image.path("home/app/file").exists());
}

#[test]
fn nothing_of_the_host_is_seen_but_what_every_box_has() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = image.start();
    let table = sandbox.sh("cat /proc/self/mountinfo").success();
    let folder = image.folder.path().display().to_string();
    assert!(!table.contains(&folder), "{table}");
    assert_eq!(
        table.lines().filter(|line| line.contains(" / / ")).count(),
        1,
        "{table}"
    );
    for line in table.lines() {
        assert!(line.contains("nosuid"), "{line}");
    }
    assert_eq!(
        sandbox
            .sh("cat /etc/hosts /etc/hostname /etc/resolv.conf")
            .success(),
        "127.0.0.1 localhost holm\n::1 localhost ip6-localhost\nholm\n# This box has no network.\n"
    );
}

#[test]
fn links_where_mounts_belong_are_not_seen() {
    if !root() {
        return;
    }
    let image = Image::new();
    let outside = image.folder.path().join(token());
    fs::write(&outside, "host\n").unwrap();
    for (name, target) in [
        ("proc", Path::new("/etc")),
        ("dev", Path::new("../../../../dev")),
        ("run", Path::new("/root")),
        ("sys", Path::new("/proc/1/root")),
        ("tmp", Path::new("/home/app")),
        ("etc/resolv.conf", &outside),
        ("etc/hosts", Path::new("/../../../../../../etc/hosts")),
        ("etc/hostname", Path::new("/etc/passwd")),
    ] {
        symlink(target, image.path(name)).unwrap();
    }
    let sandbox = image.start();
    assert_eq!(
        sandbox
            .sh("for f in proc dev run sys tmp; do readlink /$f; done")
            .stdout,
        ""
    );
    assert_eq!(
        sandbox.sh("cat /etc/resolv.conf").success(),
        "# This box has no network.\n"
    );
    sandbox
        .sh("test -e /proc/self/stat && test -c /dev/null && test -f /etc/passwd")
        .success();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "host\n");
    assert!(image.path("proc").is_symlink());
}

#[test]
fn even_an_image_whose_etc_is_a_link_makes_a_box() {
    if !root() {
        return;
    }
    let image = Image::new();
    fs::rename(image.path("etc"), image.path("var/etc")).unwrap();
    symlink("/var/etc", image.path("etc")).unwrap();
    let sandbox = image.start();
    assert_eq!(
        sandbox.sh("ls /etc").success(),
        "hostname\nhosts\nresolv.conf\n"
    );
}

#[test]
fn setuid_programs_and_devices_of_an_image_give_nothing() {
    if !root() {
        return;
    }
    let image = Image::new();
    mode(&image.path("bin/id"), 0o6755);
    let memory = rustix::fs::makedev(1, 1);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        image.path("memory"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        memory,
    );
    made.unwrap();
    mode(&image.path("memory"), 0o666);
    let sandbox = image.start();
    sandbox.sh("test -u /bin/id && test -c /memory").success();
    assert_eq!(sandbox.sh("id -u; id -ru").success(), "1000\n1000\n");
    let output = sandbox.sh("head -c 1 /memory");
    assert!(output.stderr.contains("Permission denied"), "{output:?}");
}

#[test]
fn a_redirect_of_an_image_leads_only_to_the_image() {
    if !root() {
        return;
    }
    let image = Image::new();
    let top = image.folder.path().join("top");
    let secret = image.folder.path().join("outside");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("file"), "host").unwrap();
    let up = "/..".repeat(12);
    for (name, target) in [
        ("inner", "/home/app".to_owned()),
        ("up", format!("{up}{}", secret.display())),
        ("absolute", secret.display().to_string()),
        ("dots", "..".to_owned()),
        ("empty", "//".to_owned()),
    ] {
        let folder = top.join(name);
        fs::create_dir_all(&folder).unwrap();
        rustix::fs::setxattr(
            &folder,
            "trusted.overlay.redirect",
            target.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
    }
    fs::write(image.path("home/app/mine"), "image").unwrap();
    let sandbox = image.start_with(&[top, image.path("")], IdRange::FIRST);
    assert_eq!(sandbox.sh("ls /inner").success(), "mine\n");
    for name in ["up", "absolute", "dots", "empty"] {
        let output = sandbox.sh(&format!("ls -A /{name}; cat /{name}/file"));
        assert_ne!(output.exit, Exit::Code(0), "{output:?}");
        assert_eq!(output.stdout, "", "{name}");
    }
}

#[test]
fn layers_of_an_image_lie_over_each_other() {
    if !root() {
        return;
    }
    let image = Image::new();
    let top = image.folder.path().join("top");
    fs::create_dir_all(top.join("etc")).unwrap();
    fs::write(
        top.join("etc/passwd"),
        "root:x:0:0::/:/bin/sh\nother:x:1000:1000::/:/bin/sh\n",
    )
    .unwrap();
    let sandbox = image.start_with(&[top, image.path("")], IdRange::FIRST);
    assert_eq!(sandbox.sh("id -un").success(), "other\n");
}

#[test]
fn a_named_box_on_an_image_has_its_own_files() {
    if !root() {
        return;
    }
    let image = Image::new();
    let sandbox = TestBox::with(|spec| {
        let options = image.options(&[image.path("")]);
        spec.base = Engine::start()
            .unwrap()
            .image_base(&options)
            .unwrap()
            .into();
        spec.hostname = Some("web-1".into());
    });
    let text = sandbox
        .sh("uname -n; cat /etc/hostname; grep -c web-1 /etc/hosts")
        .success();
    assert_eq!(text, "web-1\nweb-1\n1\n");
}

#[test]
fn a_box_on_an_image_can_be_prepared() {
    if !root() {
        return;
    }
    let image = Image::new();
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    let options = image.options(&[image.path("")]);
    spec.base = engine.image_base(&options).unwrap().into();
    spec.profile = Profile::Image;
    spec.ids = IdRange::new(9).unwrap();
    let prepared = engine.prepare(PreparedSpec::from(&spec)).unwrap();
    spec.hostname = Some("web-1".into());
    let inner = engine.claim(prepared, &spec).unwrap();
    let mut command = command(&[
        "sh",
        "-c",
        "id -u; uname -n; chown 5 /etc/passwd; stat -c %u /etc/passwd",
    ]);
    command.user = CommandUser::Root;
    let text = run_in(&inner, &command, None).success();
    assert_eq!(text, "0\nweb-1\n5\n");
    inner.stop().unwrap();
}
