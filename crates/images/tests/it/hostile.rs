//! Archives that want out, or want too much.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use holm_images::{Cancel, ImagesError, Limits, Watch};
use holm_testkit::Fingerprint;

use crate::support::{Archive, Item, Place, chain, gzip, listing, place, watched, zstd};

/// Things around the images that an archive may aim at.
fn sentinel(place: &Place) -> Fingerprint {
    let outside = place.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    Fingerprint::of(&outside)
}

#[test]
fn links_that_point_out_of_the_image_lead_nowhere_else() {
    let Some(place) = place() else { return };
    let before = sentinel(&place);
    let outside = place.folder.path().join("outside");
    let aim = outside.to_str().unwrap();
    let up = format!("{}{aim}", "../".repeat(40));
    for target in [aim, up.as_str()] {
        // Through the link, the same path inside is meant, which does not exist.
        let through = Archive::default()
            .long(b'K', target)
            .with(Item::symlink("door", "x"))
            .with(Item::file("door/victim", "hacked"));
        let error = place.refused(&through.bytes());
        assert!(error.contains("leads nowhere"), "{error}");
        // A link in the place of a file is replaced, not written through.
        let replaced = Archive::default()
            .long(b'K', &format!("{target}/victim"))
            .with(Item::symlink("file", "x"))
            .with(Item::file("file", "hacked"));
        let tree = place.unpacked(&replaced);
        assert_eq!(listing(&tree), ["file=hacked"]);
        place.images.remove("image").unwrap();
        // Nor can it be linked to, or given another owner or mode.
        let linked = Archive::default()
            .long(b'K', &format!("{target}/victim"))
            .with(Item::hard_link("stolen", "x"));
        let error = place.refused(&linked.bytes());
        assert!(
            error.contains("not there") || error.contains("`..`"),
            "{error}"
        );
        let owned = Archive::default()
            .long(b'K', target)
            .with(Item::symlink("door", "x"))
            .with(Item::folder("door").mode(0o777).owner(1000, 1000));
        place.unpacked(&owned);
        place.images.remove("image").unwrap();
    }
    assert_eq!(before.changes_to(&Fingerprint::of(&outside)), [""; 0]);
}

#[test]
fn a_parent_link_to_the_host_stays_inside() {
    let Some(place) = place() else { return };
    let before = fs::metadata("/etc").unwrap();
    let archive = Archive::of([
        Item::folder("etc"),
        Item::symlink("door", "../../../../../../../etc"),
        Item::file("door/holm-was-here", "x"),
    ]);
    let tree = place.unpacked(&archive);
    assert_eq!(fs::read(tree.join("etc/holm-was-here")).unwrap(), b"x");
    assert!(!fs::exists("/etc/holm-was-here").unwrap());
    assert_eq!(fs::metadata("/etc").unwrap().mtime(), before.mtime());
}

#[test]
fn absolute_names_are_of_the_image() {
    let Some(place) = place() else { return };
    let name = "/holm-absolute-name";
    let tree = place.unpacked(&Archive::of([
        Item::file(name, "1"),
        Item::hard_link("//link", name),
    ]));
    assert_eq!(listing(&tree), ["holm-absolute-name=1", "link=1"]);
    assert!(!fs::exists(name).unwrap());
}

#[test]
fn names_that_climb_are_refused() {
    let Some(place) = place() else { return };
    for name in ["../x", "a/../../x", "/../x", "..", "a/.."] {
        for item in [
            Item::file(name, "x"),
            Item::folder(name),
            Item::symlink(name, "a"),
        ] {
            let error = place.refused(&Archive::of([item]).bytes());
            assert!(error.contains("climbs"), "{name}: {error}");
        }
        let item = Item::hard_link("link", name);
        assert!(
            place
                .refused(&Archive::of([item]).bytes())
                .contains("climbs")
        );
    }
    for item in [
        Item::file("", "x"),
        Item::file("/", "x"),
        Item::symlink("./", "a"),
    ] {
        place.refused(&Archive::of([item]).bytes());
    }
}

#[test]
fn links_in_a_circle_and_links_to_folders_are_refused() {
    let Some(place) = place() else { return };
    let circle = Archive::of([
        Item::symlink("a", "b"),
        Item::symlink("b", "a"),
        Item::file("a/x", "1"),
    ]);
    assert!(place.refused(&circle.bytes()).contains("circle"));
    let folder = Archive::of([Item::folder("a"), Item::hard_link("b", "a")]);
    assert!(
        place
            .refused(&folder.bytes())
            .contains("hard link to a folder")
    );
    let below = Archive::of([Item::file("a", "1"), Item::file("a/b", "1")]);
    assert!(place.refused(&below.bytes()).contains("not a folder"));
}

#[test]
fn owners_that_a_box_does_not_have_are_refused() {
    let Some(place) = place() else { return };
    for (uid, gid) in [(65_536, 0), (0, 65_536), (u64::from(u32::MAX), 0)] {
        let archive = Archive::of([Item::file("a", "1").owner(uid, gid)]);
        let error = place.refused(&archive.bytes());
        assert!(error.contains("0 to 65535"), "{error}");
    }
    let archive = Archive::default()
        .pax(&[("uid", b"18446744073709551615")])
        .with(Item::file("a", "1"));
    assert!(place.refused(&archive.bytes()).contains("0 to 65535"));
}

#[test]
fn device_nodes_are_left_out() {
    let Some(place) = place() else { return };
    let archive = Archive::of([
        Item::new(b'4', "disk", "").mode(0o666),
        // What overlayfs takes for a whiteout.
        Item::new(b'3', "whiteout", ""),
        Item::file("a", "1"),
    ]);
    assert_eq!(listing(&place.unpacked(&archive)), ["a=1"]);
}

#[test]
fn broken_archives_are_told_and_leave_nothing() {
    let Some(place) = place() else { return };
    let whole = Archive::of([
        Item::file("a", &"content".repeat(1000)),
        Item::file("b", "2"),
    ]);
    let bytes = whole.bytes();
    let mut damaged = bytes.clone();
    damaged[3] ^= 1;
    let mut gzip_damaged = gzip(&bytes);
    let crc = gzip_damaged.len() - 6;
    gzip_damaged[crc] ^= 1;
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    for (what, hostile, wanted) in [
        ("no archive", b"hello".repeat(500), "no tar archive"),
        ("empty file", vec![], "empty"),
        ("empty archive", Archive::default().bytes(), "empty"),
        (
            "cut in content",
            bytes[..3000].to_vec(),
            "middle of an entry",
        ),
        (
            "cut in a header",
            bytes[..300].to_vec(),
            "middle of an entry",
        ),
        ("cut between entries", whole.without_end(), "cut off"),
        ("damaged header", damaged, "checksum"),
        ("cut gzip", half(gzip(&bytes)), "could not read"),
        ("damaged gzip", gzip_damaged, "could not read"),
        ("cut zstd", half(zstd(&bytes)), "could not read"),
    ] {
        let error = place.refused(&hostile);
        assert!(error.contains(wanted), "{what}: {error}");
    }
}

#[test]
fn headers_that_want_memory_are_refused() {
    let Some(place) = place() else { return };
    let size = 60 << 30;
    for kind in [b'L', b'K', b'x', b'g'] {
        let archive = Archive::default().with_size(Item::new(kind, "x", ""), size);
        let error = place.refused(&archive.bytes());
        assert!(error.contains("bytes, more than"), "{error}");
    }
    let many = (0..100).fold(Archive::default(), |archive, _| archive.pax(&[("a", b"b")]));
    assert!(place.refused(&many.bytes()).contains("too many headers"));
    let long = Archive::default()
        .pax(&[("path", "a/".repeat(3000).as_bytes())])
        .with(Item::file("x", "1"));
    assert!(place.refused(&long.bytes()).contains("too long"));
    let wide = Archive::default()
        .pax(&[("path", "a".repeat(256).as_bytes())])
        .with(Item::file("x", "1"));
    assert!(place.refused(&wide.bytes()).contains("too long"));
    let nul = Archive::default()
        .pax(&[("path", b"a\0b")])
        .with(Item::file("x", "1"));
    assert!(place.refused(&nul.bytes()).contains("NUL"));
    let global = Item {
        content: b"9 size=1\n".to_vec(),
        ..Item::new(b'g', "x", "")
    };
    let global = Archive::of([global, Item::file("a", "1")]);
    assert!(place.refused(&global.bytes()).contains("global pax header"));
}

#[test]
fn sparse_and_unknown_entries_are_refused() {
    let Some(place) = place() else { return };
    let sparse = Archive::default().with_size(Item::new(b'S', "x", ""), 1 << 50);
    assert!(place.refused(&sparse.bytes()).contains("sparse"));
    let sparse = Archive::default()
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.realsize", b"99999999999999"),
        ])
        .with(Item::file("x", "1"));
    assert!(place.refused(&sparse.bytes()).contains("without --sparse"));
    let unknown = Archive::of([Item::new(b'M', "x", "")]);
    assert!(place.refused(&unknown.bytes()).contains("unknown type 'M'"));
}

#[test]
fn an_image_has_limits() {
    let Some(place) = place() else { return };
    let refused = |limits: Limits, archive: &Archive| {
        let path = place.file("in.tar", &zstd(&archive.bytes()));
        let images = place.images.clone().with_limits(limits);
        let error = watched(|watch| images.from_tar("image", &path, watch)).unwrap_err();
        place.assert_nothing_left();
        chain(&error)
    };
    let limits = Limits::default();
    let bytes = Limits {
        unpacked_bytes_max: 1 << 20,
        ..limits
    };
    // Some hundred bytes that become 2 MiB.
    let bomb = Item {
        content: vec![0; 2 << 20],
        ..Item::file("bomb", "")
    };
    assert!(refused(bytes, &Archive::of([bomb])).contains("1048576 bytes"));
    // A size that the limit is compared with before anything is read; and one that overflows a sum.
    for size in ["99999999999", "18446744073709551615"] {
        let said = Archive::of([Item::file("a", "1")])
            .pax(&[("size", size.as_bytes())])
            .with(Item::file("x", "1"));
        let error = refused(bytes, &said);
        assert!(error.contains("1048576 bytes"), "{error}");
    }
    let entries = Limits {
        entries_max: 10,
        ..limits
    };
    let many = Archive::of((0..11).map(|_| Item::file("same", "")));
    assert!(refused(entries, &many).contains("10 entries"));
    let folders = Limits {
        folders_max: 10,
        ..limits
    };
    let many = Archive::of((0..11).map(|number| Item::folder(&number.to_string())));
    assert!(refused(folders, &many).contains("10 folders"));
}

#[test]
fn a_tree_deeper_than_any_path_is_removed_again() {
    let Some(place) = place() else { return };
    // Each round goes 1000 folders deeper, through a link in the top.
    let mut archive = Archive::default();
    for round in 0..4 {
        let (here, next) = (format!("d{round}"), format!("d{}", round + 1));
        let deep = format!("{here}/{}", "x/".repeat(1000));
        if round == 0 {
            archive = archive.with(Item::folder(&here));
        }
        archive = archive.long(b'L', &deep).with(Item::folder("x"));
        archive = archive.long(b'K', &deep).with(Item::symlink(&next, "x"));
    }
    place.unpacked(&archive);
    place.images.remove("image").unwrap();
    place.assert_nothing_left();
}

#[test]
fn an_import_ends_when_it_is_cancelled_or_late() {
    let Some(place) = place() else { return };
    let path = place.file("in.tar", &Archive::of([Item::file("a", "1")]).bytes());
    let cancel = Cancel::new();
    cancel.cancel();
    let error = watched(|watch| {
        let watch = Watch {
            cancel: &cancel,
            ..*watch
        };
        place.images.from_tar("image", &path, &watch).unwrap_err()
    });
    assert!(matches!(error, ImagesError::Cancelled), "{error}");
    let error = watched(|watch| {
        let watch = Watch {
            deadline: Instant::now(),
            ..*watch
        };
        place.images.from_tar("image", &path, &watch).unwrap_err()
    });
    assert!(matches!(error, ImagesError::DeadlinePassed), "{error}");
    place.assert_nothing_left();
}
