//! Honest archives come out as they went in.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use holm_images::{Images, ImagesError, Limits, Progress};

use crate::support::{Archive, Item, chain, gzip, listing, place, watched, zstd};

#[test]
fn a_root_file_system_keeps_kinds_modes_owners_and_times() {
    let Some(place) = place() else { return };
    let archive = Archive::of([
        Item::folder("./").mode(0o711).owner(5, 6),
        Item::folder("./usr"),
        Item::folder("./usr/bin").mode(0o2750).owner(7, 65_535),
        Item::file("./usr/bin/su", "su").mode(0o4755),
        Item::file("./home/me/note", "hi")
            .mode(0o600)
            .owner(1000, 1001),
        Item::hard_link("./usr/bin/doas", "./usr/bin/su"),
        Item::symlink("./bin", "usr/bin").owner(1000, 1000),
        Item::symlink("./absolute", "/usr/bin/su"),
        Item::new(b'6', "./pipe", "").mode(0o622),
        Item::new(b'3', "./dev/null", "").mode(0o666),
    ]);
    let tree = place.unpacked(&archive);
    assert_eq!(
        listing(&tree),
        [
            "absolute->/usr/bin/su",
            "bin->usr/bin",
            "home",
            "home/me",
            "home/me/note=hi",
            "pipe",
            "usr",
            "usr/bin",
            "usr/bin/doas=su",
            "usr/bin/su=su",
        ]
    );
    let found = |name: &str| fs::symlink_metadata(tree.join(name)).unwrap();
    let facts = |name: &str| {
        let found = found(name);
        (
            found.mode() & 0o7777,
            found.uid(),
            found.gid(),
            found.mtime(),
        )
    };
    assert_eq!(facts(""), (0o711, 5, 6, 1_000_000_000));
    assert_eq!(facts("usr/bin"), (0o2750, 7, 65_535, 1_000_000_000));
    assert_eq!(facts("usr/bin/su"), (0o4755, 0, 0, 1_000_000_000));
    assert_eq!(facts("home/me/note"), (0o600, 1000, 1001, 1_000_000_000));
    assert_eq!(facts("bin").3, 1_000_000_000);
    assert_eq!((found("bin").uid(), found("bin").gid()), (1000, 1000));
    assert!(found("pipe").file_type().is_fifo());
    assert_eq!(facts("pipe").0, 0o622);
    assert_eq!(found("usr/bin/su").ino(), found("usr/bin/doas").ino());
    // Folders that the archive does not mention.
    assert_eq!(facts("home").0, 0o755);
}

#[test]
fn compression_is_found_by_content() {
    let Some(place) = place() else { return };
    let plain = Archive::of([Item::file("a", "1")]).bytes();
    for (name, bytes) in [
        ("plain", plain.clone()),
        ("gzip", gzip(&plain)),
        ("zstd", zstd(&plain)),
    ] {
        let path = place.file("archive", &bytes);
        let image = watched(|watch| place.images.from_tar(name, &path, watch)).unwrap();
        assert_eq!(listing(&image.layers[0]), ["a=1"], "{name}");
        assert_eq!(image.bytes, 1);
    }
    assert_eq!(place.images.list().unwrap(), ["gzip", "plain", "zstd"]);
    let error = place.refused_named("xz", b"\xfd7zXZ\0rest");
    assert!(
        error.contains("xz") && error.contains("use gzip"),
        "{error}"
    );
}

#[test]
fn long_names_of_both_formats_and_binary_capabilities_are_understood() {
    let Some(place) = place() else { return };
    let (gnu, pax) = ("g/".repeat(150) + "file", "p/".repeat(150) + "file");
    // Bits 1 and 3 are a line end, which a naive reader of pax records stumbles over.
    let mut capability = [0_u8; 20];
    capability[3] = 2;
    capability[4] = 0x0a;
    let archive = Archive::default()
        .long(b'L', &gnu)
        .with(Item::file("short", "1"))
        .long(b'K', &gnu)
        .with(Item::symlink("to-gnu", "short"))
        .pax(&[
            ("path", pax.as_bytes()),
            ("uid", b"42"),
            ("mtime", b"1234.5"),
            ("SCHILY.xattr.security.capability", &capability),
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ])
        .with(Item::file("short", "2"));
    let tree = place.unpacked(&archive);
    assert_eq!(fs::read(tree.join(&gnu)).unwrap(), b"1");
    assert_eq!(fs::read(tree.join("to-gnu")).unwrap(), b"1");
    let found = fs::metadata(tree.join(&pax)).unwrap();
    assert_eq!((found.uid(), found.mtime()), (42, 1234));
    assert_eq!(found.mtime_nsec(), 500_000_000);
    let mut names = vec![0; 1024];
    let length = rustix::fs::listxattr(tree.join(&pax), names.as_mut_slice()).unwrap();
    assert_eq!(&names[..length], b"security.capability\0");
    let mut value = vec![0; 64];
    let length =
        rustix::fs::getxattr(tree.join(&pax), "security.capability", value.as_mut_slice()).unwrap();
    assert_eq!(value[..length], capability);
}

#[test]
fn the_later_of_two_entries_wins() {
    let Some(place) = place() else { return };
    let archive = Archive::of([
        Item::file("a", "first"),
        Item::hard_link("b", "a"),
        Item::file("a", "second"),
        Item::file("c/d/e", "tree"),
        Item::file("c", "was a folder"),
        Item::file("f", "was a file"),
        Item::folder("f"),
        Item::folder("g").mode(0o700),
        Item::file("g/kept", "1"),
        Item::folder("g").mode(0o711),
        Item::symlink("h", "g"),
        Item::folder("h"),
        Item::hard_link("a", "a"),
    ]);
    let tree = place.unpacked(&archive);
    assert_eq!(
        listing(&tree),
        [
            "a=second",
            "b=first",
            "c=was a folder",
            "f",
            "g",
            "g/kept=1",
            "h"
        ]
    );
    assert_eq!(fs::metadata(tree.join("g")).unwrap().mode() & 0o777, 0o711);
}

#[test]
fn names_lead_through_links_of_the_image_as_they_would_inside() {
    let Some(place) = place() else { return };
    let archive = Archive::of([
        Item::folder("usr/lib"),
        Item::symlink("lib", "usr/lib"),
        Item::symlink("lib64", "/usr/lib"),
        Item::file("lib/a", "1"),
        Item::file("lib64/b", "2"),
        Item::hard_link("lib64/c", "/lib/a"),
    ]);
    assert_eq!(
        listing(&place.unpacked(&archive)),
        [
            "lib->usr/lib",
            "lib64->/usr/lib",
            "usr",
            "usr/lib",
            "usr/lib/a=1",
            "usr/lib/b=2",
            "usr/lib/c=1"
        ]
    );
}

#[test]
fn zeros_become_holes_and_sizes_stay() {
    let Some(place) = place() else { return };
    let size = 8 << 20;
    let zeros = Item {
        content: vec![0; size],
        ..Item::file("zeros", "")
    };
    let tree = place.unpacked(&Archive::of([zeros, Item::file("empty", "")]));
    let found = fs::metadata(tree.join("zeros")).unwrap();
    assert_eq!(found.len(), size as u64);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    assert_eq!(fs::metadata(tree.join("empty")).unwrap().len(), 0);
}

#[test]
fn an_image_is_found_listed_and_removed() {
    let Some(place) = place() else { return };
    let path = place.file("in.tar", &Archive::of([Item::file("a", "1")]).bytes());
    let told = std::sync::Mutex::new(Vec::new());
    let image = watched(|watch| {
        let progress = |progress: Progress<'_>| told.lock().unwrap().push(format!("{progress:?}"));
        let watch = holm_images::Watch {
            progress: &progress,
            ..*watch
        };
        place.images.from_tar("one", &path, &watch)
    })
    .unwrap();
    assert_eq!(told.into_inner().unwrap(), ["Unpacked { bytes: 1 }"]);
    assert_eq!(place.images.get("one").unwrap(), image);
    assert_eq!(image.source, format!("tar {}", path.display()));
    let again = watched(|watch| place.images.from_tar("one", &path, watch)).unwrap_err();
    assert!(
        matches!(again, ImagesError::AlreadyExists { .. }),
        "{again}"
    );
    // Another process sees it too.
    let other = Images::open(&place.folder.path().join("images")).unwrap();
    assert_eq!(other.list().unwrap(), ["one"]);
    other.remove("one").unwrap();
    assert!(matches!(
        place.images.get("one"),
        Err(ImagesError::NotFound { .. })
    ));
    assert!(matches!(
        other.remove("one"),
        Err(ImagesError::NotFound { .. })
    ));
    place.assert_nothing_left();
    for name in ["../x", ".lock", "", "a/b"] {
        let error = watched(|watch| place.images.from_tar(name, &path, watch)).unwrap_err();
        assert!(matches!(error, ImagesError::InvalidName { .. }), "{error}");
    }
}

#[test]
fn users_of_the_host_cannot_reach_an_image() {
    let Some(place) = place() else { return };
    place.unpacked(&Archive::of([Item::file("su", "x").mode(0o4755)]));
    let folder = place.folder.path().join("images");
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o700);
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = Images::open(&folder).unwrap_err();
    assert!(
        matches!(error, ImagesError::UnsafeDirectory { .. }),
        "{error}"
    );
}

#[test]
fn leftovers_of_a_dead_import_are_swept_and_those_of_a_living_one_are_not() {
    let Some(place) = place() else { return };
    let folder = place.folder.path().join("images");
    for name in ["dead", "living"] {
        fs::create_dir_all(folder.join(format!(".staging-{name}/work/a/b"))).unwrap();
    }
    let living = fs::File::open(folder.join(".staging-living")).unwrap();
    rustix::fs::flock(&living, rustix::fs::FlockOperation::LockExclusive).unwrap();
    Images::open(&folder).unwrap();
    assert!(!folder.join(".staging-dead").exists());
    assert!(folder.join(".staging-living/work").exists());
}

#[test]
fn a_disk_that_is_nearly_full_is_left_alone() {
    let Some(place) = place() else { return };
    let limits = Limits {
        free_bytes_min: u64::MAX,
        ..Limits::default()
    };
    let path = place.file("in.tar", &Archive::of([Item::file("a", "1")]).bytes());
    let images = place.images.clone().with_limits(limits);
    let error = watched(|watch| images.from_tar("image", &path, watch)).unwrap_err();
    assert!(chain(&error).contains("make room"), "{error}");
    place.assert_nothing_left();
}

#[test]
fn a_disk_that_fills_up_is_told_and_left_as_it_was() {
    let Some(place) = place() else { return };
    let small = place.folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let options = Some(c"size=8m");
    let flags = rustix::mount::MountFlags::empty();
    if let Err(errno) = rustix::mount::mount("tmpfs", &small, "tmpfs", flags, options) {
        println!("skipped: tmpfs cannot be mounted here ({errno})");
        return;
    }
    let images = Images::open(&small.join("images"))
        .unwrap()
        .with_limits(Limits {
            free_bytes_min: 0,
            ..Limits::default()
        });
    let free = || rustix::fs::statvfs(&small).unwrap().f_bfree;
    let before = free();
    let large = Item {
        content: vec![1; 16 << 20],
        ..Item::file("large", "")
    };
    let path = place.file("in.tar", &Archive::of([large]).bytes());
    let outcome = watched(|watch| images.from_tar("image", &path, watch));
    let (after, names) = (free(), images.list().unwrap());
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::DETACH).unwrap();
    let error = outcome.unwrap_err();
    assert!(matches!(error, ImagesError::DiskFull { .. }), "{error}");
    assert_eq!((after, names.len()), (before, 0));
}
