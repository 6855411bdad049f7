//! Dockerfiles: described by us, or built by buildah.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holm_images::{
    BuildNetwork, BuildOptions, Cancel, ImagesError, ImportedImage, Progress, Watch,
};
use holm_testkit::Fingerprint;

use crate::fake_registry::FakeRegistry;
use crate::registries::serving;
use crate::support::{
    Archive, Item, LayoutFolder, Place, chain, gzip, listing, place, this_architecture, watched,
};

/// An image with a shell and a few programs of this machine.
fn shell_image() -> Vec<u8> {
    let programs = [
        "sh", "cat", "id", "ls", "sleep", "ln", "chmod", "chown", "kill", "mknod",
    ];
    let mut files = BTreeSet::new();
    for program in programs {
        let program = format!("/bin/{program}");
        let libraries = Command::new("ldd").arg(&program).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        files.extend(
            libraries
                .split_whitespace()
                .filter(|word| word.starts_with("/lib"))
                .map(str::to_owned),
        );
        files.insert(program);
    }
    let mut archive = Archive::of([
        Item::folder("./"),
        Item::folder("tmp").mode(0o1777),
        Item::folder("usr/bin"),
        Item::symlink("bin", "usr/bin"),
    ]);
    for file in files {
        archive = archive.with(Item {
            content: fs::read(&file).unwrap(),
            ..Item::file(&file, "").mode(0o755)
        });
    }
    gzip(&archive.bytes())
}

fn base(place: &Place, layer: Vec<u8>) -> FakeRegistry {
    let layout = LayoutFolder::new(place.folder.path().join("base"));
    let manifest = layout.image(this_architecture(), &[layer]);
    serving(&layout, &manifest, |_, answer| answer)
}

fn have_builder() -> bool {
    let found = Command::new("buildah").arg("--version").output().is_ok()
        && Command::new("bwrap").arg("--version").output().is_ok();
    if !found {
        println!("skipped: buildah or bubblewrap is not installed");
    }
    found
}

/// Builds, and returns the log too.
fn build(place: &Place, dockerfile: &str) -> (Result<ImportedImage, ImagesError>, Vec<String>) {
    let told = Mutex::new(Vec::new());
    let progress = |progress: Progress<'_>| {
        if let Progress::Line(line) = progress {
            told.lock().unwrap().push(line.to_owned());
        }
    };
    let outcome = watched(|watch| {
        let watch = Watch {
            progress: &progress,
            ..*watch
        };
        let context = place.folder.path().join("context");
        let context = context.exists().then_some(context.as_path());
        place.images.build(
            "image",
            dockerfile,
            context,
            &BuildOptions::default(),
            &watch,
        )
    });
    (outcome, told.into_inner().unwrap())
}

#[test]
fn a_dockerfile_that_only_describes_is_a_pull() {
    let Some(place) = place() else { return };
    let registry = base(&place, gzip(&Archive::of([Item::file("a", "1")]).bytes()));
    let address = registry.address;
    let text = format!("FROM {address}/base:1\nENV A=new B=2\nWORKDIR /deep/er\nCMD [\"x\"]\n");
    let (image, log) = build(&place, &text);
    let image = image.unwrap();
    assert_eq!(listing(&image.layers[0]), ["a=1", "deep", "deep/er"]);
    assert_eq!(image.config.env, ["PATH=/usr/bin", "A=new", "B=2"]);
    assert_eq!(image.config.working_dir.as_deref(), Some("/deep/er"));
    assert_eq!(image.config.cmd, ["x"]);
    assert_eq!(log, [format!("FROM {address}/base:1")]);
    assert_eq!(place.images.get("image").unwrap(), image);
}

#[test]
fn steps_run_and_owners_modes_and_context_are_kept() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    fs::create_dir(place.folder.path().join("context")).unwrap();
    place.file("context/from-context", b"copied");
    let text = format!(
        "ARG BASE={}/base\nFROM $BASE:1 AS first\nUSER 0\nRUN echo from first > /first\n\
         FROM $BASE:1\nUSER 0\nRUN echo hi > /file; echo said by a step\n\
         RUN chown 7:65535 /file && chmod 4755 /file\n\
         COPY from-context /copied\nCOPY --from=first /first /first\nENV PATH=/x:$PATH\nWORKDIR /w\n",
        registry.address
    );
    let (image, log) = build(&place, &text);
    let image = image.unwrap_or_else(|error| panic!("{}\n{}", chain(&error), log.join("\n")));
    let tree = &image.layers[0];
    let read = |name: &str| fs::read_to_string(tree.join(name)).unwrap();
    assert_eq!(read("file"), "hi\n");
    assert_eq!(read("copied"), "copied");
    assert_eq!(read("first"), "from first\n");
    let found = fs::metadata(tree.join("file")).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o7777),
        (7, 65_535, 0o4755)
    );
    let found = fs::metadata(tree.join("copied")).unwrap();
    assert_eq!((found.uid(), found.gid()), (0, 0));
    assert!(tree.join("w").is_dir());
    assert!(image.config.env.contains(&"PATH=/x:/usr/bin".to_owned()));
    assert!(log.contains(&"said by a step".to_owned()), "{log:?}");
    assert_eq!(place.images.list().unwrap(), ["image"]);
    let left = fs::read_dir(place.folder.path().join("images"))
        .unwrap()
        .count();
    assert_eq!(left, 2, "the image and the lock");
}

#[test]
fn a_step_that_fails_is_shown_and_leaves_nothing() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    let text = format!(
        "FROM {}/base:1\nUSER 0\nRUN echo the reason; exit 9\n",
        registry.address
    );
    let (outcome, _) = build(&place, &text);
    let error = chain(&outcome.unwrap_err());
    assert!(error.contains("the reason"), "{error}");
    place.assert_nothing_left();
    let (outcome, _) = build(&place, "FROM oci:/etc\nRUN x\n");
    let error = outcome.unwrap_err();
    assert!(
        matches!(error, ImagesError::InvalidReference { .. }),
        "{error}"
    );
}

#[test]
fn a_step_is_alone_and_has_no_power_on_the_host() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    let before = Fingerprint::of(&outside);
    let text = format!(
        "FROM {}/base:1\nUSER 0\nRUN exec 2>&1; cat /proc/self/uid_map; cat /proc/net/dev; ls -d /proc/[0-9]*; \
         ls /proc/1/root/ /proc/2/root/; ls /proc/1/root/{outside}; cat /proc/kmsg; \
         mknod /disk b 254 0; kill -9 1; echo over > /proc/sys/kernel/core_pattern; echo still here\n",
        registry.address,
        outside = outside.display(),
    );
    let (outcome, log) = build(&place, &text);
    let said = log.join("\n");
    let image = outcome.unwrap_or_else(|error| panic!("{}\n{said}", chain(&error)));
    assert!(log.contains(&"still here".to_owned()), "{said}");
    let map = log.iter().find(|line| line.contains("65536")).unwrap();
    assert_ne!(map.split_whitespace().nth(1), Some("0"), "{said}");
    assert!(!said.contains("eth0") && !said.contains("victim"), "{said}");
    let processes = log.iter().filter(|line| line.starts_with("/proc/")).count();
    assert!(processes < 20, "{said}");
    assert!(!image.layers[0].join("disk").exists());
    assert_eq!(before.changes_to(&Fingerprint::of(&outside)), [""; 0]);
}

#[test]
fn steps_have_the_hosts_network_when_asked_for() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    let text = format!(
        "FROM {}/base:1\nUSER 0\nRUN cat /proc/net/route > /route\n",
        registry.address
    );
    let options = BuildOptions {
        network: BuildNetwork::Host,
        ..BuildOptions::default()
    };
    let image = watched(|watch| place.images.build("image", &text, None, &options, watch)).unwrap();
    // Names of interfaces and destinations; counters in the same table move on.
    let names = |path: &std::path::Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let words = |line: &str| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        };
        text.lines().map(words).collect()
    };
    let host = std::path::Path::new("/proc/net/route");
    assert_eq!(names(&image.layers[0].join("route")), names(host));
}

#[test]
fn a_build_ends_with_everything_it_started() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    let text = format!(
        "FROM {}/base:1\nUSER 0\nRUN echo waiting; sleep 54321\n",
        registry.address
    );
    let cancel = Cancel::new();
    let progress = |progress: Progress<'_>| {
        if progress == Progress::Line("waiting") {
            cancel.cancel();
        }
    };
    let watch = Watch {
        cancel: &cancel,
        deadline: Instant::now() + Duration::from_secs(50),
        progress: &progress,
    };
    let options = BuildOptions::default();
    let error = place
        .images
        .build("image", &text, None, &options, &watch)
        .unwrap_err();
    assert!(matches!(error, ImagesError::Cancelled), "{error}");
    place.assert_nothing_left();
    for entry in fs::read_dir("/proc").unwrap() {
        let command = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&command).contains("sleep\u{0}54321"));
    }
}

#[test]
fn a_step_that_eats_memory_is_ended() {
    let Some(place) = place() else { return };
    if !have_builder() {
        return;
    }
    let registry = base(&place, shell_image());
    // Two gibibytes, and then it would succeed.
    let text = format!(
        "FROM {}/base:1\nUSER 0\nRUN x=a; for i in 1 2 3 4 5 6 7 8; do x=$x$x$x$x$x$x$x$x; \
         x=$x$x; done; echo survived\n",
        registry.address
    );
    let told = Mutex::new(Vec::new());
    let progress = |progress: Progress<'_>| {
        if let Progress::Line(line) = progress {
            told.lock().unwrap().push(line.to_owned());
        }
    };
    let options = BuildOptions {
        memory_bytes_max: 256 << 20,
        ..BuildOptions::default()
    };
    let outcome = watched(|watch| {
        let watch = Watch {
            progress: &progress,
            ..*watch
        };
        place.images.build("image", &text, None, &options, &watch)
    });
    let log = told.into_inner().unwrap();
    if log.iter().any(|line| line.contains("not limited")) {
        println!("skipped: this host does not limit memory");
        return;
    }
    assert!(!log.contains(&"survived".to_owned()), "{log:?}");
    let error = outcome.unwrap_err();
    assert!(
        matches!(error, ImagesError::ProgramFailed { .. }),
        "{error}"
    );
    place.assert_nothing_left();
}
