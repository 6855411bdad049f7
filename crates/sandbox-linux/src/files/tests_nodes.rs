//! Named pipes, modes, owners, moves and walks in a quiet tree.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::tests::Fixture;
use super::*;

const LIMITS: WalkLimits = WalkLimits {
    entries_max: 1_000,
    depth_max: 100,
};

fn mode_of(fixture: &Fixture, path: &str) -> u32 {
    let found = fs::symlink_metadata(fixture.tree(path)).unwrap();
    found.permissions().mode() & 0o7777
}

fn walked(dir: &ConfinedDir, path: &str, limits: WalkLimits) -> Vec<String> {
    let walk = dir.walk(Path::new(path), limits).unwrap();
    walk.map(|entry| entry.unwrap().path.display().to_string())
        .collect()
}

#[test]
fn a_fifo_is_made_with_its_mode_and_opened_without_waiting() {
    let fixture = Fixture::new();
    let path = Path::new("fifo");
    fixture.dir.make_fifo(path, 0o4662).unwrap();
    let found = fs::metadata(fixture.tree("fifo")).unwrap();
    assert!(found.file_type().is_fifo());
    // Whatever the umask is, and never setuid.
    assert_eq!(mode_of(&fixture, "fifo"), 0o662);
    let fifo = fixture.dir.open_fifo(path).unwrap();
    rustix::io::write(&fifo, b"through").unwrap();
    let mut buffer = [0; 20];
    assert_eq!(rustix::io::read(&fifo, &mut buffer), Ok(7));
    assert_eq!(
        rustix::io::read(&fifo, &mut buffer),
        Err(rustix::io::Errno::AGAIN)
    );
    let again = fixture.dir.make_fifo(path, 0o600);
    assert!(matches!(again, Err(FilesError::AlreadyExists { .. })));
    assert_eq!(mode_of(&fixture, "fifo"), 0o662);
    let orphan = fixture.dir.make_fifo(Path::new("no/fifo"), 0o600);
    assert!(matches!(orphan, Err(FilesError::NotFound { .. })));
}

#[test]
fn only_a_fifo_is_opened_as_one() {
    let fixture = Fixture::new();
    fixture.write("file", "x").unwrap();
    fs::create_dir(fixture.tree("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.tree("socket")).unwrap();
    fixture.dir.make_fifo(Path::new("fifo"), 0o600).unwrap();
    // Not even a link to a pipe that is inside.
    symlink("fifo", fixture.tree("link")).unwrap();
    for name in ["file", "directory", "socket", "link"] {
        let outcome = fixture.dir.open_fifo(Path::new(name));
        assert!(
            matches!(outcome, Err(FilesError::NotAFifo { .. })),
            "{name} {outcome:?}"
        );
    }
    let missing = fixture.dir.open_fifo(Path::new("missing"));
    assert!(matches!(missing, Err(FilesError::NotFound { .. })));
}

#[test]
fn a_mode_is_set_on_the_entry_itself() {
    let fixture = Fixture::new();
    fixture.write("file", "x").unwrap();
    fs::create_dir(fixture.tree("directory")).unwrap();
    for path in ["file", "directory"] {
        fixture.dir.set_mode(Path::new(path), 0o6751).unwrap();
        assert_eq!(mode_of(&fixture, path), 0o751, "{path}");
        fixture.dir.set_mode(Path::new(path), 0).unwrap();
        assert_eq!(mode_of(&fixture, path), 0, "{path}");
    }
    symlink(fixture.outside().join("secret"), fixture.tree("outwards")).unwrap();
    symlink("file", fixture.tree("inwards")).unwrap();
    for link in ["outwards", "inwards"] {
        let outcome = fixture.dir.set_mode(Path::new(link), 0o777);
        assert!(
            matches!(outcome, Err(FilesError::InvalidPath { .. })),
            "{link} {outcome:?}"
        );
    }
    assert_eq!(mode_of(&fixture, "file"), 0);
    let secret = fs::metadata(fixture.outside().join("secret")).unwrap();
    assert_ne!(secret.permissions().mode() & 0o777, 0o777);
}

#[test]
fn an_owner_is_set_on_the_link_and_not_on_its_target() {
    let fixture = Fixture::new();
    let own = fs::metadata(fixture.tree("")).unwrap();
    symlink(fixture.outside().join("secret"), fixture.tree("link")).unwrap();
    let path = Path::new("link");
    if !rustix::process::geteuid().is_root() {
        // Changing nothing is allowed to everybody.
        fixture.dir.set_owner(path, own.uid(), own.gid()).unwrap();
        assert!(matches!(
            fixture.dir.set_owner(path, 0, 0),
            Err(FilesError::Io { .. })
        ));
        return;
    }
    fixture.dir.set_owner(path, 123, 456).unwrap();
    let link = fs::symlink_metadata(fixture.tree("link")).unwrap();
    assert_eq!((link.uid(), link.gid()), (123, 456));
    let secret = fs::metadata(fixture.outside().join("secret")).unwrap();
    assert_eq!(secret.uid(), 0);
}

#[test]
fn one_directory_is_created_with_its_mode() {
    let fixture = Fixture::new();
    fixture.dir.create_dir(Path::new("new"), 0o2773).unwrap();
    assert_eq!(mode_of(&fixture, "new"), 0o773);
    fixture
        .dir
        .create_dir(Path::new("new/locked"), 0o000)
        .unwrap();
    assert_eq!(mode_of(&fixture, "new/locked"), 0);
    let again = fixture.dir.create_dir(Path::new("new"), 0o700);
    assert!(matches!(again, Err(FilesError::AlreadyExists { .. })));
    let deep = fixture.dir.create_dir(Path::new("no/new"), 0o700);
    assert!(matches!(deep, Err(FilesError::NotFound { .. })));
}

#[test]
fn a_move_replaces_only_when_asked() {
    let fixture = Fixture::new();
    let rename = |from, to, replace| fixture.dir.rename(Path::new(from), Path::new(to), replace);
    fixture.write("a", "a").unwrap();
    fixture.write("b", "b").unwrap();
    fixture.write("full/file", "").unwrap();
    fs::create_dir(fixture.tree("empty")).unwrap();
    let outcome = rename("a", "b", Replace::Never);
    assert!(matches!(outcome, Err(FilesError::AlreadyExists { path }) if path == Path::new("b")));
    assert_eq!(fixture.read("b").unwrap(), b"b");
    rename("a", "b", Replace::Existing).unwrap();
    assert_eq!(fixture.read("b").unwrap(), b"a");
    rename("b", "full/moved", Replace::Never).unwrap();
    assert_eq!(fixture.read("full/moved").unwrap(), b"a");
    let cases = [
        ("missing", "x", "`missing` does not exist"),
        ("full/file", "empty", "`empty` is a directory"),
        ("empty", "full/file", "`full/file` is not a directory"),
        (
            "empty",
            "full",
            "`full` exists and is not an empty directory",
        ),
        (
            "full",
            "full/below",
            "path `full/below` lies in the directory that is to be moved",
        ),
    ];
    for (from, to, wanted) in cases {
        let error = rename(from, to, Replace::Existing).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    rename("full", "empty", Replace::Existing).unwrap();
    assert_eq!(fixture.read("empty/moved").unwrap(), b"a");
}

#[test]
fn a_link_is_moved_itself() {
    let fixture = Fixture::new();
    let secret = fixture.outside().join("secret");
    symlink(&secret, fixture.tree("link")).unwrap();
    fixture
        .dir
        .rename(Path::new("link"), Path::new("moved"), Replace::Never)
        .unwrap();
    assert_eq!(fs::read_link(fixture.tree("moved")).unwrap(), secret);
    // Onto a link: the link is replaced, not written through.
    fixture.write("file", "x").unwrap();
    fixture
        .dir
        .rename(Path::new("file"), Path::new("moved"), Replace::Existing)
        .unwrap();
    assert_eq!(fs::read(secret).unwrap(), b"secret");
    assert_eq!(fixture.read("moved").unwrap(), b"x");
}

#[test]
fn a_walk_tells_everything_in_order_and_follows_nothing() {
    let fixture = Fixture::new();
    for path in ["b/2", "b/1/x", "a", "c"] {
        fixture.write(path, "text").unwrap();
    }
    symlink(fixture.outside(), fixture.tree("b/out")).unwrap();
    fixture.dir.make_fifo(Path::new("b/fifo"), 0o600).unwrap();
    let all = ["a", "b", "b/1", "b/1/x", "b/2", "b/fifo", "b/out", "c"];
    assert_eq!(walked(&fixture.dir, "", LIMITS), all);
    assert_eq!(
        walked(&fixture.dir, "b", LIMITS),
        ["1", "1/x", "2", "fifo", "out"]
    );
    let shallow = WalkLimits {
        depth_max: 1,
        ..LIMITS
    };
    assert_eq!(
        walked(&fixture.dir, "", shallow),
        ["a", "b", "b/1", "b/2", "b/fifo", "b/out", "c"]
    );
    let walk = fixture.dir.walk(Path::new(""), LIMITS).unwrap();
    let kinds: Vec<EntryKind> = walk.map(|entry| entry.unwrap().metadata.kind).collect();
    use EntryKind::{Directory, File, Other, Symlink};
    assert_eq!(
        kinds,
        [File, Directory, Directory, File, File, Other, Symlink, File]
    );
}

#[test]
fn a_walk_leaves_out_what_it_is_told_to() {
    let fixture = Fixture::new();
    for path in ["a/x", "proc/x/y", "z"] {
        fixture.write(path, "").unwrap();
    }
    let mut walk = fixture.dir.walk(Path::new(""), LIMITS).unwrap();
    let mut told = Vec::new();
    while let Some(entry) = walk.next() {
        let path = entry.unwrap().path;
        if path == Path::new("proc") || path == Path::new("z") {
            walk.skip_directory();
        }
        told.push(path.display().to_string());
    }
    assert_eq!(told, ["a", "a/x", "proc", "z"]);
}

#[test]
fn a_walk_is_bounded_and_over_after_its_error() {
    let fixture = Fixture::new();
    for number in 0..20 {
        fixture.write(&format!("d/{number}"), "").unwrap();
    }
    let few = WalkLimits {
        entries_max: 10,
        ..LIMITS
    };
    let mut walk = fixture.dir.walk(Path::new(""), few).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path, Path::new("d"));
    match walk.next() {
        Some(Err(error)) => assert_eq!(error.to_string(), "`d` has more than 10 entries"),
        other => panic!("{other:?}"),
    }
    assert!(walk.next().is_none());
    let outcome = fixture.dir.walk(Path::new("d"), few).map(drop);
    assert!(matches!(outcome, Err(FilesError::TooManyEntries { .. })));
    let outcome = fixture.dir.walk(Path::new("d/1"), LIMITS).map(drop);
    assert!(matches!(outcome, Err(FilesError::NotADirectory { .. })));
}

mod kernel {
    use super::*;

    /// A file system of its own below the tree, gone at the end.
    struct Mounted(std::path::PathBuf);

    impl Drop for Mounted {
        fn drop(&mut self) {
            rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    }

    fn mount(fixture: &Fixture, path: &str, kind: &str) -> Option<Mounted> {
        let at = fixture.tree(path);
        fs::create_dir(&at).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount(kind, &at, kind, flags, None) {
            Ok(()) => Some(Mounted(at)),
            Err(errno) => {
                eprintln!("skipped: {kind} cannot be mounted here ({errno})");
                None
            }
        }
    }

    #[test]
    fn a_walk_enters_mounts_but_not_the_kernels_own() {
        let fixture = Fixture::new();
        let Some(_tmpfs) = mount(&fixture, "mounted", "tmpfs") else {
            return;
        };
        let Some(_proc) = mount(&fixture, "proc", "proc") else {
            return;
        };
        fixture.write("mounted/below/file", "").unwrap();
        fixture.write("z", "").unwrap();
        assert_eq!(
            walked(&fixture.dir, "", LIMITS),
            [
                "mounted",
                "mounted/below",
                "mounted/below/file",
                "proc",
                "z"
            ]
        );
        let refused = fixture.dir.walk(Path::new("proc"), LIMITS).map(drop);
        assert!(matches!(refused, Err(FilesError::KernelInterface { .. })));
        for outcome in [
            fixture.dir.set_mode(Path::new("proc/version"), 0o777),
            fixture.dir.set_owner(Path::new("proc/version"), 1, 1),
            fixture.dir.make_fifo(Path::new("proc/fifo"), 0o777),
            fixture.dir.create_dir(Path::new("proc/new"), 0o777),
        ] {
            assert!(
                matches!(outcome, Err(FilesError::KernelInterface { .. })),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn a_move_between_file_systems_says_so() {
        let fixture = Fixture::new();
        let Some(_tmpfs) = mount(&fixture, "mounted", "tmpfs") else {
            return;
        };
        fixture.write("file", "x").unwrap();
        let (from, to) = (Path::new("file"), Path::new("mounted/file"));
        match fixture.dir.rename(from, to, Replace::Never) {
            Err(FilesError::Io { source, .. }) => {
                assert_eq!(source.kind(), io::ErrorKind::CrossesDevices);
            }
            other => panic!("{other:?}"),
        }
    }
}
