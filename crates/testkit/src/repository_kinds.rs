//! The repositories that users have besides the plain one.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::TestRepository;

impl TestRepository {
    /// A bare clone beside this one, made this one's `origin`.
    pub fn with_bare_origin(&self) -> Self {
        let origin = self.clone_as("origin.git", ["--bare"]);
        self.git([
            OsStr::new("remote"),
            OsStr::new("add"),
            OsStr::new("origin"),
            origin.path().as_os_str(),
        ]);
        self.git(["fetch", "--quiet", "origin"]);
        self.git(["remote", "set-head", "origin", "--auto"]);
        origin
    }

    /// A clone that has no work tree.
    pub fn bare_clone(&self) -> Self {
        self.clone_as("bare.git", ["--bare"])
    }

    /// A clone that borrows this one's objects.
    pub fn shared_clone(&self) -> Self {
        self.clone_as("shared", ["--shared"])
    }

    /// A clone with the last commits only.
    pub fn shallow_clone(&self, depth: u32) -> Self {
        let url = format!("file://{}", self.path.display());
        self.clone_from(
            OsStr::new(&url),
            "shallow",
            ["--depth".to_owned(), depth.to_string()],
        )
    }

    /// A clone whose work tree has only these folders.
    pub fn sparse_clone(&self, folders: &[&str]) -> Self {
        let sparse = self.clone_as("sparse", ["--sparse"]);
        let set = ["sparse-checkout", "set"]
            .into_iter()
            .chain(folders.iter().copied());
        sparse.git(set);
        sparse
    }

    /// A linked worktree on a new branch.
    pub fn linked_worktree(&self, branch: &str) -> Self {
        let path = self.folder().join(format!("worktree-{branch}"));
        self.git([
            OsStr::new("worktree"),
            OsStr::new("add"),
            OsStr::new("--quiet"),
            OsStr::new("-b"),
            OsStr::new(branch),
            path.as_os_str(),
        ]);
        Self {
            folder: self.folder.clone(),
            path,
        }
    }

    /// Adds `other` as a submodule at `path` and commits it.
    pub fn add_submodule(&self, other: &Self, path: &str) -> String {
        self.git([
            OsStr::new("submodule"),
            OsStr::new("--quiet"),
            OsStr::new("add"),
            other.path().as_os_str(),
            OsStr::new(path),
        ]);
        self.commit("add a submodule")
    }

    fn clone_as<S: Into<OsString>>(
        &self,
        name: &str,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        self.clone_from(self.path.as_os_str(), name, options)
    }

    fn clone_from<S: Into<OsString>>(
        &self,
        url: &OsStr,
        name: &str,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        let path = self.folder().join(name);
        let mut arguments: Vec<OsString> = ["clone", "--quiet", "--template="]
            .map(OsString::from)
            .to_vec();
        arguments.extend(options.into_iter().map(Into::into));
        arguments.extend([OsString::from("--"), url.to_owned(), path.clone().into()]);
        self.git(arguments);
        Self {
            folder: self.folder.clone(),
            path,
        }
    }

    /// The same repository, as seen from a folder in it.
    pub fn at(&self, path: impl AsRef<Path>) -> Self {
        Self {
            folder: self.folder.clone(),
            path: self.path.join(path),
        }
    }
}
