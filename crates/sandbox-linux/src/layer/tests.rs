//! Layers as a hostile box may leave them. As root and as an ordinary user, as far as that can make them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;

const OPTIONS: LayerOptions = LayerOptions {
    owners: None,
    bytes_max: None,
    durability: Durability::Volatile,
};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The layer at `from` of a new folder, copied to `to`.
fn copied(make: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf, LayerReport) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    make(&from);
    let report = copy_layer(&from, &to, &OPTIONS).unwrap();
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "something is left beside the copy");
    (folder, to, report)
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    let count = rustix::fs::getxattr(path, name, &mut *value).ok()?;
    value.truncate(count);
    Some(value)
}

#[test]
fn files_folders_links_and_pipes_are_as_they_were() {
    let (_folder, to, report) = copied(|from| {
        fs::create_dir(from.join("closed")).unwrap();
        fs::write(from.join("closed/file"), "text").unwrap();
        fs::set_permissions(from.join("closed/file"), fs::Permissions::from_mode(0o4711)).unwrap();
        fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o2750)).unwrap();
        symlink("/etc/shadow", from.join("link")).unwrap();
        rustix::fs::mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _nobody = UnixListener::bind(from.join("socket")).unwrap();
        let old = fs::File::options()
            .write(true)
            .open(from.join("closed/file"))
            .unwrap();
        old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000, 42))
            .unwrap();
        fs::set_permissions(from, fs::Permissions::from_mode(0o711)).unwrap();
    });
    // The root, `closed`, `file`, `link` and `pipe`.
    assert_eq!((report.entries, report.bytes, report.skipped), (5, 4, 1));
    let mode = |name: &str| fs::symlink_metadata(to.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode(""), mode("closed"), mode("pipe")),
        (0o711, 0o2750, 0o400)
    );
    let file = fs::metadata(to.join("closed/file")).unwrap();
    assert_eq!(file.mode() & 0o7777, 0o4711);
    assert_eq!((file.mtime(), file.mtime_nsec()), (1_000_000, 42));
    assert_eq!(fs::read_to_string(to.join("closed/file")).unwrap(), "text");
    assert_eq!(
        fs::read_link(to.join("link")).unwrap(),
        Path::new("/etc/shadow")
    );
    assert!(
        fs::symlink_metadata(to.join("pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert!(!to.join("socket").exists());
}

#[test]
fn what_overlayfs_wrote_down_stays() {
    let (_folder, to, _) = copied(|from| {
        let whiteout = from.join("gone");
        rustix::fs::mknodat(CWD, whiteout, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        fs::create_dir(from.join("opaque")).unwrap();
        let prefix = if is_root() { "trusted" } else { "user" };
        set_attribute(
            &from.join("opaque"),
            &format!("{prefix}.overlay.opaque"),
            b"y",
        );
        set_attribute(
            &from.join("opaque"),
            &format!("{prefix}.overlay.origin"),
            b"x",
        );
        set_attribute(&from.join("opaque"), "user.mine", b"z");
    });
    let gone = fs::symlink_metadata(to.join("gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let prefix = if is_root() { "trusted" } else { "user" };
    let of = |name: &str| attribute(&to.join("opaque"), name);
    assert_eq!(of(&format!("{prefix}.overlay.opaque")).unwrap(), b"y");
    assert_eq!(of(&format!("{prefix}.overlay.origin")), None);
    assert_eq!(of("user.mine").unwrap(), b"z");
}

#[test]
fn hard_links_stay_one_file() {
    let (folder, to, report) = copied(|from| {
        fs::create_dir(from.join("a")).unwrap();
        fs::write(from.join("a/one"), "x".repeat(100)).unwrap();
        fs::hard_link(from.join("a/one"), from.join("two")).unwrap();
        fs::hard_link(from.join("a/one"), from.join("a/three")).unwrap();
    });
    let found = |name: &str| fs::metadata(to.join(name)).unwrap();
    let inode = found("two").ino();
    assert_eq!(
        (found("a/one").ino(), found("a/three").ino()),
        (inode, inode)
    );
    assert_eq!((found("two").nlink(), report.bytes), (3, 100));
    assert_ne!(
        inode,
        fs::metadata(folder.path().join("from/two")).unwrap().ino()
    );
}

#[test]
fn holes_take_no_space() {
    let (_folder, to, report) = copied(|from| {
        let file = fs::File::create(from.join("sparse")).unwrap();
        file.set_len(1 << 33).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"middle", 1 << 32).unwrap();
    });
    let found = fs::metadata(to.join("sparse")).unwrap();
    assert_eq!(found.len(), 1 << 33);
    assert!(
        found.blocks() < 1000 && report.bytes < 500_000,
        "{report:?}"
    );
    let mut bytes = [0; 8];
    let file = fs::File::open(to.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, (1 << 32) - 1).unwrap();
    assert_eq!(&bytes, b"\0middle\0");
}

#[test]
fn blocks_are_shared_where_the_file_system_can() {
    let (folder, to, report) =
        copied(|from| fs::write(from.join("file"), "x".repeat(5000)).unwrap());
    let probe = fs::File::create(folder.path().join("probe")).unwrap();
    let original = fs::File::open(folder.path().join("from/file")).unwrap();
    let can = rustix::fs::ioctl_ficlone(&probe, &original).is_ok();
    assert_eq!(report.reflinks, u64::from(can));
    assert_eq!(fs::read(to.join("file")).unwrap(), [b'x'; 5000]);
}

#[test]
fn folders_beyond_what_is_remembered_are_all_copied() {
    let (_folder, to, report) = copied(|from| {
        for number in 0..150 {
            let folder = from.join(format!("folder-{number}"));
            fs::create_dir_all(folder.join("in")).unwrap();
            fs::write(folder.join("in/file"), "x").unwrap();
            fs::write(from.join(format!("file-{number}")), "y").unwrap();
        }
    });
    assert_eq!(report.entries, 1 + 600);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 300);
    assert!((0..150).all(|number| to.join(format!("folder-{number}/in/file")).exists()));
}

/// Makes folders in each other without ever naming the whole path.
fn nest(top: &Path, depth: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_deep_tree_is_copied_and_a_bottomless_one_is_refused() {
    // In memory, where thousands of folders cost nothing.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for (name, depth) in [("deep", 2000), ("bottomless", 3000)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        nest(&folder.path().join(name), depth);
    }
    let copy = |name: &str| {
        let to = folder.path().join("to");
        copy_layer(&folder.path().join(name), &to, &OPTIONS)
    };
    assert_eq!(copy("deep").unwrap().entries, 2001);
    remove(&folder.path().join("to")).unwrap();
    match copy("bottomless") {
        Err(EngineError::Invalid { what, .. }) => assert!(what.contains("2048"), "{what}"),
        other => panic!("{other:?}"),
    }
    // Too deep for what removes temporary folders.
    for name in ["deep", "bottomless"] {
        remove(&folder.path().join(name)).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_layer_that_is_too_big_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), vec![1; 100_000]).unwrap();
    let options = LayerOptions {
        bytes_max: Some(99_999),
        ..OPTIONS
    };
    match copy_layer(&from, &to, &options) {
        Err(EngineError::Invalid { what, .. }) => assert!(what.contains("99999"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    copy_layer(&from, &to, &OPTIONS).unwrap();
    assert!(
        copy_layer(&from, &to, &OPTIONS).is_err(),
        "it exists already"
    );
}

#[test]
fn a_link_in_place_of_the_layer_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    symlink("/etc", folder.path().join("from")).unwrap();
    let copied = copy_layer(
        &folder.path().join("from"),
        &folder.path().join("to"),
        &OPTIONS,
    );
    assert!(copied.is_err());
}

#[test]
fn owners_are_shifted_to_another_range() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let [one, two] = [1, 2].map(|index| IdRange::new(index).unwrap());
    fs::create_dir(&from).unwrap();
    symlink("x", from.join("link")).unwrap();
    fs::write(from.join("file"), "").unwrap();
    fs::write(from.join("roots"), "").unwrap();
    fs::write(from.join("foreign"), "").unwrap();
    let give = |name: &str, uid: u32, gid: u32| {
        std::os::unix::fs::lchown(from.join(name), Some(uid), Some(gid)).unwrap();
    };
    give("", one.base(), one.base());
    give("link", one.base() + 5, one.base() + 6);
    give("file", one.base() + 1000, one.base() + 65_535);
    give("foreign", two.base() + 3, 0);
    let options = LayerOptions {
        owners: Some(ShiftOwners { from: one, to: two }),
        ..OPTIONS
    };
    copy_layer(&from, &to, &options).unwrap();
    let owner = |name: &str| {
        let found = fs::symlink_metadata(to.join(name)).unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!(owner(""), (two.base(), two.base()));
    assert_eq!(owner("link"), (two.base() + 5, two.base() + 6));
    assert_eq!(owner("file"), (two.base() + 1000, two.base() + 65_535));
    assert_eq!(owner("roots"), (0, 0));
    assert_eq!(owner("foreign"), (two.base() + 3, 0));
}

#[test]
fn device_nodes_are_left_out() {
    if !is_root() {
        return;
    }
    let (_folder, to, report) = copied(|from| {
        for (name, kind) in [
            ("c", FileType::CharacterDevice),
            ("b", FileType::BlockDevice),
        ] {
            let device = rustix::fs::makedev(1, 1);
            rustix::fs::mknodat(CWD, from.join(name), kind, Mode::RUSR, device).unwrap();
        }
    });
    assert_eq!((report.skipped, fs::read_dir(to).unwrap().count()), (2, 0));
}
