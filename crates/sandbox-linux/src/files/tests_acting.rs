//! The box user's rights, whatever the host process may do. Without root, each test says that it was skipped.

mod kernel {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::Path;

    use super::super::tests::Fixture;
    use super::super::*;

    const UID: u32 = 54_321;
    const GID: u32 = 12_345;

    const LIMITS: WalkLimits = WalkLimits {
        entries_max: 1_000,
        depth_max: 100,
    };

    /// A tree of the user's, with a folder and files of root's in it.
    fn fixture() -> Option<(Fixture, ConfinedDir)> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: acting as another user takes root");
            return None;
        }
        let fixture = Fixture::new();
        chown(fixture.tree(""), Some(UID), Some(GID)).unwrap();
        // The scratch folder above is root's alone; the handle is already behind it.
        let dir = fixture.dir.try_clone().unwrap().acting_as(UID, GID);
        for (path, mode) in [("roots", 0o755), ("locked", 0o700)] {
            fs::create_dir(fixture.tree(path)).unwrap();
            fs::set_permissions(fixture.tree(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        for path in ["secret", "roots/file", "locked/file"] {
            fs::write(fixture.tree(path), "root's").unwrap();
            fs::set_permissions(fixture.tree(path), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Some((fixture, dir))
    }

    #[track_caller]
    fn assert_denied<T: std::fmt::Debug>(outcome: Result<T, FilesError>) {
        match outcome {
            Err(FilesError::Io { source, .. }) => assert_eq!(
                source.kind(),
                std::io::ErrorKind::PermissionDenied,
                "{source}"
            ),
            other => panic!("{other:?}"),
        }
    }

    fn identity() -> (u32, u32, Vec<rustix::fs::Gid>, String) {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let capabilities = status.lines().find(|line| line.starts_with("CapEff"));
        (
            crate::sys::file_access_uid(),
            crate::sys::file_access_gid(),
            rustix::process::getgroups().unwrap(),
            capabilities.unwrap().to_owned(),
        )
    }

    #[test]
    fn what_root_keeps_for_itself_is_out_of_reach() {
        let Some((fixture, dir)) = fixture() else {
            return;
        };
        let options = WriteOptions::default();
        dir.write_atomic(Path::new("link-to-be"), b"", options)
            .unwrap();
        assert_denied(dir.read(Path::new("secret"), 100));
        assert_denied(dir.open_read(Path::new("roots/file")));
        assert_denied(dir.list(Path::new("locked")));
        assert_denied(dir.read(Path::new("locked/file"), 100));
        assert_denied(dir.metadata(Path::new("locked/file")));
        assert_denied(dir.symlink_metadata(Path::new("locked/file")));
        assert_denied(dir.read_link(Path::new("locked/file")));
        assert_denied(dir.write_atomic(Path::new("roots/new"), b"x", options));
        assert_denied(dir.write_atomic(Path::new("roots/new/deep"), b"x", options));
        assert_denied(dir.create_dir_all(Path::new("roots/new")));
        assert_denied(dir.delete_file(Path::new("roots/file")));
        assert_denied(dir.remove_tree(Path::new("roots")));
        assert_denied(dir.remove_tree(Path::new("locked")));
        assert_denied(dir.create_dir(Path::new("roots/new"), 0o777));
        assert_denied(dir.make_fifo(Path::new("roots/new"), 0o777));
        assert_denied(dir.set_mode(Path::new("secret"), 0o777));
        assert_denied(dir.set_owner(Path::new("secret"), UID, GID));
        assert_denied(dir.rename(Path::new("roots/file"), Path::new("new"), Replace::Never));
        assert_denied(dir.rename(
            Path::new("link-to-be"),
            Path::new("roots/file"),
            Replace::Existing,
        ));
        fixture.dir.make_fifo(Path::new("fifo"), 0o600).unwrap();
        assert_denied(dir.open_fifo(Path::new("fifo")));
        assert_denied(dir.walk(Path::new("locked"), LIMITS));
        let walk = dir.walk(Path::new(""), LIMITS).unwrap();
        let told: Vec<_> = walk.map(|entry| entry.unwrap().path).collect();
        assert!(told.contains(&Path::new("locked").to_path_buf()));
        assert!(!told.iter().any(|path| path.starts_with("locked/file")));
        // A folder in a folder that cannot be entered, and a way around by a link.
        assert_denied(dir.subdir(Path::new("locked/below")));
        symlink("locked", fixture.tree("link")).unwrap();
        assert_denied(dir.read(Path::new("link/file"), 100));
        for path in ["secret", "roots/file", "locked/file"] {
            assert_eq!(fs::read(fixture.tree(path)).unwrap(), b"root's", "{path}");
        }
        // The same handle without the borrowed identity reads them all.
        assert_eq!(fixture.read("locked/file").unwrap(), b"root's");
    }

    #[test]
    fn a_folder_below_and_a_second_handle_have_the_same_rights() {
        let Some((_fixture, dir)) = fixture() else {
            return;
        };
        let below = dir.subdir(Path::new("roots")).unwrap();
        assert_denied(below.read(Path::new("file"), 100));
        let second = dir.try_clone().unwrap();
        assert_denied(second.read(Path::new("secret"), 100));
    }

    #[test]
    fn what_is_made_belongs_to_the_user() {
        let Some((fixture, dir)) = fixture() else {
            return;
        };
        let options = WriteOptions::default();
        dir.write_atomic(Path::new("a/b/file"), b"x", options)
            .unwrap();
        dir.create_dir_all(Path::new("c/d")).unwrap();
        dir.create_dir(Path::new("e"), 0o750).unwrap();
        dir.make_fifo(Path::new("f"), 0o666).unwrap();
        dir.set_mode(Path::new("c"), 0o700).unwrap();
        dir.set_owner(Path::new("c"), UID, GID).unwrap();
        for path in ["a", "a/b", "a/b/file", "c", "c/d", "e", "f"] {
            let found = fs::metadata(fixture.tree(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (UID, GID), "{path}");
        }
        let mode = |path| fs::metadata(fixture.tree(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("e"), mode("f"), mode("c")), (0o750, 0o666, 0o700));
        // In the user's own folder also root's files may be replaced: that is what permissions say.
        dir.write_atomic(Path::new("secret"), b"mine", options)
            .unwrap();
        assert_eq!(fs::metadata(fixture.tree("secret")).unwrap().uid(), UID);
        dir.remove_tree(Path::new("a")).unwrap();
        assert!(!fixture.tree("a").exists());
    }

    #[test]
    fn a_groups_files_are_not_reached_by_roots_membership() {
        let Some((fixture, dir)) = fixture() else {
            return;
        };
        rustix::thread::set_thread_groups(&[rustix::fs::Gid::from_raw(777)]).unwrap();
        let path = fixture.tree("group");
        fs::write(&path, "the group's").unwrap();
        chown(&path, Some(0), Some(777)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_denied(dir.read(Path::new("group"), 100));
        chown(&path, Some(0), Some(GID)).unwrap();
        assert_eq!(dir.read(Path::new("group"), 100).unwrap(), b"the group's");
        assert_eq!(
            rustix::process::getgroups().unwrap(),
            [rustix::fs::Gid::from_raw(777)]
        );
    }

    #[test]
    fn the_thread_is_itself_again_after_success_failure_and_panic() {
        let Some((_fixture, dir)) = fixture() else {
            return;
        };
        struct Panicking;
        impl std::io::Read for Panicking {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                panic!("a source that fails badly")
            }
        }
        let before = identity();
        let options = WriteOptions::default();
        dir.write_atomic(Path::new("file"), b"x", options).unwrap();
        assert_eq!(identity(), before);
        assert_denied(dir.read(Path::new("secret"), 100));
        assert_eq!(identity(), before);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            dir.write_from(Path::new("file"), &mut Panicking, options)
        }));
        assert!(unwound.is_err());
        assert_eq!(identity(), before);
        assert_eq!(dir.read(Path::new("file"), 10).unwrap(), b"x");
    }

    #[test]
    fn other_threads_keep_their_identity_meanwhile() {
        if fixture().is_none() {
            return;
        }
        let before = identity();
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let witness = std::thread::spawn(move || {
            while asked.recv().is_ok() {
                tell.send(identity()).unwrap();
            }
        });
        let acting = acting::begin(ActAs::new(UID, GID), Path::new("")).unwrap();
        ask.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), before);
        let (uid, gid, groups, capabilities) = identity();
        assert_eq!((uid, gid, groups.len()), (UID, GID, 0));
        // CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID and MKNOD are gone.
        let bits = capabilities.split_whitespace().nth(1).unwrap();
        let of_files = 0b1_1111 | 1 << 27;
        assert_eq!(u64::from_str_radix(bits, 16).unwrap() & of_files, 0);
        drop(acting);
        assert_eq!(identity(), before);
        drop(ask);
        witness.join().unwrap();
    }

    #[test]
    fn content_is_read_as_ourselves() {
        let Some((fixture, dir)) = fixture() else {
            return;
        };
        /// As the reader of a server does, it starts threads, which would inherit the identity for good.
        struct Threading(u32);
        impl std::io::Read for Threading {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let thread = std::thread::spawn(crate::sys::file_access_uid);
                assert_eq!(thread.join().unwrap(), 0);
                self.0 += 1;
                let bytes = if self.0 > 3 { 0 } else { 1 };
                buffer[..bytes].fill(b'x');
                Ok(bytes)
            }
        }
        let mut source = Threading(0);
        let options = WriteOptions::default();
        dir.write_from(Path::new("file"), &mut source, options)
            .unwrap();
        assert_eq!(fs::read(fixture.tree("file")).unwrap(), b"xxx");
        assert_eq!(fs::metadata(fixture.tree("file")).unwrap().uid(), UID);
    }

    #[test]
    fn copies_from_and_to_the_host_are_refused() {
        let Some((fixture, dir)) = fixture() else {
            return;
        };
        let limits = CopyLimits::default();
        let out = fixture.outside().join("out");
        let outcome = dir.copy_tree_out(Path::new(""), &out, limits);
        assert!(matches!(outcome, Err(FilesError::TwoIdentities { .. })));
        let outcome = dir.copy_tree_in(&fixture.outside(), Path::new("in"), limits);
        assert!(matches!(outcome, Err(FilesError::TwoIdentities { .. })));
        assert!(!out.exists());
    }
}
