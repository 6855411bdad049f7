//! A place for one test's sandboxes, and the proof that nothing of them is left.

mod child;
pub(crate) mod daytona;
mod leftovers;
pub(crate) mod recorder;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use holm_sandbox::{Exec, ExecOutcome, Sandbox, TeardownReport, UncommittedWork};
use holm_sandbox_backends::local::{
    CacheLimits, CreateOptions, IsolationChoice, LocalConfig, LocalRuntime, LocalSandbox, Source,
    State, Stay,
};
use holm_testkit::TestRepository;
use holm_testkit::conformance::{Backend, Subject};
use tempfile::TempDir;

pub(crate) use child::{Child, child_scene, told};

/// Long enough for a loaded machine, and never waited for in full by a test that passes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How many runtimes this process has, each with a spawner.
static RUNTIMES: AtomicUsize = AtomicUsize::new(0);

fn start_runtime(config: LocalConfig) -> Arc<LocalRuntime> {
    let runtime = LocalRuntime::start(config).unwrap();
    RUNTIMES.fetch_add(1, Ordering::Relaxed);
    runtime
}

/// A user's machine: state, temp folder and home of its own.
#[derive(Debug)]
pub(crate) struct TestHost {
    pub(crate) runtime: Arc<LocalRuntime>,
    pub(crate) folder: TempDir,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut LocalConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tmp", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        // Root works as the owner of a repository, who must be able to make the worktree.
        open_to_all(folder.path());
        open_to_all(&folder.path().join("tmp"));
        let mut config = config_in(folder.path());
        change(&mut config);
        let runtime = start_runtime(config);
        Self { runtime, folder }
    }

    /// A second process's view of the same state.
    pub(crate) fn second_runtime(&self) -> Arc<LocalRuntime> {
        start_runtime(self.runtime.config().clone())
    }

    /// A sandbox on a repository.
    pub(crate) fn sandbox(
        &self,
        isolation: IsolationChoice,
        repository: &TestRepository,
        branch: &str,
    ) -> LocalSandbox {
        let options = on_repository(isolation, repository.path(), branch);
        self.runtime.create(&options).unwrap()
    }

    /// A sandbox in a box, on a repository.
    pub(crate) fn boxed(&self, repository: &TestRepository, branch: &str) -> LocalSandbox {
        self.sandbox(IsolationChoice::Namespaces, repository, branch)
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// The trees of the cached checkouts.
    pub(crate) fn cached_trees(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.data("checkouts")) else {
            return Vec::new();
        };
        let trees = entries.map(|entry| entry.unwrap().path().join("tree"));
        trees.filter(|tree| tree.is_dir()).collect()
    }

    /// Fails if a sandbox left a file, a mount, a process or a control group behind.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        leftovers::assert_none(self);
    }
}

impl Drop for TestHost {
    /// A test that failed half-way must not leave a box that stays.
    fn drop(&mut self) {
        for listed in self.runtime.list().unwrap_or_default() {
            let init = listed
                .record
                .init
                .filter(|_| listed.state == State::Running);
            if let Some(pid) =
                init.and_then(|init| rustix::process::Pid::from_raw(init.process.pid))
            {
                let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

pub(crate) fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if folder.ends_with("tmp") {
        0o1777
    } else {
        0o755
    };
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn config_in(folder: &Path) -> LocalConfig {
    let home = folder.join("home");
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    LocalConfig {
        data_dir: folder.join("data"),
        temp_dir: folder.join("tmp"),
        home: Some(home.clone()),
        environment: vec![("PATH".into(), path), ("HOME".into(), home.into())],
        cache: CacheLimits::default(),
        prepared_boxes: 0,
    }
}

pub(crate) fn on_repository(
    isolation: IsolationChoice,
    path: &Path,
    branch: &str,
) -> CreateOptions {
    CreateOptions {
        source: Source::Repository {
            path: path.to_path_buf(),
            branch: Some(branch.to_owned()),
        },
        isolation,
        ..CreateOptions::default()
    }
}

/// The same sandbox, made to stay.
pub(crate) fn staying(mut options: CreateOptions, name: &str) -> CreateOptions {
    options.stay = Stay::UntilRemoved;
    options.name = Some(name.to_owned());
    options
}

/// What tests do with a sandbox on their own thread.
pub(crate) trait Use {
    /// Runs a script, which must succeed, and returns its output without the last newline.
    fn sh(&self, script: &str) -> String;
    /// Runs a script, whatever comes of it.
    fn try_sh(&self, script: &str) -> ExecOutcome;
    /// Ends the sandbox; what was not committed is kept.
    fn end(&self) -> TeardownReport;
    /// Ends the sandbox, which must go without a word.
    fn end_cleanly(&self) -> TeardownReport;
}

impl Use for LocalSandbox {
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let outcome = self.try_sh(script);
        let stderr = outcome.stderr_text();
        assert!(
            outcome.success(),
            "`{script}` failed: {outcome:?}\n{stderr}"
        );
        let stdout = outcome.stdout_text();
        stdout.strip_suffix('\n').unwrap_or(&stdout).to_owned()
    }

    #[track_caller]
    fn try_sh(&self, script: &str) -> ExecOutcome {
        let exec = Exec::new(["sh", "-c", script]).timeout(PATIENCE);
        self.exec_blocking(exec, None).unwrap()
    }

    fn end(&self) -> TeardownReport {
        self.teardown_blocking(UncommittedWork::Keep)
    }

    #[track_caller]
    fn end_cleanly(&self) -> TeardownReport {
        let report = self.end();
        assert!(report.warnings.is_empty(), "{report:?}");
        assert!(report.leftovers.is_empty(), "{report:?}");
        report
    }
}

/// An agent's way to commit everything.
pub(crate) const COMMIT_ALL: &str = "git add --all && git commit --quiet --allow-empty";

/// Waits for a state, not for time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        let pause = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        rustix::event::poll(&mut [], Some(&pause)).unwrap();
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The local backend with a repository, for the conformance suite.
pub(crate) struct LocalBackend {
    host: TestHost,
    isolation: IsolationChoice,
}

/// The local backend with a folder of the host or an empty one, for the conformance suite.
pub(crate) struct DirectoryBackend {
    host: TestHost,
    isolation: IsolationChoice,
    folder: Option<TempDir>,
}

impl LocalBackend {
    pub(crate) fn new(isolation: IsolationChoice) -> Self {
        Self {
            host: TestHost::new(),
            isolation,
        }
    }
}

#[async_trait]
impl Backend for LocalBackend {
    async fn repository_sandbox(
        &self,
        repository: &TestRepository,
        branch: &str,
    ) -> Box<dyn Sandbox> {
        Box::new(self.host.sandbox(self.isolation, repository, branch))
    }

    fn assert_nothing_is_left(&self) {
        self.host.assert_nothing_is_left();
    }
}

impl DirectoryBackend {
    /// Sandboxes that work on a folder of the host.
    pub(crate) fn in_place(isolation: IsolationChoice) -> Self {
        Self {
            host: TestHost::new(),
            isolation,
            folder: Some(tempfile::tempdir().unwrap()),
        }
    }

    /// Sandboxes that begin with an empty folder of their own.
    pub(crate) fn empty(isolation: IsolationChoice) -> Self {
        Self {
            folder: None,
            ..Self::in_place(isolation)
        }
    }
}

#[async_trait]
impl Backend for DirectoryBackend {
    async fn repository_sandbox(&self, _: &TestRepository, _: &str) -> Box<dyn Sandbox> {
        panic!("a folder has no branches")
    }

    async fn sandbox(&self) -> Subject {
        let source = match &self.folder {
            Some(folder) => Source::Directory(folder.path().to_path_buf()),
            None => Source::Empty,
        };
        let options = CreateOptions {
            source,
            isolation: self.isolation,
            ..CreateOptions::default()
        };
        Subject {
            sandbox: Box::new(self.host.runtime.create(&options).unwrap()),
            repository: None,
        }
    }

    fn assert_nothing_is_left(&self) {
        self.host.assert_nothing_is_left();
    }
}
