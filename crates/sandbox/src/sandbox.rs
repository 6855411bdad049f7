//! The contract between whoever runs an agent and whatever isolates it.
//!
//! ```text
//!     created ──▶ in use ──▶ torn down
//!                   │  ▲         │  ▲
//!                   └──┘         └──┘
//!           any operation       teardown again: an empty report
//! ```
//!
//! **Invariants** that every implementor owes, and that the conformance suite checks:
//!
//! - Every path from a caller is confined (see [`confine_from`](crate::confine_from)) before anything is touched, and
//!   again by the kernel where the files are local.
//! - What a backend cannot do is [`SandboxError::Unsupported`], never a silent no-op, and
//!   [`Sandbox::capabilities`] says so beforehand.
//! - After [`Sandbox::teardown`] every other operation is [`SandboxError::TornDown`].
//! - Cleaning up loses no work: commits stay reachable in the source repository.
//! - Operations may be called from several tasks at once.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Exec, ExecOutcome, OutputSink, Result, SandboxError, Secret, confine_from};

/// An isolated place with a working directory, in which commands run and files are kept.
#[async_trait]
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// The absolute root of confinement, as commands in the sandbox see it. It never changes.
    fn work_dir(&self) -> &Path;

    /// The absolute directory where relative paths and commands start: [`Sandbox::work_dir`] at first, then whatever
    /// [`Sandbox::set_workdir`] chose.
    fn current_dir(&self) -> PathBuf;

    /// Which of the optional operations exist, and what isolates the commands.
    fn capabilities(&self) -> Capabilities;

    /// Runs a command and returns when it has ended. What it left running in the background lives on
    /// in the sandbox until teardown, unless the command was ended by its timeout.
    ///
    /// The implementor calls [`Exec::validate`], confines `cwd`, bounds the output *while* the command runs
    /// ([`Capture`](crate::Capture)), redacts it, and at the timeout kills the whole process tree, returning
    /// `timed_out` with the output so far. A command that fails is an outcome, not an error. A future that is dropped
    /// kills its command.
    async fn exec(&self, exec: Exec) -> Result<ExecOutcome>;

    /// As [`Sandbox::exec`], and hands every chunk to `sink` while it is written.
    ///
    /// The chunks are redacted ([`StreamRedactor`](crate::StreamRedactor)). The outcome carries the capped output too.
    async fn exec_streamed(&self, exec: Exec, sink: Box<dyn OutputSink>) -> Result<ExecOutcome>;

    /// Writes many files. All paths are checked before the first is written.
    ///
    /// A failure in the middle leaves the files before it; each single file is whole or absent.
    async fn upload_files(&self, files: &[FileUpload]) -> Result<()> {
        let (root, current) = (self.work_dir(), self.current_dir());
        for file in files {
            confine_from(root, &current, &file.path)?;
        }
        for file in files {
            self.write_file(&file.path, &file.content).await?;
        }
        Ok(())
    }

    /// Writes a file atomically (temporary file, then rename), making its parent directories.
    ///
    /// A reader sees the old content or the new, never a part. The mode of an existing file is kept.
    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()>;

    /// The whole content of a regular file, up to the implementor's limit ([`SandboxError::TooLarge`]).
    async fn read_file(&self, path: &Path) -> Result<Vec<u8>>;

    /// Removes a file or a symlink (not what it points to). A missing one is [`SandboxError::NotFound`], a directory
    /// [`SandboxError::NotAFile`].
    async fn delete_file(&self, path: &Path) -> Result<()>;

    /// The entries of a directory without `.` and `..`, sorted by the bytes of their names.
    async fn list_directory(&self, path: &Path) -> Result<Vec<DirEntry>>;

    /// Chooses where relative paths and commands start from now on. The directory must exist in the sandbox.
    async fn set_workdir(&self, path: &Path) -> Result<()>;

    /// Copies a directory out of the sandbox to the host, and returns where it went.
    ///
    /// `host_path` is the caller's own and not confined; symlinks that point out of `from` are not followed.
    async fn export_directory(&self, from: &Path, host_path: &Path) -> Result<PathBuf> {
        let _ = (from, host_path);
        Err(SandboxError::Unsupported {
            operation: "export_directory",
        })
    }

    /// Copies a directory of the host into the sandbox, over what is there.
    async fn refresh_from_host(&self, host_path: &Path, to: &Path) -> Result<()> {
        let _ = (host_path, to);
        Err(SandboxError::Unsupported {
            operation: "refresh_from_host",
        })
    }

    /// Keeps the present state under an id, also when nothing has changed.
    async fn snapshot(&self) -> Result<SnapshotId> {
        Err(SandboxError::Unsupported {
            operation: "snapshot",
        })
    }

    /// Ends all commands and removes everything that the sandbox made outside of the source repository.
    ///
    /// It never fails a finished run: what went wrong is a warning, what could not be removed a leftover. A second
    /// call returns an empty report. Commits are kept as branches of the source repository whatever `work` is;
    /// [`UncommittedWork::Keep`] also keeps what was not committed.
    async fn teardown(&self, work: UncommittedWork) -> TeardownReport;

    /// Pushes `branch`, and only that one, to the remote the sandbox was made from.
    ///
    /// A refused push is an outcome, because it must not fail the run. The token never appears in argv, in the
    /// remote's configuration or in the text of an error.
    async fn push_branch(&self, branch: &str, token: &Secret) -> Result<PushOutcome> {
        let _ = (branch, token);
        Err(SandboxError::Unsupported {
            operation: "push_branch",
        })
    }

    /// The branch that a pull request from this sandbox goes to.
    async fn default_branch(&self) -> Result<String> {
        Err(SandboxError::Unsupported {
            operation: "default_branch",
        })
    }
}

/// Which of the optional operations a backend has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Sandbox::snapshot`].
    pub snapshot: bool,
    /// [`Sandbox::push_branch`].
    pub push_branch: bool,
    /// [`Sandbox::default_branch`].
    pub default_branch: bool,
    /// [`Sandbox::export_directory`].
    pub export: bool,
    /// [`Sandbox::refresh_from_host`].
    pub refresh: bool,
    /// What stands between a command and the host.
    pub isolation: Isolation,
}

/// What stands between a command and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Linux namespaces with their own view of files, processes and network.
    Namespaces,
    /// Nothing: commands run as the user on the host.
    None,
    /// Another machine.
    Remote,
}

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUpload {
    /// Where; relative to the sandbox's current directory, or absolute and confined.
    pub path: PathBuf,
    /// The whole content.
    pub content: Vec<u8>,
}

/// One entry of a directory. The order is by the bytes of the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name without any directory.
    pub name: OsString,
    /// What it is; a symlink is a symlink, whatever it points to.
    pub kind: FileKind,
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A socket, pipe or device.
    Other,
}

/// The name of a kept state; its form is the backend's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(pub String);

impl fmt::Display for SnapshotId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// What becomes of changes that nobody committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UncommittedWork {
    /// Commit them to a branch of their own.
    Keep,
    /// Throw them away.
    Discard,
}

/// What a teardown kept, left behind and could not do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TeardownReport {
    /// The branches with work in them.
    pub branches: Vec<KeptBranch>,
    /// What could not be removed.
    pub leftovers: Vec<PathBuf>,
    /// What went wrong, one sentence each.
    pub warnings: Vec<String>,
}

/// A branch that outlived its sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBranch {
    /// Its full short name, such as `harness/0a1b2c3d/bug-fix`.
    pub name: String,
    /// The id of its last commit.
    pub commit: String,
    /// How many commits it has that its base has not.
    pub commits_ahead: u64,
    /// Who made its last commit.
    pub origin: BranchOrigin,
    /// The file of this machine that holds it, where it is in no repository: `git fetch FILE NAME` brings it home.
    pub bundle: Option<PathBuf>,
}

/// Who made the last commit of a kept branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BranchOrigin {
    /// A command in the sandbox.
    Committed,
    /// A snapshot or the teardown.
    Snapshot,
}

/// What came of a push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushOutcome {
    /// The remote has the branch now.
    pub pushed: bool,
    /// Why not, redacted.
    pub error: Option<String>,
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
