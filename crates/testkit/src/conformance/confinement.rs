//! Paths that lead out of the sandbox, tried on every operation.

use std::path::Path;

use holm_sandbox::{ErrorKind, Exec, FileUpload, Sandbox};

use super::{Backend, at, run, sh, unusual_seconds};

/// Every operation that takes a path, with what came of it.
async fn every_operation(sandbox: &dyn Sandbox, path: &Path) -> Vec<(&'static str, ErrorKind)> {
    let host = tempfile::tempdir().unwrap();
    let upload = FileUpload {
        path: path.join("x"),
        content: Vec::new(),
    };
    let below = path.join("x");
    let mut outcomes = vec![
        ("read_file", sandbox.read_file(&below).await.err()),
        ("write_file", sandbox.write_file(&below, b"bad").await.err()),
        ("upload_files", sandbox.upload_files(&[upload]).await.err()),
        ("delete_file", sandbox.delete_file(&below).await.err()),
        ("list_directory", sandbox.list_directory(path).await.err()),
        ("set_workdir", sandbox.set_workdir(path).await.err()),
        (
            "exec",
            sandbox.exec(Exec::new(["true"]).cwd(path)).await.err(),
        ),
    ];
    if sandbox.capabilities().export {
        let target = host.path().join("exported");
        let exported = sandbox.export_directory(path, &target).await;
        outcomes.push(("export_directory", exported.err()));
    }
    if sandbox.capabilities().refresh {
        let source = host.path().join("source");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("file"), "x").unwrap();
        let refreshed = sandbox.refresh_from_host(&source, path).await;
        outcomes.push(("refresh_from_host", refreshed.err()));
    }
    outcomes
        .into_iter()
        .map(|(operation, error)| {
            let error = error.unwrap_or_else(|| panic!("{operation} took `{}`", path.display()));
            (operation, error.kind())
        })
        .collect()
}

async fn assert_refused(sandbox: &dyn Sandbox, path: &str) {
    for (operation, kind) in every_operation(sandbox, at(path)).await {
        assert_eq!(kind, ErrorKind::Confinement, "{operation} of `{path}`");
    }
}

pub async fn dot_dot_is_refused_by_every_operation(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    sh(&*subject, "mkdir -p a/b").await;
    for path in [
        "..",
        "../escape",
        "a/../..",
        "a/b/../../../x",
        "./../x",
        "missing/../../x",
    ] {
        assert_refused(&*subject, path).await;
    }
    // A name that begins with two dots is just a name.
    subject.write_file(at("..foo/...bar"), b"1").await.unwrap();
    assert_eq!(subject.read_file(at("..foo/...bar")).await.unwrap(), b"1");
    for path in ["a\0b", "\0"] {
        let error = subject.read_file(at(path)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    subject.finish(backend).await;
}

pub async fn absolute_paths_outside_are_refused_by_every_operation(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    for path in ["/", "/etc", "/tmp/x", "/proc/self/root", "/proc/1/root/etc"] {
        assert_refused(&*subject, path).await;
    }
    subject.finish(backend).await;
}

pub async fn links_that_lead_out_are_refused_by_every_operation(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let script = "ln -s /etc absolute; ln -s ../../.. climbing; ln -s / root; mkdir -p deep; \
                  ln -s ../absolute deep/second; ln -s /proc/self/root magic; \
                  ln -s /proc/self/cwd here";
    sh(&*subject, script).await;
    for path in [
        "absolute",
        "climbing",
        "root/etc",
        "deep/second",
        "magic/etc",
        "here",
    ] {
        assert_refused(&*subject, path).await;
    }
    subject.finish(backend).await;
}

pub async fn a_link_at_the_end_is_replaced_and_not_followed(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outside = format!("/tmp/holm-outside-{}", unusual_seconds());
    sh(
        &*subject,
        &format!("echo untouched > {outside}; ln -s {outside} link"),
    )
    .await;
    let error = subject.read_file(at("link")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Confinement, "{error}");
    subject.write_file(at("link"), b"mine").await.unwrap();
    assert_eq!(sh(&*subject, &format!("cat {outside}")).await, "untouched");
    assert_eq!(
        sh(&*subject, "stat -c %F link; cat link").await,
        "regular file\nmine"
    );
    sh(&*subject, &format!("rm link; ln -s {outside} link")).await;
    subject.delete_file(at("link")).await.unwrap();
    assert_eq!(
        sh(&*subject, &format!("cat {outside}; rm {outside}")).await,
        "untouched"
    );
    subject.finish(backend).await;
}

pub async fn a_prefix_is_not_a_parent(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let work_dir = subject.work_dir().to_str().unwrap().to_owned();
    for path in [
        format!("{work_dir}-evil"),
        format!("{work_dir}/../x"),
        format!("{work_dir}x"),
    ] {
        assert_refused(&*subject, &path).await;
    }
    subject.finish(backend).await;
}

pub async fn a_directory_swapped_for_a_link_leads_nowhere(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outside = format!("/tmp/holm-outside-{}", unusual_seconds());
    sh(
        &*subject,
        &format!("mkdir {outside} folder; ln -s {outside} link"),
    )
    .await;
    let swap = "n=0; while [ ! -e stop ]; do mv -T folder aside; mv -T link folder; \
                mv -T folder link; mv -T aside folder; n=$((n+1)); done; echo $n";
    let swapping = run(&*subject, swap);
    let writing = async {
        let mut refused = 0;
        for number in 0..backend.race_rounds() {
            let path = format!("folder/{number}");
            refused += u32::from(subject.write_file(at(&path), b"x").await.is_err());
            if let Ok(entries) = subject.list_directory(at("folder")).await {
                let ours = |name: &std::ffi::OsStr| name != "..";
                assert!(entries.iter().all(|entry| ours(&entry.name)));
            }
        }
        subject.write_file(at("stop"), b"").await.unwrap();
        refused
    };
    let (outcome, _refused) = tokio::join!(swapping, writing);
    assert_ne!(outcome.stdout_text().trim(), "0", "{outcome:?}");
    assert_eq!(
        sh(&*subject, &format!("ls -A {outside}; rm -r {outside}")).await,
        ""
    );
    subject.finish(backend).await;
}
