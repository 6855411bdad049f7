//! Files: written whole, read whole, listed in order.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use holm_sandbox::{ErrorKind, Exec, FileKind, FileUpload};

use super::{Backend, at, sh};

pub async fn what_is_written_is_read_back(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let big: Vec<u8> = (0..2_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let odd = PathBuf::from(OsString::from_vec(b"odd \xff\n name".to_vec()));
    let files: [(PathBuf, &[u8]); 5] = [
        ("text".into(), b"hello world"),
        ("empty".into(), b""),
        ("-dash".into(), b"\0\xff\xfe"),
        (subject.work_dir().join("absolute"), b"a"),
        (odd, &big),
    ];
    for (path, content) in &files {
        subject.write_file(path, content).await.unwrap();
        assert!(
            subject.read_file(path).await.unwrap() == *content,
            "{path:?}"
        );
    }
    assert_eq!(sh(&*subject, "cat text").await, "hello world");
    // The other way round, too.
    sh(&*subject, "printf 'from inside' > inside").await;
    assert_eq!(
        subject.read_file(at("inside")).await.unwrap(),
        b"from inside"
    );
    subject.finish(backend).await;
}

pub async fn parent_directories_are_made(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject
        .write_file(at("a/b/../c/d.txt"), b"1")
        .await
        .unwrap();
    assert_eq!(subject.read_file(at("a/c/d.txt")).await.unwrap(), b"1");
    // What was made belongs to the commands inside.
    sh(&*subject, "echo 2 >> a/c/d.txt && touch a/c/e && rm -r a").await;
    subject.write_file(at("file"), b"").await.unwrap();
    let error = subject.write_file(at("file/x"), b"").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongFileKind, "{error}");
    let error = subject.write_file(at("."), b"").await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Failed, "{error}");
    subject.finish(backend).await;
}

pub async fn an_upload_writes_all_or_refuses_all(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let upload = |path: &str| FileUpload {
        path: path.into(),
        content: path.as_bytes().to_vec(),
    };
    subject
        .upload_files(&[upload("one"), upload("two/three")])
        .await
        .unwrap();
    assert_eq!(
        subject.read_file(at("two/three")).await.unwrap(),
        b"two/three"
    );
    let files = [upload("fine"), upload("../escape")];
    let error = subject.upload_files(&files).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Confinement);
    let error = subject.read_file(at("fine")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    subject.upload_files(&[]).await.unwrap();
    subject.finish(backend).await;
}

pub async fn new_files_are_for_others_to_read_at_most(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject.write_file(at("a/new"), b"").await.unwrap();
    let modes = sh(&*subject, "stat -c %a a a/new").await;
    let modes: Vec<u32> = modes
        .lines()
        .map(|mode| u32::from_str_radix(mode, 8).unwrap())
        .collect();
    for mode in &modes {
        assert_eq!(mode & 0o7022, 0, "{modes:?}");
    }
    assert_eq!(modes[1] & 0o111, 0, "{modes:?}");
    subject.finish(backend).await;
}

pub async fn an_overwritten_file_keeps_its_mode(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    sh(
        &*subject,
        "echo old > tool; chmod 755 tool; echo s > private; chmod 600 private",
    )
    .await;
    sh(&*subject, "ln tool hardlink").await;
    for name in ["tool", "private"] {
        subject.write_file(at(name), b"new").await.unwrap();
    }
    assert_eq!(sh(&*subject, "stat -c %a tool private").await, "755\n600");
    // Replaced, not written into: the other name keeps the old content.
    assert_eq!(sh(&*subject, "cat hardlink").await, "old");
    subject.finish(backend).await;
}

pub async fn a_reader_never_sees_half_a_file(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let versions = ["a", "b"].map(|letter| letter.repeat(300_000).into_bytes());
    subject.write_file(at("file"), &versions[0]).await.unwrap();
    let write = async {
        for round in 0..30 {
            let version = &versions[round % 2];
            subject.write_file(at("file"), version).await.unwrap();
        }
    };
    let read = async {
        for _ in 0..30 {
            let content = subject.read_file(at("file")).await.unwrap();
            assert!(versions.contains(&content), "{} bytes", content.len());
        }
    };
    let look = async {
        let script = "i=0; while [ $i -lt 30 ]; do wc -c < file; i=$((i+1)); done | sort -u";
        assert_eq!(sh(&*subject, script).await, "300000");
    };
    tokio::join!(write, read, look);
    // No temporary file stays.
    let names = sh(
        &*subject,
        "find . -name .git -prune -o -type f -newer file -print",
    )
    .await;
    assert_eq!(names, "");
    subject.finish(backend).await;
}

pub async fn what_is_no_regular_file_is_not_read(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    sh(
        &*subject,
        "mkdir folder; mkfifo fifo; ln -s nowhere dangling; ln -s loop loop",
    )
    .await;
    for (path, kind) in [
        ("missing", ErrorKind::NotFound),
        ("missing/below", ErrorKind::NotFound),
        ("dangling", ErrorKind::NotFound),
        ("folder", ErrorKind::WrongFileKind),
        (".", ErrorKind::WrongFileKind),
        // Opening it would wait for a writer for ever.
        ("fifo", ErrorKind::WrongFileKind),
    ] {
        let error = subject.read_file(at(path)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    subject.read_file(at("loop")).await.unwrap_err();
    // A link that stays inside is followed.
    sh(&*subject, "echo yes > target; ln -s target link").await;
    assert_eq!(subject.read_file(at("link")).await.unwrap(), b"yes\n");
    subject.finish(backend).await;
}

pub async fn a_deleted_file_is_gone_and_only_that(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    sh(
        &*subject,
        "mkdir folder; echo a > file; echo b > target; ln -s target link",
    )
    .await;
    subject.delete_file(at("file")).await.unwrap();
    subject.delete_file(at("link")).await.unwrap();
    assert_eq!(
        sh(&*subject, "cat target; ls file link 2>/dev/null; true").await,
        "b"
    );
    for (path, kind) in [
        ("file", ErrorKind::NotFound),
        ("folder", ErrorKind::WrongFileKind),
        (".", ErrorKind::InvalidInput),
    ] {
        let error = subject.delete_file(at(path)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    subject.finish(backend).await;
}

pub async fn a_directory_is_listed_in_the_order_of_bytes(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let mut names: Vec<OsString> = [
        "b",
        "a",
        "B",
        "a b",
        "-rf",
        ".hidden",
        "..foo",
        "ä",
        "new\nline",
        "tab\t",
        "'",
        "10",
        "9",
    ]
    .map(OsString::from)
    .to_vec();
    names.push(OsString::from_vec(b"\xff\xfe".to_vec()));
    for name in &names {
        let path = PathBuf::from("list").join(name);
        subject.write_file(&path, b"").await.unwrap();
    }
    sh(
        &*subject,
        "cd list; mkdir folder; mkfifo pipe; ln -s / link",
    )
    .await;
    let entries = subject.list_directory(at("list")).await.unwrap();
    names.extend(["folder", "link", "pipe"].map(OsString::from));
    names.sort();
    let listed: Vec<OsString> = entries.iter().map(|entry| entry.name.clone()).collect();
    assert_eq!(listed, names);
    for entry in &entries {
        let expected = match entry.name.to_str() {
            Some("folder") => FileKind::Directory,
            Some("link") => FileKind::Symlink,
            Some("pipe") => FileKind::Other,
            _ => FileKind::File,
        };
        assert_eq!(entry.kind, expected, "{:?}", entry.name);
    }
    subject.finish(backend).await;
}

pub async fn listing_says_what_is_wrong(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    sh(&*subject, "mkdir empty; echo > file").await;
    assert!(
        subject
            .list_directory(at("empty"))
            .await
            .unwrap()
            .is_empty()
    );
    for (path, kind) in [
        ("missing", ErrorKind::NotFound),
        ("file", ErrorKind::WrongFileKind),
    ] {
        let error = subject.list_directory(at(path)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    let root = subject.work_dir().to_path_buf();
    for path in [at("."), at(""), root.as_path()] {
        let names = subject.list_directory(path).await.unwrap();
        assert!(names.iter().any(|entry| entry.name == "empty"), "{path:?}");
    }
    subject.finish(backend).await;
}

pub async fn the_current_directory_can_be_chosen(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let root = subject.work_dir().to_path_buf();
    sh(
        &*subject,
        "mkdir -p one/two; echo > file; ln -s one/two link",
    )
    .await;
    subject.set_workdir(at("one")).await.unwrap();
    assert_eq!(subject.current_dir(), root.join("one"));
    assert_eq!(subject.work_dir(), root);
    subject.write_file(at("here"), b"1").await.unwrap();
    assert_eq!(
        subject.read_file(&root.join("one/here")).await.unwrap(),
        b"1"
    );
    assert_eq!(
        sh(&*subject, "pwd").await,
        root.join("one").to_str().unwrap()
    );
    let names = subject.list_directory(at(".")).await.unwrap();
    assert_eq!(names.len(), 2);
    subject.set_workdir(at("two")).await.unwrap();
    assert_eq!(subject.current_dir(), root.join("one/two"));
    // Up is fine as long as it stays inside.
    assert_eq!(subject.read_file(at("../here")).await.unwrap(), b"1");
    subject.delete_file(at("../here")).await.unwrap();
    let exec = Exec::new(["pwd"]).cwd("../..");
    let outcome = subject.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text().trim_end(), root.to_str().unwrap());
    let error = subject.read_file(at("../../../x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Confinement);
    for (path, kind) in [
        ("missing", ErrorKind::NotFound),
        ("../../file", ErrorKind::WrongFileKind),
        ("../../..", ErrorKind::Confinement),
    ] {
        let error = subject.set_workdir(at(path)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    assert_eq!(subject.current_dir(), root.join("one/two"));
    subject.set_workdir(&root).await.unwrap();
    assert_eq!(subject.current_dir(), root);
    subject.finish(backend).await;
}
