//! Ordinary use: what is read, written, listed and refused in a quiet tree.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;

const BYTES_MAX: u64 = 1 << 20;

const LIMITS: WalkLimits = WalkLimits {
    entries_max: 1_000,
    depth_max: 100,
};

/// A tree to work in, beside a file that must never be reached.
pub(super) struct Fixture {
    scratch: TempDir,
    pub(super) dir: ConfinedDir,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("tree")).unwrap();
        fs::create_dir(scratch.path().join("outside")).unwrap();
        fs::write(scratch.path().join("outside/secret"), "secret").unwrap();
        let dir = ConfinedDir::open(&scratch.path().join("tree")).unwrap();
        Self { scratch, dir }
    }

    pub(super) fn tree(&self, path: &str) -> PathBuf {
        self.scratch.path().join("tree").join(path)
    }

    pub(super) fn outside(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }

    pub(super) fn write(&self, path: &str, content: &str) -> Result<(), FilesError> {
        let options = WriteOptions::default();
        self.dir
            .write_atomic(Path::new(path), content.as_bytes(), options)
    }

    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        self.dir.read(Path::new(path), BYTES_MAX)
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_written_file_is_read_back_with_its_parents_made() {
    let fixture = Fixture::new();
    fixture.write("a/b/c.txt", "hello").unwrap();
    assert_eq!(fixture.read("a/b/c.txt").unwrap(), b"hello");
    assert_eq!(fixture.read("a/./b/../b/c.txt").unwrap(), b"hello");
    assert_eq!(mode_of(&fixture.tree("a/b")), 0o755);
    assert_eq!(mode_of(&fixture.tree("a/b/c.txt")), FILE_MODE_DEFAULT);
}

#[test]
fn paths_that_lead_out_are_refused_by_every_operation() {
    let fixture = Fixture::new();
    let secret = fixture.outside().join("secret");
    symlink(fixture.outside(), fixture.tree("absolute")).unwrap();
    symlink("../outside", fixture.tree("relative")).unwrap();
    symlink("relative", fixture.tree("chain1")).unwrap();
    symlink("./chain1", fixture.tree("chain2")).unwrap();
    symlink(&secret, fixture.tree("file")).unwrap();
    // All within the scratch directory: a broken guard must not cost the machine its files.
    let escapes = [
        "../outside/secret",
        "a/../../outside/secret",
        secret.to_str().unwrap(),
        "absolute/secret",
        "relative/secret",
        "chain2/secret",
    ];
    fs::create_dir(fixture.tree("a")).unwrap();
    for path in escapes.map(Path::new) {
        let outcomes = [
            fixture.dir.read(path, BYTES_MAX).map(drop),
            fixture.dir.open_read(path).map(drop),
            fixture
                .dir
                .write_atomic(path, b"x", WriteOptions::default()),
            fixture.dir.delete_file(path),
            fixture.dir.remove_tree(path),
            fixture.dir.metadata(path).map(drop),
            fixture.dir.create_dir_all(path),
            fixture.dir.list(path).map(drop),
            fixture.dir.subdir(path).map(drop),
            fixture.dir.create_dir(path, 0o777),
            fixture.dir.make_fifo(path, 0o777),
            fixture.dir.open_fifo(path).map(drop),
            fixture.dir.set_mode(path, 0o777),
            fixture.dir.set_owner(path, 1, 1),
            fixture.dir.rename(path, Path::new("x"), Replace::Never),
            fixture.dir.rename(Path::new("a"), path, Replace::Existing),
            fixture.dir.walk(path, LIMITS).map(drop),
            fixture
                .dir
                .copy_tree_out(
                    path,
                    &fixture.scratch.path().join("out"),
                    CopyLimits::default(),
                )
                .map(drop),
            fixture
                .dir
                .copy_tree_in(&fixture.tree("a"), path, CopyLimits::default())
                .map(drop),
        ];
        for (index, outcome) in outcomes.into_iter().enumerate() {
            assert!(
                matches!(outcome, Err(FilesError::Escapes { .. })),
                "operation {index} on {path:?}: {outcome:?}"
            );
        }
    }
    assert!(matches!(
        fixture.read("file"),
        Err(FilesError::Escapes { .. })
    ));
    assert_eq!(fs::read(secret).unwrap(), b"secret");
    assert_eq!(fs::read_dir(fixture.outside()).unwrap().count(), 1);
}

#[test]
fn an_escape_is_told_under_the_callers_path() {
    let fixture = Fixture::new();
    let error = fixture.write("../x", "").unwrap_err();
    assert_eq!(error.to_string(), "path `../x` leads out of its directory");
}

#[test]
fn in_root_takes_absolute_paths_and_links_from_the_top() {
    let fixture = Fixture::new();
    fixture.write("etc/name", "inner").unwrap();
    symlink("/etc/name", fixture.tree("link")).unwrap();
    symlink("../../../../etc", fixture.tree("up")).unwrap();
    let rooted = fixture.dir.try_clone().unwrap().resolving(Resolve::InRoot);
    for path in ["/etc/name", "link", "up/name", "../../etc/name"] {
        assert_eq!(
            rooted.read(Path::new(path), BYTES_MAX).unwrap(),
            b"inner",
            "{path}"
        );
    }
    rooted
        .write_atomic(Path::new("/made/here"), b"x", WriteOptions::default())
        .unwrap();
    assert_eq!(fs::read(fixture.tree("made/here")).unwrap(), b"x");
}

#[test]
fn magic_links_of_proc_are_refused() {
    let proc = ConfinedDir::open(Path::new("/proc")).unwrap();
    let fixture = Fixture::new();
    for (dir, path) in [
        (&proc, "self/root/etc/passwd"),
        (&proc, "self/cwd/Cargo.toml"),
        (&proc, "self/fd/0"),
    ] {
        let outcome = dir.read(Path::new(path), BYTES_MAX);
        assert!(
            matches!(outcome, Err(FilesError::Escapes { .. })),
            "{path} {outcome:?}"
        );
    }
    symlink("/proc/self/root", fixture.tree("root")).unwrap();
    assert!(matches!(
        fixture.read("root/etc/passwd"),
        Err(FilesError::Escapes { .. })
    ));
}

#[test]
fn files_of_the_kernel_are_not_read_with_our_rights() {
    let root = ConfinedDir::open(Path::new("/"))
        .unwrap()
        .resolving(Resolve::InRoot);
    for path in ["/proc/version", "/sys/kernel/uevent_seqnum"] {
        let outcome = root.read(Path::new(path), BYTES_MAX);
        assert!(
            matches!(outcome, Err(FilesError::KernelInterface { .. })),
            "{path} {outcome:?}"
        );
    }
    let written = root.write_atomic(
        Path::new("/proc/sys/kernel/x"),
        b"",
        WriteOptions::default(),
    );
    assert!(matches!(written, Err(FilesError::KernelInterface { .. })));
    assert!(root.subdir(Path::new("proc")).is_err());
}

#[test]
fn a_link_that_stays_inside_is_followed_on_the_way_and_replaced_at_the_end() {
    let fixture = Fixture::new();
    fixture.write("real/file", "old").unwrap();
    symlink("real", fixture.tree("way")).unwrap();
    symlink("real/file", fixture.tree("end")).unwrap();
    fixture.write("way/new/file", "through").unwrap();
    assert_eq!(fixture.read("real/new/file").unwrap(), b"through");
    fixture.write("end", "replaced").unwrap();
    assert_eq!(fixture.read("real/file").unwrap(), b"old");
    assert!(
        !fs::symlink_metadata(fixture.tree("end"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_dangling_link_outwards_is_replaced_and_not_followed() {
    let fixture = Fixture::new();
    let planted = fixture.outside().join("planted");
    symlink(&planted, fixture.tree("end")).unwrap();
    fixture.write("end", "x").unwrap();
    assert!(!planted.exists());
    assert_eq!(fixture.read("end").unwrap(), b"x");
}

#[test]
fn reading_is_bounded() {
    let fixture = Fixture::new();
    fixture.write("ten", "0123456789").unwrap();
    assert_eq!(fixture.dir.read(Path::new("ten"), 10).unwrap().len(), 10);
    let outcome = fixture.dir.read(Path::new("ten"), 9);
    assert!(matches!(
        outcome,
        Err(FilesError::TooLarge { bytes_max: 9, .. })
    ));
    fs::File::create(fixture.tree("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert!(matches!(
        fixture.read("sparse"),
        Err(FilesError::TooLarge { .. })
    ));
}

#[test]
fn fifos_sockets_and_directories_are_not_files() {
    let fixture = Fixture::new();
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, fixture.tree("fifo"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.tree("socket")).unwrap();
    fs::create_dir(fixture.tree("directory")).unwrap();
    for name in ["fifo", "socket", "directory"] {
        let outcome = fixture.read(name);
        assert!(
            matches!(outcome, Err(FilesError::NotAFile { .. })),
            "{name} {outcome:?}"
        );
    }
    let outcome = fixture.write("directory", "x");
    assert!(matches!(outcome, Err(FilesError::NotAFile { .. })));
    // Writing replaces the name, so a FIFO cannot hold us up.
    fixture.write("fifo", "plain").unwrap();
    assert_eq!(fixture.read("fifo").unwrap(), b"plain");
}

#[test]
fn missing_things_are_told_apart_from_other_failures() {
    let fixture = Fixture::new();
    fixture.write("file", "").unwrap();
    assert!(matches!(
        fixture.read("none"),
        Err(FilesError::NotFound { .. })
    ));
    let dir = &fixture.dir;
    assert!(matches!(
        dir.delete_file(Path::new("none")),
        Err(FilesError::NotFound { .. })
    ));
    assert!(matches!(
        dir.remove_tree(Path::new("none")),
        Err(FilesError::NotFound { .. })
    ));
    assert!(matches!(
        dir.list(Path::new("none")),
        Err(FilesError::NotFound { .. })
    ));
    assert!(matches!(
        dir.list(Path::new("file")),
        Err(FilesError::NotADirectory { .. })
    ));
    assert!(matches!(
        fixture.write("file/below", ""),
        Err(FilesError::NotADirectory { .. })
    ));
    assert!(matches!(
        dir.create_dir_all(Path::new("file")),
        Err(FilesError::NotADirectory { .. })
    ));
    assert!(matches!(
        fixture.read("nul\0name"),
        Err(FilesError::InvalidPath { .. })
    ));
}

#[test]
fn delete_takes_files_and_links_but_no_directories() {
    let fixture = Fixture::new();
    fixture.write("file", "").unwrap();
    fixture.write("dir/file", "").unwrap();
    symlink(fixture.outside().join("secret"), fixture.tree("link")).unwrap();
    fixture.dir.delete_file(Path::new("file")).unwrap();
    fixture.dir.delete_file(Path::new("link")).unwrap();
    let refused = fixture.dir.delete_file(Path::new("dir"));
    assert!(matches!(refused, Err(FilesError::IsADirectory { .. })));
    assert!(fixture.outside().join("secret").exists());
}

#[test]
fn permissions_follow_the_options_and_never_carry_setuid() {
    let fixture = Fixture::new();
    fixture.write("script", "1").unwrap();
    set_mode(&fixture.tree("script"), 0o4750);
    fixture.write("script", "2").unwrap();
    assert_eq!(mode_of(&fixture.tree("script")), 0o750);
    for (permissions, wanted) in [
        (Permissions::KeepOr(0o600), 0o750),
        (Permissions::Exactly(0o6711), 0o711),
    ] {
        let options = WriteOptions {
            permissions,
            durability: Durability::Synced,
            ..WriteOptions::default()
        };
        let path = Path::new("script");
        fixture.dir.write_atomic(path, b"3", options).unwrap();
        assert_eq!(mode_of(&fixture.tree("script")), wanted);
    }
}

#[test]
fn names_are_bytes() {
    let fixture = Fixture::new();
    let long = "n".repeat(255);
    let names: [&[u8]; 6] = [
        b"new\nline",
        b"sp ace",
        b"\xff\xfe",
        b"..foo",
        b"-rf",
        long.as_bytes(),
    ];
    for name in names {
        let path = Path::new(OsStr::from_bytes(name));
        let options = WriteOptions::default();
        fixture.dir.write_atomic(path, name, options).unwrap();
        assert_eq!(fixture.dir.read(path, BYTES_MAX).unwrap(), name);
    }
    let listed: Vec<_> = fixture.dir.list(Path::new("")).unwrap();
    let mut wanted: Vec<&[u8]> = names.to_vec();
    wanted.sort_unstable();
    let got: Vec<&[u8]> = listed.iter().map(|entry| entry.name.as_bytes()).collect();
    assert_eq!(got, wanted);
    assert!(fixture.write(&"n".repeat(256), "").is_err());
}

#[test]
fn a_listing_describes_the_entries_themselves() {
    let fixture = Fixture::new();
    fixture.write("b", "12345").unwrap();
    fixture.dir.create_dir_all(Path::new("a")).unwrap();
    symlink("/nowhere", fixture.tree("c")).unwrap();
    mknodat(
        CWD,
        fixture.tree("d"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let listed = fixture.dir.list(Path::new(".")).unwrap();
    let kinds: Vec<_> = listed.iter().map(|entry| entry.metadata.kind).collect();
    assert_eq!(
        kinds,
        [
            EntryKind::Directory,
            EntryKind::File,
            EntryKind::Symlink,
            EntryKind::Other
        ]
    );
    let file = &listed.get(1).unwrap().metadata;
    assert_eq!((file.size_bytes, file.mode), (5, FILE_MODE_DEFAULT));
    let age = file.modified.elapsed().unwrap_or_default();
    assert!(age.as_secs() < 600, "{age:?}");
    let link = fixture.dir.symlink_metadata(Path::new("c")).unwrap();
    assert_eq!(link.kind, EntryKind::Symlink);
    let target = fixture.dir.read_link(Path::new("c")).unwrap();
    assert_eq!(target, Path::new("/nowhere"));
}

#[test]
fn a_subdirectory_is_confined_to_itself() {
    let fixture = Fixture::new();
    fixture.write("a/inner", "1").unwrap();
    fixture.write("outer", "2").unwrap();
    let inner = fixture.dir.subdir(Path::new("a")).unwrap();
    assert_eq!(inner.read(Path::new("inner"), 9).unwrap(), b"1");
    let outcome = inner.read(Path::new("../outer"), 9);
    assert!(matches!(outcome, Err(FilesError::Escapes { .. })));
}

/// A stream that breaks after some bytes.
struct Breaking(usize);

impl Read for Breaking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("broken"));
        }
        let length = self.0.min(buffer.len());
        self.0 -= length;
        Ok(length)
    }
}

#[test]
fn a_failed_write_keeps_the_old_content_and_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.write("file", "old").unwrap();
    let options = WriteOptions {
        bytes_max: Some(100),
        ..WriteOptions::default()
    };
    let path = Path::new("file");
    let broken = fixture.dir.write_from(path, &mut Breaking(50), options);
    assert!(matches!(broken, Err(FilesError::ReadSource { .. })));
    let large = fixture.dir.write_from(path, &mut Breaking(101), options);
    assert!(matches!(large, Err(FilesError::TooLarge { .. })));
    assert_eq!(fixture.read("file").unwrap(), b"old");
    assert_eq!(fs::read_dir(fixture.tree("")).unwrap().count(), 1);
}
