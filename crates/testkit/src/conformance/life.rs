//! From first use to the time after the end.

use std::sync::Arc;
use std::time::Duration;

use holm_sandbox::{
    ErrorKind, Exec, FileUpload, SandboxError, Secret, TeardownReport, UncommittedWork,
};

use super::{Backend, PATIENCE, at, sh, unusual_seconds};

pub async fn directories_are_where_the_contract_says(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    assert!(subject.work_dir().is_absolute());
    assert_eq!(subject.current_dir(), subject.work_dir());
    subject.finish(backend).await;
}

pub async fn twenty_tasks_work_at_once(backend: &dyn Backend) {
    let subject = Arc::new(backend.sandbox().await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let subject = subject.clone();
        tasks.spawn(async move {
            for round in 0..3 {
                let path = format!("task-{number}/{round}");
                let content = format!("{number} {round}");
                subject
                    .write_file(at(&path), content.as_bytes())
                    .await
                    .unwrap();
                let script = format!("cat {path}; exit {number}");
                let exec = Exec::new(["sh", "-c", &script]).timeout(PATIENCE);
                let outcome = subject.exec(exec).await.unwrap();
                assert_eq!(outcome.stdout_text(), content);
                assert_eq!(outcome.exit_code, number);
                let read = subject.read_file(at(&path)).await.unwrap();
                assert_eq!(read, content.as_bytes());
                let folder = format!("task-{number}");
                let entries = subject.list_directory(at(&folder)).await.unwrap();
                assert_eq!(entries.len(), round + 1);
            }
            let path = format!("task-{number}/0");
            subject.delete_file(at(&path)).await.unwrap();
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(sh(&**subject, "ls -d task-* | wc -l").await, "20");
    Arc::into_inner(subject).unwrap().finish(backend).await;
}

pub async fn teardown_ends_what_still_runs(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let script = format!("touch running; sleep {}", unusual_seconds());
    let command = subject.exec(Exec::new(["sh", "-c", &script]));
    let end = async {
        while subject.read_file(at("running")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        subject.teardown(UncommittedWork::Discard).await
    };
    let (outcome, report) = tokio::time::timeout(PATIENCE, async { tokio::join!(command, end) })
        .await
        .expect("the command ends with its sandbox");
    assert!(!outcome.is_ok_and(|outcome| outcome.success()));
    assert!(report.warnings.is_empty(), "{report:?}");
    backend.assert_nothing_is_left();
}

pub async fn a_second_teardown_reports_nothing(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject.write_file(at("work"), b"1").await.unwrap();
    let keep = UncommittedWork::Keep;
    let (first, second) = tokio::join!(subject.teardown(keep), subject.teardown(keep));
    for report in [&first, &second] {
        assert!(
            report.warnings.is_empty() && report.leftovers.is_empty(),
            "{report:?}"
        );
    }
    assert!(first.branches.is_empty() || second.branches.is_empty());
    let third = subject.teardown(UncommittedWork::Discard).await;
    assert_eq!(third, TeardownReport::default());
    backend.assert_nothing_is_left();
}

pub async fn after_teardown_every_operation_says_so(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject.teardown(UncommittedWork::Keep).await;
    let host = tempfile::tempdir().unwrap();
    let upload = FileUpload {
        path: "x".into(),
        content: Vec::new(),
    };
    let capabilities = subject.capabilities();
    let sink = Box::new(|_, _: &[u8]| {});
    let mut outcomes = vec![
        ("exec", subject.exec(Exec::new(["true"])).await.err()),
        (
            "exec_streamed",
            subject.exec_streamed(Exec::new(["true"]), sink).await.err(),
        ),
        ("write_file", subject.write_file(at("x"), b"").await.err()),
        ("upload_files", subject.upload_files(&[upload]).await.err()),
        ("read_file", subject.read_file(at("x")).await.err()),
        ("delete_file", subject.delete_file(at("x")).await.err()),
        (
            "list_directory",
            subject.list_directory(at(".")).await.err(),
        ),
        ("set_workdir", subject.set_workdir(at(".")).await.err()),
    ];
    if capabilities.export {
        let exported = subject
            .export_directory(at("."), &host.path().join("x"))
            .await;
        outcomes.push(("export_directory", exported.err()));
    }
    if capabilities.refresh {
        let refreshed = subject.refresh_from_host(host.path(), at(".")).await;
        outcomes.push(("refresh_from_host", refreshed.err()));
    }
    if capabilities.snapshot {
        outcomes.push(("snapshot", subject.snapshot().await.err()));
    }
    if capabilities.push_branch {
        let pushed = subject.push_branch("subject", &Secret::from("t")).await;
        outcomes.push(("push_branch", pushed.err()));
    }
    if capabilities.default_branch {
        outcomes.push(("default_branch", subject.default_branch().await.err()));
    }
    for (operation, error) in outcomes {
        assert!(
            matches!(error, Some(SandboxError::TornDown)),
            "{operation}: {error:?}"
        );
    }
    backend.assert_nothing_is_left();
}

pub async fn what_is_unsupported_is_announced(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let host = tempfile::tempdir().unwrap();
    let capabilities = subject.capabilities();
    let exported = subject
        .export_directory(at("."), &host.path().join("x"))
        .await;
    let refreshed = subject.refresh_from_host(host.path(), at("copied")).await;
    let pushed = subject.push_branch("subject", &Secret::from("t")).await;
    for (operation, announced, error) in [
        (
            "snapshot",
            capabilities.snapshot,
            subject.snapshot().await.err(),
        ),
        ("push_branch", capabilities.push_branch, pushed.err()),
        (
            "default_branch",
            capabilities.default_branch,
            subject.default_branch().await.err(),
        ),
        ("export_directory", capabilities.export, exported.err()),
        ("refresh_from_host", capabilities.refresh, refreshed.err()),
    ] {
        let unsupported = error.is_some_and(|error| error.kind() == ErrorKind::Unsupported);
        assert_eq!(unsupported, !announced, "{operation}");
    }
    subject.finish(backend).await;
}
