//! A local sandbox: the contract over a box or over plain processes.
//!
//! The work is done by blocking functions ([`LocalSandbox::exec_blocking`] and friends); the
//! asynchronous contract runs them on a thread of the caller's runtime.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use holm_sandbox::{
    Capabilities, DirEntry, Exec, ExecOutcome, FileKind, FileUpload, Isolation, OutputSink,
    PushOutcome, Result, Sandbox, SandboxError, Secret, SnapshotId, TeardownReport,
    UncommittedWork, confine_from,
};
use holm_sandbox_linux::LinuxBox;
use holm_sandbox_linux::files::{ConfinedDir, CopyLimits, EntryKind, WriteOptions};

use super::commands::{Cancel, Commands, KillOnDrop};
use super::errors::files_error;
use super::harvest;
use super::place::Place;
use super::record::{IsolationKind, Record, SourceRecord, Stay};
use super::remote;
use super::runtime::LocalRuntime;
use super::start::Lock;

/// The largest file that is read into memory at once.
const READ_BYTES_MAX: u64 = 256 << 20;

/// A sandbox on this machine. Clones are the same sandbox.
#[derive(Debug, Clone)]
pub struct LocalSandbox {
    inner: Arc<Inner>,
    warnings: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) runtime: Arc<LocalRuntime>,
    pub(crate) directory: PathBuf,
    pub(crate) record: Record,
    pub(crate) place: Place,
    pub(crate) files: ConfinedDir,
    /// Relative to the work directory.
    current: Mutex<PathBuf>,
    life: Mutex<Life>,
    commands: Commands,
    /// Says to other processes that the creator of a throwaway sandbox lives.
    _owner: Option<Lock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    InUse,
    TornDown,
}

impl LocalSandbox {
    pub(crate) fn new(
        runtime: Arc<LocalRuntime>,
        directory: PathBuf,
        record: Record,
        place: Place,
        files: ConfinedDir,
        owner: Option<Lock>,
        warnings: Vec<String>,
    ) -> Self {
        let inner = Inner {
            runtime,
            directory,
            record,
            place,
            files,
            current: Mutex::new(PathBuf::from(".")),
            life: Mutex::new(Life::InUse),
            commands: Commands::default(),
            _owner: owner,
        };
        Self {
            inner: Arc::new(inner),
            warnings,
        }
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// What the user should know about this sandbox, such as limits that the host does not grant.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn record(&self) -> &Record {
        &self.inner.record
    }

    /// The box, if there is one.
    pub fn linux_box(&self) -> Option<&LinuxBox> {
        match &self.inner.place {
            Place::Boxed { inner, .. } => Some(inner),
            Place::Plain { .. } => None,
        }
    }

    /// The sandbox's files, for streaming them in and out.
    pub fn files(&self) -> Result<&ConfinedDir> {
        self.inner.check_life()?;
        Ok(&self.inner.files)
    }

    /// Runs a command and waits for it on this thread.
    pub fn exec_blocking(
        &self,
        exec: Exec,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Result<ExecOutcome> {
        self.inner.exec(exec, sink, Cancel::new().map_err(no_pipe)?)
    }

    /// Ends the sandbox on this thread. A second call reports nothing.
    pub fn teardown_blocking(&self, work: UncommittedWork) -> TeardownReport {
        self.inner.teardown(work)
    }

    pub fn write_blocking(&self, path: &Path, content: &[u8]) -> Result<()> {
        self.inner.write(path, content)
    }

    pub fn read_blocking(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.read(path)
    }

    pub fn export_blocking(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        self.inner.export(from, host_path)
    }

    pub fn refresh_blocking(&self, host_path: &Path, to: &Path) -> Result<()> {
        self.inner.refresh(host_path, to)
    }

    /// Opens a pull request for the branch, which was pushed before, with `gh` on the host. The token does not enter the box.
    ///
    /// # Errors
    ///
    /// What `gh` says, or that it is not installed.
    pub async fn create_pull_request(
        &self,
        title: &str,
        body: &str,
        token: &Secret,
    ) -> Result<String> {
        let (title, body, token) = (title.to_owned(), body.to_owned(), token.clone());
        self.blocking(move |inner| {
            inner.check_life()?;
            remote::create_pull_request(inner, &title, &body, &token)
        })
        .await?
    }

    /// Runs a command, and kills it if this future is dropped before the end.
    async fn exec_until_dropped(
        &self,
        exec: Exec,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Result<ExecOutcome> {
        let cancel = Cancel::new().map_err(no_pipe)?;
        let mut guard = KillOnDrop(Some(cancel.clone()));
        let outcome = self
            .blocking(move |inner| inner.exec(exec, sink, cancel))
            .await?;
        guard.0 = None;
        outcome
    }

    /// Runs a blocking operation on a thread of the caller's runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        tokio::task::spawn_blocking(move || work(&inner))
            .await
            .map_err(|source| SandboxError::Backend {
                doing: "finish an operation".into(),
                hint: None,
                source: source.into(),
            })
    }
}

impl Inner {
    fn check_life(&self) -> Result<()> {
        match *self.life() {
            Life::InUse => Ok(()),
            Life::TornDown => Err(SandboxError::TornDown),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> PathBuf {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A caller's path, relative to the work directory.
    fn confined(&self, path: &Path) -> Result<PathBuf> {
        self.check_life()?;
        let current = self.record.work_dir.join(self.current());
        confine_from(&self.record.work_dir, &current, path)
    }

    fn files_error(&self) -> impl Fn(holm_sandbox_linux::files::FilesError) -> SandboxError + '_ {
        |error| files_error(error, &self.record.work_dir)
    }

    pub(crate) fn exec(
        &self,
        exec: Exec,
        sink: Option<Box<dyn OutputSink>>,
        cancel: Cancel,
    ) -> Result<ExecOutcome> {
        exec.validate()?;
        let relative = self.confined(exec.cwd.as_deref().unwrap_or_else(|| Path::new("")))?;
        // Also by the kernel: a symbolic link must not lead a plain command out of its folder.
        self.files.subdir(&relative).map_err(self.files_error())?;
        let cwd = match relative.to_str() {
            Some(".") => self.record.work_dir.clone(),
            _ => self.record.work_dir.join(&relative),
        };
        let _running = {
            // Checked and noted in one step: a teardown ends what is noted and lets nothing in.
            let life = self.life();
            if *life == Life::TornDown {
                return Err(SandboxError::TornDown);
            }
            self.commands.begin(cancel.clone())
        };
        self.place.exec(exec, cwd, sink, cancel)
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        let path = self.confined(path)?;
        let written = self
            .files
            .write_atomic(&path, content, WriteOptions::default());
        written.map_err(self.files_error()).map(drop)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let path = self.confined(path)?;
        self.files
            .read(&path, READ_BYTES_MAX)
            .map_err(self.files_error())
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let path = self.confined(path)?;
        self.files.delete_file(&path).map_err(self.files_error())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let path = self.confined(path)?;
        let entries = self.files.list(&path).map_err(self.files_error())?;
        let mut entries: Vec<DirEntry> = entries
            .into_iter()
            .map(|entry| DirEntry {
                kind: match entry.metadata.kind {
                    EntryKind::File => FileKind::File,
                    EntryKind::Directory => FileKind::Directory,
                    EntryKind::Symlink => FileKind::Symlink,
                    EntryKind::Other => FileKind::Other,
                },
                name: entry.name,
            })
            .collect();
        entries.sort();
        Ok(entries)
    }

    fn set_workdir(&self, path: &Path) -> Result<()> {
        let path = self.confined(path)?;
        self.files.subdir(&path).map_err(self.files_error())?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(())
    }

    fn export(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        let from = self.confined(from)?;
        self.files
            .copy_tree_out(&from, host_path, CopyLimits::default())
            .map_err(self.files_error())?;
        Ok(host_path.to_path_buf())
    }

    fn refresh(&self, host_path: &Path, to: &Path) -> Result<()> {
        let to = self.confined(to)?;
        self.files
            .copy_tree_in(host_path, &to, CopyLimits::default())
            .map_err(self.files_error())?;
        Ok(())
    }

    fn snapshot(&self) -> Result<SnapshotId> {
        self.check_life()?;
        harvest::snapshot(self)
    }

    fn teardown(&self, work: UncommittedWork) -> TeardownReport {
        // Held to the end: a second caller must not believe that it is over before it is.
        let mut life = self.life();
        if *life == Life::TornDown {
            return TeardownReport::default();
        }
        self.commands.end_all();
        let report = harvest::end(self, work);
        *life = Life::TornDown;
        report
    }

    fn push_branch(&self, branch: &str, token: &Secret) -> Result<PushOutcome> {
        self.check_life()?;
        remote::push_branch(self, branch, token)
    }

    fn default_branch(&self) -> Result<String> {
        self.check_life()?;
        remote::default_branch(self)
    }
}

fn no_pipe(source: std::io::Error) -> SandboxError {
    SandboxError::Backend {
        doing: "start a command".into(),
        hint: None,
        source: source.into(),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A sandbox that nobody tore down: the box ends now, the rest is found by the next call.
        if *self.life() == Life::InUse
            && self.record.stay == Stay::Throwaway
            && let Place::Boxed { inner, .. } = &self.place
        {
            drop(inner.stop());
        }
    }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn work_dir(&self) -> &Path {
        &self.inner.record.work_dir
    }

    fn current_dir(&self) -> PathBuf {
        match self.inner.current().to_str() {
            Some(".") => self.inner.record.work_dir.clone(),
            _ => self.inner.record.work_dir.join(self.inner.current()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let has_git = matches!(self.inner.record.source, SourceRecord::Repository { .. });
        Capabilities {
            snapshot: has_git,
            push_branch: has_git,
            default_branch: has_git,
            export: true,
            refresh: true,
            isolation: match self.inner.record.isolation {
                IsolationKind::Namespaces => Isolation::Namespaces,
                IsolationKind::None => Isolation::None,
            },
        }
    }

    async fn exec(&self, exec: Exec) -> Result<ExecOutcome> {
        self.exec_until_dropped(exec, None).await
    }

    async fn exec_streamed(&self, exec: Exec, sink: Box<dyn OutputSink>) -> Result<ExecOutcome> {
        self.exec_until_dropped(exec, Some(sink)).await
    }

    async fn upload_files(&self, files: &[FileUpload]) -> Result<()> {
        let files = files.to_vec();
        self.blocking(move |inner| {
            for file in &files {
                inner.confined(&file.path)?;
            }
            files
                .iter()
                .try_for_each(|file| inner.write(&file.path, &file.content))
        })
        .await?
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        let (path, content) = (path.to_path_buf(), content.to_vec());
        self.blocking(move |inner| inner.write(&path, &content))
            .await?
    }

    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let path = path.to_path_buf();
        self.blocking(move |inner| inner.read(&path)).await?
    }

    async fn delete_file(&self, path: &Path) -> Result<()> {
        let path = path.to_path_buf();
        self.blocking(move |inner| inner.delete(&path)).await?
    }

    async fn list_directory(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let path = path.to_path_buf();
        self.blocking(move |inner| inner.list(&path)).await?
    }

    async fn set_workdir(&self, path: &Path) -> Result<()> {
        let path = path.to_path_buf();
        self.blocking(move |inner| inner.set_workdir(&path)).await?
    }

    async fn export_directory(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        let (from, host_path) = (from.to_path_buf(), host_path.to_path_buf());
        self.blocking(move |inner| inner.export(&from, &host_path))
            .await?
    }

    async fn refresh_from_host(&self, host_path: &Path, to: &Path) -> Result<()> {
        let (host_path, to) = (host_path.to_path_buf(), to.to_path_buf());
        self.blocking(move |inner| inner.refresh(&host_path, &to))
            .await?
    }

    async fn snapshot(&self) -> Result<SnapshotId> {
        self.blocking(Inner::snapshot).await?
    }

    async fn teardown(&self, work: UncommittedWork) -> TeardownReport {
        match self.blocking(move |inner| inner.teardown(work)).await {
            Ok(report) => report,
            Err(error) => TeardownReport {
                warnings: vec![error.to_string()],
                ..Default::default()
            },
        }
    }

    async fn push_branch(&self, branch: &str, token: &Secret) -> Result<PushOutcome> {
        let (branch, token) = (branch.to_owned(), token.clone());
        self.blocking(move |inner| inner.push_branch(&branch, &token))
            .await?
    }

    async fn default_branch(&self) -> Result<String> {
        self.blocking(Inner::default_branch).await?
    }
}
