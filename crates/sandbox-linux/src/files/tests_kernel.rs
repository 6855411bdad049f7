//! What only root can set up. Without it, each test says that it was skipped.

mod kernel {
    use std::fs;
    use std::io;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::super::tests::Fixture;
    use super::super::*;

    #[test]
    fn device_nodes_are_refused() {
        let fixture = Fixture::new();
        let zero = rustix::fs::makedev(1, 5);
        let mode = Mode::from_raw_mode(0o666);
        let made = mknodat(
            CWD,
            fixture.tree("zero"),
            FileType::CharacterDevice,
            mode,
            zero,
        );
        if let Err(errno) = made {
            eprintln!("skipped: device nodes cannot be made here ({errno})");
            return;
        }
        let outcome = fixture.read("zero");
        assert!(
            matches!(outcome, Err(FilesError::NotAFile { .. })),
            "{outcome:?}"
        );
    }

    #[test]
    fn what_is_made_belongs_to_the_box() {
        use std::os::unix::fs::MetadataExt;
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: giving files away takes root");
            return;
        }
        let fixture = Fixture::new();
        let dir = fixture.dir.try_clone().unwrap().owned_by(12_345, 54_321);
        let options = WriteOptions::default();
        dir.write_atomic(Path::new("a/b"), b"", options).unwrap();
        symlink("secret", fixture.outside().join("link")).unwrap();
        dir.copy_tree_in(&fixture.outside(), Path::new("in"), CopyLimits::default())
            .unwrap();
        for path in ["a", "a/b", "in", "in/secret", "in/link"] {
            let found = fs::symlink_metadata(fixture.tree(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (12_345, 54_321), "{path}");
        }
        assert_eq!(fs::metadata(fixture.tree("")).unwrap().uid(), 0);
    }

    #[test]
    fn a_full_disk_keeps_the_old_content() {
        let fixture = Fixture::new();
        let mount_point = fixture.tree("small");
        fs::create_dir(&mount_point).unwrap();
        let mounted = rustix::mount::mount(
            "tmpfs",
            &mount_point,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(c"size=64k"),
        );
        if let Err(errno) = mounted {
            eprintln!("skipped: tmpfs cannot be mounted here ({errno})");
            return;
        }
        let outcome = (|| {
            fixture.write("small/file", "old")?;
            let refused = fixture.write("small/file", &"x".repeat(200_000));
            let names = fixture.dir.list(Path::new("small"))?.len();
            let removed = fixture.dir.remove_tree(Path::new("small"));
            Ok::<_, FilesError>((refused, names, fixture.read("small/file")?, removed))
        })();
        rustix::mount::unmount(&mount_point, rustix::mount::UnmountFlags::DETACH).unwrap();
        let (refused, names, content, removed) = outcome.unwrap();
        match refused {
            Err(FilesError::Io { source, .. }) => {
                assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((names, content.as_slice()), (1, b"old".as_slice()));
        // A mount is not entered, and what is in it is not removed.
        assert!(matches!(removed, Err(FilesError::Io { .. })), "{removed:?}");
    }
}
