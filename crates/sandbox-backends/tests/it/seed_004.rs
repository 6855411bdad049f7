//! Seed 004's tests under their own names: a sandbox on a base directory, without git.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holm_sandbox::{ErrorKind, Exec, Sandbox, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice, LocalSandbox, Source};
use tempfile::TempDir;

use crate::support::{PATIENCE, TestHost};

pub(crate) struct Fixture {
    host: TestHost,
    base_dir: TempDir,
    sandbox: LocalSandbox,
}

impl Fixture {
    fn new(isolation: IsolationChoice) -> Self {
        let host = TestHost::new();
        let base_dir = tempfile::tempdir().unwrap();
        let options = CreateOptions {
            source: Source::Directory(base_dir.path().to_path_buf()),
            isolation,
            ..CreateOptions::default()
        };
        let sandbox = host.runtime.create(&options).unwrap();
        Self {
            host,
            base_dir,
            sandbox,
        }
    }

    /// Ends the sandbox. The folder was the user's and stays.
    async fn finish(self) {
        let report = self.sandbox.teardown(UncommittedWork::Keep).await;
        assert!(
            report.warnings.is_empty() && report.branches.is_empty(),
            "{report:?}"
        );
        assert!(self.base_dir.path().is_dir());
        self.host.assert_nothing_is_left();
    }
}

pub(crate) async fn exec(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let script = "echo out; echo err >&2; touch made; exit 3";
    let outcome = fixture
        .sandbox
        .exec(Exec::new(["sh", "-c", script]))
        .await
        .unwrap();
    assert_eq!(
        (outcome.exit_code, &*outcome.stdout, &*outcome.stderr),
        (3, &b"out\n"[..], &b"err\n"[..])
    );
    // It works on the folder itself.
    assert!(fixture.base_dir.path().join("made").is_file());
    fixture.finish().await;
}

pub(crate) async fn write_file(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    for (name, path, content, error) in [
        ("simple file", "test.txt", "hello world", None),
        ("nested path", "subdir/test.txt", "nested", None),
        ("overwrite", "test.txt", "again", None),
        ("empty content", "empty", "", None),
        (
            "path traversal attempt",
            "../outside.txt",
            "malicious",
            Some("outside base directory"),
        ),
        (
            "absolute path outside",
            "/etc/holm-test",
            "malicious",
            Some("outside base directory"),
        ),
        (
            "nested traversal",
            "subdir/../../x",
            "malicious",
            Some("outside base directory"),
        ),
        (
            "a folder in the way",
            "subdir",
            "x",
            Some("is not a regular file"),
        ),
    ] {
        let written = fixture
            .sandbox
            .write_file(Path::new(path), content.as_bytes())
            .await;
        match error {
            Some(expected) => {
                let text = written.unwrap_err().to_string();
                assert!(text.contains(expected), "{name}: {text}");
            }
            None => {
                written.unwrap();
                let read = fixture.sandbox.read_file(Path::new(path)).await.unwrap();
                assert_eq!(read, content.as_bytes(), "{name}");
                let on_host = fs::read(fixture.base_dir.path().join(path)).unwrap();
                assert_eq!(on_host, content.as_bytes(), "{name}");
            }
        }
    }
    let outside = fixture
        .base_dir
        .path()
        .parent()
        .unwrap()
        .join("outside.txt");
    assert!(!outside.exists());
    fixture.finish().await;
}

pub(crate) async fn read_file(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    fs::write(fixture.base_dir.path().join("from-host"), b"\x00binary\xff").unwrap();
    let read = fixture
        .sandbox
        .read_file(Path::new("from-host"))
        .await
        .unwrap();
    assert_eq!(read, b"\x00binary\xff");
    let error = fixture
        .sandbox
        .read_file(Path::new("missing"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    fixture.finish().await;
}

pub(crate) async fn list_directory(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    for name in ["c", "a", "B", ".d"] {
        fs::write(fixture.base_dir.path().join(name), "").unwrap();
    }
    let entries = fixture
        .sandbox
        .list_directory(Path::new("."))
        .await
        .unwrap();
    let names: Vec<_> = entries
        .iter()
        .map(|entry| entry.name.to_str().unwrap())
        .collect();
    assert_eq!(names, [".d", "B", "a", "c"]);
    fixture.finish().await;
}

pub(crate) async fn set_workdir(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    fs::create_dir(fixture.base_dir.path().join("sub")).unwrap();
    fixture.sandbox.set_workdir(Path::new("sub")).await.unwrap();
    fixture
        .sandbox
        .write_file(Path::new("file"), b"1")
        .await
        .unwrap();
    assert!(fixture.base_dir.path().join("sub/file").is_file());
    let outcome = fixture
        .sandbox
        .exec(Exec::new(["cat", "file"]))
        .await
        .unwrap();
    assert_eq!(outcome.stdout, b"1");
    fixture.finish().await;
}

pub(crate) async fn path_traversal(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    for path in ["../x", "a/../../x", "/etc/passwd", "..", "/", "./../x"] {
        let path = Path::new(path);
        let errors = [
            fixture.sandbox.write_file(path, b"").await.unwrap_err(),
            fixture.sandbox.read_file(path).await.unwrap_err(),
            fixture.sandbox.delete_file(path).await.unwrap_err(),
            fixture.sandbox.list_directory(path).await.unwrap_err(),
            fixture.sandbox.set_workdir(path).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Confinement, "{path:?}: {error}");
        }
    }
    fixture.finish().await;
}

pub(crate) async fn symlink_escape(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let link = |name: &str, target: PathBuf| {
        std::os::unix::fs::symlink(target, fixture.base_dir.path().join(name)).unwrap();
    };
    link("folder", outside.path().to_path_buf());
    link("file", outside.path().join("secret"));
    for path in ["folder/secret", "file"] {
        let error = fixture
            .sandbox
            .read_file(Path::new(path))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Confinement, "{path}: {error}");
    }
    let written = fixture
        .sandbox
        .write_file(Path::new("folder/new"), b"")
        .await;
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Confinement);
    fixture
        .sandbox
        .write_file(Path::new("file"), b"mine")
        .await
        .unwrap();
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    fixture.finish().await;
}

pub(crate) async fn concurrent(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let sandbox = Arc::new(fixture.sandbox.clone());
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let sandbox = sandbox.clone();
        tasks.spawn(async move {
            let path = PathBuf::from(format!("file-{number}"));
            sandbox
                .write_file(&path, path.to_str().unwrap().as_bytes())
                .await
                .unwrap();
            let exec = Exec::new([std::ffi::OsStr::new("cat"), path.as_os_str()]).timeout(PATIENCE);
            let outcome = sandbox.exec(exec).await.unwrap();
            assert_eq!(outcome.stdout_text(), path.to_str().unwrap());
            sandbox.list_directory(Path::new(".")).await.unwrap();
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(fs::read_dir(fixture.base_dir.path()).unwrap().count(), 20);
    fixture.finish().await;
}

pub(crate) async fn npm_workflow(isolation: IsolationChoice) {
    let fixture = Fixture::new(isolation);
    let package = br#"{"name": "test", "scripts": {"test": "echo success"}}"#;
    fixture
        .sandbox
        .write_file(Path::new("package.json"), package)
        .await
        .unwrap();
    let exec = Exec::new(["npm", "test"]).timeout(PATIENCE * 2);
    match fixture.sandbox.exec(exec).await {
        Err(error) if error.kind() == ErrorKind::CommandNotFound => {
            eprintln!("SKIPPED: npm is not installed, so its workflow was not tried");
        }
        outcome => {
            let outcome = outcome.unwrap();
            assert_eq!(outcome.exit_code, 0, "{}", outcome.stderr_text());
            assert!(outcome.stdout_text().contains("success"), "{outcome:?}");
        }
    }
    fixture.finish().await;
}

/// One test per name of the seed.
macro_rules! seed_004_tests {
    ($isolation:expr) => {
        $crate::seed_004::seed_004_tests! { $isolation;
            local_sandbox_exec: exec,
            local_sandbox_write_file: write_file,
            local_sandbox_read_file: read_file,
            local_sandbox_list_directory: list_directory,
            local_sandbox_set_workdir: set_workdir,
            local_sandbox_path_traversal: path_traversal,
            local_sandbox_symlink_escape: symlink_escape,
            local_sandbox_concurrent: concurrent,
            sandbox_npm_workflow: npm_workflow,
        }
    };
    ($isolation:expr; $($name:ident: $case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::seed_004::$case($isolation).await;
            }
        )*
    };
}

pub(crate) use seed_004_tests;
