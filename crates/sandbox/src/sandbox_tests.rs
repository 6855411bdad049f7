//! The default bodies of the trait, over a sandbox that only remembers what was written.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use super::*;

#[derive(Debug, Default)]
struct Recorder {
    written: Mutex<Vec<PathBuf>>,
}

#[async_trait]
impl Sandbox for Recorder {
    fn work_dir(&self) -> &Path {
        Path::new("/base")
    }

    fn current_dir(&self) -> PathBuf {
        PathBuf::from("/base/src")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            snapshot: false,
            push_branch: false,
            default_branch: false,
            export: false,
            refresh: false,
            isolation: Isolation::None,
        }
    }

    async fn exec(&self, _: Exec) -> Result<ExecOutcome> {
        Err(SandboxError::TornDown)
    }

    async fn exec_streamed(&self, _: Exec, _: Box<dyn OutputSink>) -> Result<ExecOutcome> {
        Err(SandboxError::TornDown)
    }

    async fn write_file(&self, path: &Path, _: &[u8]) -> Result<()> {
        self.written.lock().unwrap().push(path.to_path_buf());
        Ok(())
    }

    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        Err(SandboxError::NotFound {
            path: path.to_path_buf(),
        })
    }

    async fn delete_file(&self, path: &Path) -> Result<()> {
        Err(SandboxError::NotFound {
            path: path.to_path_buf(),
        })
    }

    async fn list_directory(&self, _: &Path) -> Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }

    async fn set_workdir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    async fn teardown(&self, _: UncommittedWork) -> TeardownReport {
        TeardownReport::default()
    }
}

/// Nothing here waits, so the first poll has the answer.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a default body waited"),
    }
}

fn upload(path: &str) -> FileUpload {
    FileUpload {
        path: PathBuf::from(path),
        content: Vec::new(),
    }
}

#[test]
fn uploads_start_at_the_current_directory() {
    let sandbox = Recorder::default();
    now(sandbox.upload_files(&[upload("a"), upload("../b"), upload("/base/c")])).unwrap();
    let written = sandbox.written.lock().unwrap();
    assert_eq!(*written, ["a", "../b", "/base/c"].map(PathBuf::from));
}

#[test]
fn ac_7_one_bad_path_and_nothing_is_written() {
    let sandbox = Recorder::default();
    let error = now(sandbox.upload_files(&[upload("a"), upload("../../escape.txt")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "path confinement violation: `../../escape.txt` is outside base directory `/base`"
    );
    assert!(sandbox.written.lock().unwrap().is_empty());
}

#[test]
fn what_a_backend_lacks_is_said_and_not_skipped() {
    let sandbox: Box<dyn Sandbox> = Box::<Recorder>::default();
    let here = Path::new(".");
    let errors = [
        now(sandbox.export_directory(here, here)).unwrap_err(),
        now(sandbox.refresh_from_host(here, here)).unwrap_err(),
        now(sandbox.snapshot()).unwrap_err(),
        now(sandbox.push_branch("main", &Secret::new("t"))).unwrap_err(),
        now(sandbox.default_branch()).unwrap_err(),
    ];
    let texts = errors.map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "export_directory",
            "refresh_from_host",
            "snapshot",
            "push_branch",
            "default_branch"
        ]
        .map(|operation| format!("this sandbox does not support `{operation}`"))
    );
}

#[test]
fn entries_are_ordered_by_the_bytes_of_their_names() {
    let entry = |name: &str, kind| DirEntry {
        name: OsString::from(name),
        kind,
    };
    let mut entries = [
        entry("é", FileKind::File),
        entry("b", FileKind::Directory),
        entry("B", FileKind::Symlink),
        entry("a", FileKind::Other),
    ];
    entries.sort();
    let names: Vec<_> = entries
        .iter()
        .map(|entry| entry.name.to_string_lossy())
        .collect();
    assert_eq!(names, ["B", "a", "b", "é"]);
}

#[test]
fn a_snapshot_is_shown_as_its_id() {
    assert_eq!(
        SnapshotId("snapshot-1".to_owned()).to_string(),
        "snapshot-1"
    );
}
