//! Real git repositories in temporary folders, untouched by the settings of whoever runs the tests.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use tempfile::TempDir;

/// A repository, gone with the last value that stands in the same folder.
#[derive(Debug, Clone)]
pub struct TestRepository {
    pub(crate) folder: Arc<TempDir>,
    pub(crate) path: PathBuf,
}

/// A repository to be made. Without further word it has one commit with a few files on `main`.
#[derive(Debug, Clone)]
pub struct TestRepositoryBuilder {
    name: OsString,
    init: Vec<OsString>,
    files: Vec<(PathBuf, Vec<u8>)>,
    first_commit: FirstCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstCommit {
    Made,
    Missing,
}

impl Default for TestRepositoryBuilder {
    fn default() -> Self {
        Self {
            name: "repository".into(),
            init: Vec::new(),
            files: vec![
                ("README.md".into(), b"# A test\n".to_vec()),
                ("src/main.rs".into(), b"fn main() {}\n".to_vec()),
                (".gitignore".into(), b"/ignored\n".to_vec()),
            ],
            first_commit: FirstCommit::Made,
        }
    }
}

impl TestRepositoryBuilder {
    /// Names the repository's own folder.
    #[must_use]
    pub fn named(mut self, name: impl Into<OsString>) -> Self {
        self.name = name.into();
        self
    }

    /// `sha1` or `sha256`.
    #[must_use]
    pub fn object_format(mut self, format: &str) -> Self {
        self.init.push(format!("--object-format={format}").into());
        self
    }

    /// `files` or `reftable`.
    #[must_use]
    pub fn ref_format(mut self, format: &str) -> Self {
        self.init.push(format!("--ref-format={format}").into());
        self
    }

    /// Adds a file to the first commit.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// Leaves the repository without any commit.
    #[must_use]
    pub fn without_commits(mut self) -> Self {
        self.first_commit = FirstCommit::Missing;
        self
    }

    /// Makes it.
    pub fn build(self) -> TestRepository {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        // Others may have to reach the repository, when root works as its owner.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join(&self.name);
        fs::create_dir(&path).unwrap();
        let repository = TestRepository { folder, path };
        let init = ["init", "--quiet", "--template=", "--initial-branch=main"];
        repository.git(init.iter().map(OsString::from).chain(self.init));
        if self.first_commit == FirstCommit::Made {
            for (path, content) in &self.files {
                repository.write(path, content);
            }
            repository.commit("first");
        }
        repository
    }
}

impl TestRepository {
    /// One commit with `README.md`, `src/main.rs` and a `.gitignore` that ignores `/ignored`.
    #[expect(
        clippy::new_without_default,
        reason = "making one runs git and writes files"
    )]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A repository of another kind.
    pub fn builder() -> TestRepositoryBuilder {
        TestRepositoryBuilder::default()
    }

    /// What a user would give as `--repo`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The temporary folder around it, where more can be put.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its own git directory, for instance `…/.git`.
    pub fn git_dir(&self) -> PathBuf {
        PathBuf::from(self.git(["rev-parse", "--absolute-git-dir"]))
    }

    /// Writes a file of the work tree.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits all of the work tree and returns the commit.
    pub fn commit(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    /// Runs git, which must succeed, and returns what it printed without the last newline.
    #[track_caller]
    pub fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let output = self.try_git(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git failed: {stderr}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        stdout.strip_suffix('\n').unwrap_or(&stdout).to_owned()
    }

    /// Runs git, whatever comes of it.
    pub fn try_git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Git in this repository, with an identity of its own and nobody's configuration.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .current_dir(&self.path)
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
            .args(["-c", "protocol.file.allow=always", "-c", "gc.auto=0"])
            .args(["-c", "safe.directory=*", "-c", "advice.detachedHead=false"])
            .args(arguments);
        command
    }

    /// The commit that is checked out.
    #[track_caller]
    pub fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    /// The commit of a branch, if there is one.
    pub fn branch_tip(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let output = self.try_git(["rev-parse", "--quiet", "--verify", &name]);
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(commit)
    }

    /// All branches, sorted.
    pub fn branches(&self) -> Vec<String> {
        let listed = self.git(["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// A file as it is in a commit.
    #[track_caller]
    pub fn file_at(&self, commit: &str, path: &str) -> Vec<u8> {
        let output = self.try_git(["cat-file", "blob", &format!("{commit}:{path}")]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{path}` in {commit}: {stderr}");
        output.stdout
    }

    /// The paths of all files in a commit, sorted, with git's quoting of odd names.
    #[track_caller]
    pub fn files_at(&self, commit: &str) -> Vec<String> {
        let listed = self.git(["ls-tree", "-r", "--name-only", commit]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Fails unless all objects that are reachable are there and whole.
    #[track_caller]
    pub fn assert_sound(&self) {
        self.git(["fsck", "--full", "--strict", "--no-dangling"]);
    }
}
