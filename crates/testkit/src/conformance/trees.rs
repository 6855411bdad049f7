//! Whole directories, out of the sandbox and into it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use holm_sandbox::ErrorKind;

use super::{Backend, at, sh};

pub async fn an_exported_directory_is_on_the_host(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    if !subject.capabilities().export {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let script = "mkdir -p out/deep; echo text > out/deep/file; printf '\\377' > 'out/odd name'; \
                  echo x > out/tool; chmod 755 out/tool; ln -s deep/file out/link";
    sh(&*subject, script).await;
    let target = host.path().join("copy");
    let went = subject.export_directory(at("out"), &target).await.unwrap();
    assert_eq!(went, target);
    assert_eq!(fs::read(target.join("deep/file")).unwrap(), b"text\n");
    assert_eq!(fs::read(target.join("odd name")).unwrap(), b"\xff");
    assert_eq!(
        fs::read_link(target.join("link")).unwrap(),
        PathBuf::from("deep/file")
    );
    let mode = fs::metadata(target.join("tool"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    for (from, kind) in [
        ("missing", ErrorKind::NotFound),
        ("out/tool", ErrorKind::WrongFileKind),
        ("..", ErrorKind::Confinement),
    ] {
        let other = host.path().join("other");
        let error = subject
            .export_directory(at(from), &other)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{from}: {error}");
        assert!(!other.exists());
    }
    subject.finish(backend).await;
}

pub async fn an_export_does_not_follow_links_outside(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    if !subject.capabilities().export {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let script = "mkdir out; ln -s /etc/passwd out/a; ln -s ../../../../etc/passwd out/b; \
                  ln -s / out/c; mkfifo out/fifo; ln -s .. out/d; echo x > out/file";
    sh(&*subject, script).await;
    let target = host.path().join("copy");
    subject.export_directory(at("out"), &target).await.unwrap();
    for entry in fs::read_dir(&target).unwrap() {
        let path = entry.unwrap().path();
        // What is left resolves to something in the copy, or to nothing.
        if let Ok(resolved) = fs::canonicalize(&path) {
            let inside = resolved.starts_with(fs::canonicalize(&target).unwrap());
            assert!(inside, "{path:?} leads to {resolved:?}");
        }
    }
    assert_eq!(fs::read(target.join("file")).unwrap(), b"x\n");
    subject.finish(backend).await;
}

pub async fn an_export_does_not_overwrite(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    if !subject.capabilities().export {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    sh(&*subject, "mkdir out; echo new > out/file").await;
    fs::write(host.path().join("file"), "the user's").unwrap();
    let error = subject
        .export_directory(at("out"), host.path())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(fs::read(host.path().join("file")).unwrap(), b"the user's");
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 1);
    subject.finish(backend).await;
}

pub async fn a_directory_of_the_host_is_copied_in(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    if !subject.capabilities().refresh {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    fs::create_dir_all(host.path().join("deep/er")).unwrap();
    fs::write(host.path().join("deep/er/file"), "from the host").unwrap();
    fs::write(host.path().join("tool"), "#!/bin/sh\necho ran\n").unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(host.path().join("tool"), executable).unwrap();
    sh(
        &*subject,
        "mkdir -p in/deep/er; echo old > in/deep/er/file; echo mine > in/own",
    )
    .await;
    subject
        .refresh_from_host(host.path(), at("in"))
        .await
        .unwrap();
    assert_eq!(
        sh(&*subject, "cat in/deep/er/file in/own").await,
        "from the hostmine"
    );
    assert_eq!(sh(&*subject, "in/tool && rm -r in/deep").await, "ran");
    // A place that does not exist yet is made.
    subject
        .refresh_from_host(host.path(), at("new/place"))
        .await
        .unwrap();
    assert_eq!(
        sh(&*subject, "cat new/place/deep/er/file").await,
        "from the host"
    );
    let error = subject
        .refresh_from_host(host.path(), at("../out"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Confinement, "{error}");
    let missing = host.path().join("missing");
    let error = subject
        .refresh_from_host(&missing, at("in"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    subject.finish(backend).await;
}
