//! Seed 000: files and snapshots.

use holm_sandbox::{ErrorKind, FileUpload, Sandbox};
use holm_testkit::conformance::sh;

use super::{assert_in_order, recorded};

fn upload(path: &str, content: &[u8]) -> FileUpload {
    FileUpload {
        path: path.into(),
        content: content.to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_06_files_are_written_below_the_work_folder_with_their_folders() {
    let (_backend, recorder, sandbox) = recorded().await;
    let files = [
        upload("test.txt", b"text"),
        upload("a/b/binary", b"\0\xff\n"),
    ];
    sandbox.upload_files(&files).await.unwrap();
    let script = "stat -c '%a %n' a a/b test.txt a/b/binary; od -An -tx1 a/b/binary; cat test.txt";
    assert_eq!(
        sh(&sandbox, script).await,
        "755 a\n755 a/b\n644 test.txt\n644 a/b/binary\n 00 ff 0a\ntext"
    );
    assert!(recorder.sent().contains("/files/bulk-upload "));
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_07_a_path_that_leads_out_is_refused_before_any_request() {
    let (_backend, recorder, sandbox) = recorded().await;
    for path in ["../escape.txt", "/etc/passwd", "a/../../x"] {
        let files = [upload("fine", b""), upload(path, b"")];
        let error = sandbox.upload_files(&files).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Confinement, "{error}");
    }
    assert_eq!(recorder.sent(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_08_a_snapshot_is_a_commit_with_or_without_changes() {
    let (_backend, recorder, sandbox) = recorded().await;
    let empty = sandbox.snapshot().await.unwrap();
    let sent = recorder.sent();
    assert_in_order(&sent, &["/git/status?", "--allow-empty"]);
    assert!(!sent.contains("/git/commit "), "{sent}");
    sandbox.write_file("new".as_ref(), b"1").await.unwrap();
    recorder.forget();
    let changed = sandbox.snapshot().await.unwrap();
    let sent = recorder.sent();
    assert_in_order(&sent, &["/git/status?", "/git/add ", "/git/commit "]);
    assert!(sent.contains(r#""files":["."]"#), "{sent}");
    assert!(sent.contains(r#""author":"harness","email":"harness@local""#));
    assert!(!empty.0.is_empty() && !changed.0.is_empty());
    let log = sh(&sandbox, "git log -2 --format='%H %an %ae %s'").await;
    let lines: Vec<&str> = log.lines().collect();
    for (line, snapshot) in lines.iter().zip([&changed, &empty]) {
        let start = format!("{snapshot} harness harness@local snapshot-");
        assert!(line.starts_with(&start), "{line}");
    }
}
