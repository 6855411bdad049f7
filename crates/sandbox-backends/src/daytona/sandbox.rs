//! A sandbox at Daytona, as the contract has it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use holm_daytona_client::{ClientError, Toolbox};
use holm_sandbox::{
    Capabilities, DirEntry, Exec, ExecOutcome, FileUpload, Isolation, OutputSink, PushOutcome,
    Redactor, Result, Sandbox, SandboxError, Secret, SnapshotId, TeardownReport, UncommittedWork,
    confine_from,
};

use super::branch::Repository;
use super::errors::remote;
use super::options::ExecWay;
use super::{exec, simple_exec};

/// Sessions that stay because a command left something running in them.
const SESSIONS_KEPT_MAX: usize = 32;

/// A sandbox at Daytona. Dropping it leaves it there: end it with [`Sandbox::teardown`].
#[derive(Debug)]
pub struct DaytonaSandbox {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) toolbox: Toolbox,
    pub(super) id: String,
    pub(super) name: String,
    /// Root of confinement.
    pub(super) work_dir: PathBuf,
    /// A folder beside it, for what is on its way.
    pub(super) stage: String,
    pub(super) repository: Option<Repository>,
    pub(super) bundles: Option<PathBuf>,
    pub(super) way: ExecWay,
    /// Nobody else may see it in an output.
    pub(super) github_token: Option<Secret>,
    pub(super) state: Mutex<State>,
    /// Set by the teardown.
    pub(super) ended: tokio::sync::OnceCell<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) current: PathBuf,
    pub(super) life: Life,
    sessions: VecDeque<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    InUse,
    TornDown,
}

impl State {
    pub(super) fn new(work_dir: &Path) -> Self {
        Self {
            current: work_dir.to_path_buf(),
            life: Life::InUse,
            sessions: VecDeque::new(),
        }
    }
}

impl Inner {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_torn_down(&self) -> bool {
        self.state().life == Life::TornDown
    }

    fn check_life(&self) -> Result<()> {
        match self.state().life {
            Life::InUse => Ok(()),
            Life::TornDown => Err(SandboxError::TornDown),
        }
    }

    /// A path relative to the work folder.
    pub(super) fn confined(&self, path: &Path) -> Result<PathBuf> {
        let current = self.state().current.clone();
        confine_from(&self.work_dir, &current, path)
    }

    /// A call failed: because the sandbox has ended, or by itself.
    pub(super) fn failed(&self, doing: &str, error: ClientError) -> SandboxError {
        self.gone_or(remote(doing, error))
    }

    pub(super) fn gone_or(&self, error: SandboxError) -> SandboxError {
        if self.is_torn_down() {
            SandboxError::TornDown
        } else {
            error
        }
    }

    pub(super) fn redactor(&self, exec: &Exec) -> Redactor {
        let none: [(&str, &str); 0] = [];
        let mut redactor = Redactor::from_env(none);
        if let Some(token) = &self.github_token {
            redactor = redactor.with_secret("GITHUB_TOKEN", token);
        }
        for (key, secret) in &exec.secret_env {
            redactor = redactor.with_secret(key.as_str(), secret);
        }
        redactor
    }

    /// Remembers a session that stays; gives the oldest if there are too many.
    pub(super) fn keep_session(&self, session: String) -> Option<String> {
        let mut state = self.state();
        state.sessions.push_back(session);
        if state.sessions.len() > SESSIONS_KEPT_MAX {
            state.sessions.pop_front()
        } else {
            None
        }
    }

    async fn exec(
        self: &Arc<Self>,
        exec: Exec,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Result<ExecOutcome> {
        self.check_life()?;
        exec.validate()?;
        let relative = self.confined(exec.cwd.as_deref().unwrap_or(Path::new("")))?;
        let cwd = if relative == Path::new(".") {
            self.work_dir.clone()
        } else {
            self.work_dir.join(relative)
        };
        match self.way {
            ExecWay::Session => exec::run(self, exec, cwd, sink).await,
            ExecWay::Simple => simple_exec::run(self, exec, &cwd, sink).await,
        }
    }

    fn repository(&self, operation: &'static str) -> Result<&Repository> {
        self.check_life()?;
        let repository = self.repository.as_ref();
        repository.ok_or(SandboxError::Unsupported { operation })
    }
}

impl DaytonaSandbox {
    /// The server's id of it.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The branch that was made for it.
    pub fn branch(&self) -> Option<&str> {
        let repository = self.inner.repository.as_ref();
        repository.map(|repository| repository.branch.as_str())
    }

    /// The toolbox of the sandbox, for what the contract has no name for.
    pub fn toolbox(&self) -> &Toolbox {
        &self.inner.toolbox
    }
}

#[async_trait]
impl Sandbox for DaytonaSandbox {
    fn work_dir(&self) -> &Path {
        &self.inner.work_dir
    }

    fn current_dir(&self) -> PathBuf {
        self.inner.state().current.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let has_repository = self.inner.repository.is_some();
        Capabilities {
            snapshot: has_repository,
            push_branch: has_repository,
            default_branch: has_repository,
            export: true,
            refresh: true,
            isolation: Isolation::Remote,
        }
    }

    async fn exec(&self, exec: Exec) -> Result<ExecOutcome> {
        self.inner.exec(exec, None).await
    }

    async fn exec_streamed(&self, exec: Exec, sink: Box<dyn OutputSink>) -> Result<ExecOutcome> {
        self.inner.exec(exec, Some(sink)).await
    }

    async fn upload_files(&self, files: &[FileUpload]) -> Result<()> {
        self.inner.check_life()?;
        self.inner.write(files).await
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        self.inner.check_life()?;
        let file = FileUpload {
            path: path.to_path_buf(),
            content: content.to_vec(),
        };
        self.inner.write(&[file]).await
    }

    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.check_life()?;
        self.inner.read(path).await
    }

    async fn delete_file(&self, path: &Path) -> Result<()> {
        self.inner.check_life()?;
        self.inner.delete(path).await
    }

    async fn list_directory(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.inner.check_life()?;
        self.inner.list(path).await
    }

    async fn set_workdir(&self, path: &Path) -> Result<()> {
        self.inner.check_life()?;
        self.inner.enter(path).await?;
        let relative = self.inner.confined(path)?;
        let chosen = if relative == Path::new(".") {
            self.inner.work_dir.clone()
        } else {
            self.inner.work_dir.join(relative)
        };
        self.inner.state().current = chosen;
        Ok(())
    }

    async fn export_directory(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        self.inner.check_life()?;
        self.inner.export(from, host_path).await
    }

    async fn refresh_from_host(&self, host_path: &Path, to: &Path) -> Result<()> {
        self.inner.check_life()?;
        self.inner.refresh(host_path, to).await
    }

    async fn snapshot(&self) -> Result<SnapshotId> {
        let repository = self.inner.repository("snapshot")?;
        repository.snapshot(&self.inner).await
    }

    async fn teardown(&self, work: UncommittedWork) -> TeardownReport {
        self.inner.teardown(work).await
    }

    async fn push_branch(&self, branch: &str, token: &Secret) -> Result<PushOutcome> {
        let repository = self.inner.repository("push_branch")?;
        repository.push(&self.inner, branch, token).await
    }

    async fn default_branch(&self) -> Result<String> {
        let repository = self.inner.repository("default_branch")?;
        repository.default_branch().await
    }
}
