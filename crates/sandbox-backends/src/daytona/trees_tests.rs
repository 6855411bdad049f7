//! Archives of attackers, and honest ones.

use super::*;

fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o6777);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        if is_link {
            header.set_link_name_literal(content).unwrap();
        }
        let content = if is_link { "" } else { content };
        header.set_size(u64::try_from(content.len()).unwrap());
        // Written as it is: the library would refuse such names.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn names_that_lead_out_fail() {
    for path in ["../x", "/etc/x", "a/../../x"] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy");
        let error = unpack(
            archive(&[(EntryType::Regular, path, "bad")]).as_slice(),
            &target,
        )
        .unwrap_err();
        assert!(error.to_string().contains("outside"), "{path}: {error}");
        assert!(!folder.path().join("x").exists());
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let entries = [
        (EntryType::Symlink, "inside", "folder"),
        (EntryType::Symlink, "away", outside.to_str().unwrap()),
        (EntryType::Symlink, "up", "../outside"),
        (EntryType::Symlink, "deep/up", "../file"),
        (EntryType::Regular, "away/file", "x"),
        (EntryType::Link, "hard", "/etc/passwd"),
        (EntryType::Char, "device", ""),
    ];
    // A name cannot be both a link and a folder: that fails, and nothing went outside.
    drop(unpack(archive(&entries).as_slice(), &target));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!target.join("hard").exists() && !target.join("device").exists());
    assert!(!target.join("up").is_symlink());
}

#[test]
fn special_bits_are_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let entries = [(EntryType::Regular, "tool", "x")];
    unpack(archive(&entries).as_slice(), &target).unwrap();
    let mode = fs::metadata(target.join("tool"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7000, 0);
}

#[test]
fn what_is_packed_is_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("a/b")).unwrap();
    let long = format!("a/b/{}", "n".repeat(180));
    fs::write(source.join(&long), "long").unwrap();
    symlink("a/b", source.join("link")).unwrap();
    let mut packed = Vec::new();
    pack(&source, &mut packed).unwrap();
    let target = folder.path().join("copy");
    unpack(packed.as_slice(), &target).unwrap();
    assert_eq!(fs::read(target.join(&long)).unwrap(), b"long");
    assert_eq!(
        fs::read_link(target.join("link")).unwrap(),
        Path::new("a/b")
    );
}

#[test]
fn links_lead_nowhere_else_not_even_together() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    fs::write(folder.path().join("secret"), "of the host").unwrap();
    let entries = [
        (EntryType::Directory, "deep/er", ""),
        (EntryType::Regular, "file", "fine"),
        // Behind this one, `..` is not what it seems to be.
        (EntryType::Symlink, "deep/top", ".."),
        (EntryType::Symlink, "a", "deep/top/../secret"),
        (EntryType::Symlink, "b", "deep/er/../../../secret"),
        // It is not where its name says.
        (EntryType::Symlink, "here", "."),
        (EntryType::Symlink, "here/here/here/c", "../../../secret"),
        (EntryType::Symlink, "d", "/proc/self/environ"),
        (EntryType::Symlink, "good", "deep/top/file"),
        (EntryType::Symlink, "deep/er/good", "../../file"),
    ];
    unpack(archive(&entries).as_slice(), &target).unwrap();
    let mut found = Vec::new();
    let mut waiting = vec![target.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                let real = fs::canonicalize(&path).unwrap();
                assert!(
                    real.starts_with(fs::canonicalize(&target).unwrap()),
                    "{path:?}"
                );
                found.push(path.strip_prefix(&target).unwrap().to_path_buf());
            } else if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    let expected = ["deep/er/good", "deep/top", "good", "here"];
    assert_eq!(found, expected.map(PathBuf::from));
    assert_eq!(fs::read(target.join("good")).unwrap(), b"fine");
}

#[test]
fn a_name_without_an_end_takes_no_memory() {
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
    ] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(1 << 40);
        header.set_cksum();
        let reader = header.as_bytes().as_slice().chain(io::repeat(b'x'));
        let folder = tempfile::tempdir().unwrap();
        let error = unpack(reader, &folder.path().join("copy")).unwrap_err();
        assert!(error.to_string().contains("too"), "{error}");
    }
}

#[test]
fn names_of_other_archivers_are_read() {
    let path = format!("{}/file", "n".repeat(200));
    let mut builder = Builder::new(Vec::new());
    let pax = [("path", path.as_bytes()), ("mtime", b"1.5")];
    builder.append_pax_extensions(pax).unwrap();
    let mut header = Header::new_ustar();
    header.set_size(5);
    header.set_mode(0o644);
    header.set_path("short").unwrap();
    header.set_cksum();
    builder.append(&header, b"hello".as_slice()).unwrap();
    let packed = builder.into_inner().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    unpack(packed.as_slice(), &target).unwrap();
    assert_eq!(fs::read(target.join(path)).unwrap(), b"hello");
}
