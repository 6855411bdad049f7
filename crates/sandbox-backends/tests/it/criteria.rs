//! Seed 001's twelve acceptance criteria, each under its number, for one kind of isolation.
//!
//! The macro makes the same tests for `namespaces` and for `none`; the criteria know no difference.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_sandbox::{BackendKind, Exec, FileUpload, Sandbox, UncommittedWork};
use holm_sandbox_backends::daytona::{DaytonaOptions, MISSING_KEY};
use holm_sandbox_backends::local::{IsolationChoice, LocalSandbox};
use holm_sandbox_backends::{SandboxFactory, create};
use holm_testkit::TestRepository;

use crate::support::{TestHost, on_repository};

/// A sandbox as seed 001 makes one: in the system's temp directory.
pub(crate) struct Fixture {
    pub(crate) host: TestHost,
    pub(crate) repository: TestRepository,
    pub(crate) sandbox: LocalSandbox,
}

impl Fixture {
    pub(crate) fn new(isolation: IsolationChoice) -> Self {
        let host = TestHost::with(|config| config.temp_dir = std::env::temp_dir());
        let repository = TestRepository::new();
        let sandbox = host.sandbox(isolation, &repository, "test-branch");
        Self {
            host,
            repository,
            sandbox,
        }
    }

    pub(crate) async fn finish(self) {
        let report = self.sandbox.teardown(UncommittedWork::Keep).await;
        assert!(report.warnings.is_empty(), "{report:?}");
        assert!(!self.sandbox.work_dir().exists());
        self.host.assert_nothing_is_left();
    }
}

pub(crate) async fn creates_a_git_worktree_from_a_valid_repo(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let listed = fixture.repository.git(["worktree", "list", "--porcelain"]);
    let work_dir = fixture.sandbox.work_dir().display();
    assert!(
        listed.contains(&format!("worktree {work_dir}\n")),
        "{listed}"
    );
    assert!(listed.contains("branch refs/heads/test-branch"), "{listed}");
    let script =
        "git rev-parse --show-toplevel --abbrev-ref HEAD; git status --porcelain; cat README.md";
    let outcome = fixture
        .sandbox
        .exec(Exec::new(["sh", "-c", script]))
        .await
        .unwrap();
    let expected = format!("{work_dir}\ntest-branch\n# A test\n");
    assert_eq!(outcome.stdout_text(), expected);
    fixture.finish().await;
}

pub(crate) async fn work_dir_is_absolute_and_in_the_temp_directory(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let work_dir = fixture.sandbox.work_dir().to_path_buf();
    let temp_dir = std::fs::canonicalize(std::env::temp_dir()).unwrap();
    assert!(
        work_dir.is_absolute() && work_dir.parent() == Some(&temp_dir),
        "{work_dir:?}"
    );
    let name = work_dir.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("harness-{}", fixture.sandbox.record().run_id));
    fixture.finish().await;
}

pub(crate) async fn exec_runs_in_the_worktree(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let work_dir = fixture.sandbox.work_dir().to_path_buf();
    let exec = Exec::new(["echo", "hello"])
        .cwd(&work_dir)
        .timeout(Duration::from_secs(5));
    let outcome = fixture.sandbox.exec(exec).await.unwrap();
    assert_eq!(
        (outcome.exit_code, outcome.stdout_text().trim()),
        (0, "hello")
    );
    let outcome = fixture.sandbox.exec(Exec::new(["pwd"])).await.unwrap();
    assert_eq!(Path::new(outcome.stdout_text().trim_end()), work_dir);
    fixture.finish().await;
}

pub(crate) async fn exec_rejects_a_cwd_outside(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let exec = Exec::new(["ls"])
        .cwd("/tmp")
        .timeout(Duration::from_secs(5));
    let error = fixture.sandbox.exec(exec).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("path confinement"), "{error}");
    fixture.finish().await;
}

pub(crate) async fn exec_kills_at_the_timeout(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let exec = Exec::new(["sleep", "10"]).timeout(Duration::from_millis(100));
    let outcome = fixture.sandbox.exec(exec).await.unwrap();
    assert!(outcome.timed_out, "{outcome:?}");
    assert!(outcome.duration < Duration::from_secs(5), "{outcome:?}");
    fixture.finish().await;
}

fn upload(path: &str, content: &str) -> FileUpload {
    FileUpload {
        path: PathBuf::from(path),
        content: content.as_bytes().to_vec(),
    }
}

pub(crate) async fn upload_files_writes_below_the_work_dir(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let files = [upload("test.txt", "hello"), upload("a/b/c.txt", "deep")];
    fixture.sandbox.upload_files(&files).await.unwrap();
    let exec = Exec::new(["cat", "test.txt", "a/b/c.txt"]);
    let outcome = fixture.sandbox.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), "hellodeep");
    fixture.finish().await;
}

pub(crate) async fn upload_files_rejects_traversal(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    for path in ["../escape.txt", "a/../../escape.txt", "/tmp/escape.txt"] {
        let files = [upload(path, "bad")];
        let error = fixture.sandbox.upload_files(&files).await.unwrap_err();
        let error = error.to_string().to_lowercase();
        assert!(error.contains("path confinement"), "{error}");
    }
    assert!(!std::env::temp_dir().join("escape.txt").exists());
    fixture.finish().await;
}

pub(crate) async fn snapshot_returns_a_reference(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    fixture
        .sandbox
        .upload_files(&[upload("new", "1")])
        .await
        .unwrap();
    let reference = fixture.sandbox.snapshot().await.unwrap();
    assert!(!reference.0.is_empty());
    let exec = Exec::new([
        "git".to_owned(),
        "show".to_owned(),
        format!("{reference}:new"),
    ]);
    let outcome = fixture.sandbox.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), "1");
    fixture.finish().await;
}

pub(crate) async fn teardown_removes_the_worktree(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let work_dir = fixture.sandbox.work_dir().to_path_buf();
    assert!(work_dir.is_dir());
    // Changes that nobody committed do not stand in its way.
    fixture
        .sandbox
        .upload_files(&[upload("dirty", "1")])
        .await
        .unwrap();
    let report = fixture.sandbox.teardown(UncommittedWork::Keep).await;
    assert!(report.warnings.is_empty(), "{report:?}");
    assert!(!work_dir.exists());
    let listed = fixture.repository.git(["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    fixture.host.assert_nothing_is_left();
}

pub(crate) async fn teardown_is_idempotent(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    fixture.sandbox.teardown(UncommittedWork::Keep).await;
    let report = fixture.sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report, holm_sandbox::TeardownReport::default());
    fixture.host.assert_nothing_is_left();
}

/// The stub that this criterion of seed 001 speaks of is gone: the factory makes sandboxes at Daytona, and says what
/// they need.
pub(crate) async fn the_daytona_stub_is_gone(isolation: IsolationChoice) {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let options = on_repository(isolation, repository.path(), "test");
    let mut factory = SandboxFactory {
        local: host.runtime.clone(),
        daytona: DaytonaOptions::default(),
        github_token: None,
    };
    let error = create(&factory, BackendKind::Daytona, &options).await;
    assert_eq!(error.unwrap_err().to_string(), MISSING_KEY);
    factory.daytona.api_key = Some("key".into());
    let error = create(&factory, BackendKind::Daytona, &options).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("not a local path"), "{error}");
    assert_eq!(repository.branches(), ["main"]);
    host.assert_nothing_is_left();
}

pub(crate) async fn exec_uses_no_shell(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let argv = [
        "echo",
        "$(touch injected)",
        ";",
        "touch",
        "injected",
        "`id`",
        "$HOME",
        "*",
    ];
    let outcome = fixture.sandbox.exec(Exec::new(argv)).await.unwrap();
    let expected = "$(touch injected) ; touch injected `id` $HOME *\n";
    assert_eq!(outcome.stdout_text(), expected);
    let read = fixture.sandbox.read_file(Path::new("injected")).await;
    assert!(read.is_err());
    fixture.finish().await;
}

/// One test per criterion.
macro_rules! acceptance_criteria {
    ($isolation:expr) => {
        #[tokio::test]
        async fn ac_11_daytona_stub_is_obsolete() {
            $crate::criteria::the_daytona_stub_is_gone($isolation).await;
        }

        $crate::criteria::acceptance_criteria! { $isolation;
            ac_1_creates_a_git_worktree_from_a_valid_repo:
                creates_a_git_worktree_from_a_valid_repo,
            ac_2_work_dir_is_absolute_and_in_the_temp_directory:
                work_dir_is_absolute_and_in_the_temp_directory,
            ac_3_exec_runs_in_the_worktree: exec_runs_in_the_worktree,
            ac_4_exec_rejects_a_cwd_outside: exec_rejects_a_cwd_outside,
            ac_5_exec_kills_at_the_timeout: exec_kills_at_the_timeout,
            ac_6_upload_files_writes_below_the_work_dir: upload_files_writes_below_the_work_dir,
            ac_7_upload_files_rejects_traversal: upload_files_rejects_traversal,
            ac_8_snapshot_returns_a_reference: snapshot_returns_a_reference,
            ac_9_teardown_removes_the_worktree: teardown_removes_the_worktree,
            ac_10_teardown_is_idempotent: teardown_is_idempotent,
            ac_12_exec_uses_no_shell: exec_uses_no_shell,
        }
    };
    ($isolation:expr; $($name:ident: $criterion:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::criteria::$criterion($isolation).await;
            }
        )*
    };
}

pub(crate) use acceptance_criteria;
