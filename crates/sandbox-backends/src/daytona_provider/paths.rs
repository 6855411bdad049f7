//! From paths as agents write them to paths in the sandbox.
//!
//! ```text
//! relative                      ──▶ below the workspace
//! absolute, in the workspace    ──▶ as it is
//! absolute, below a local root  ──▶ below the folder that the root stands for; the longest root counts
//! absolute, anything else       ──▶ without its system folders, below the workspace (what seed 002 asks for)
//! ```
//!
//! The last rule is a guess: `/Users/ann/project/a.py` becomes `project/a.py`, and so does `/home/bob/project/a.py`. Two local files never
//! silently become one: whoever comes second is refused, with the advice to name the root.
//!
//! **Invariants:** a mapped path is at or below the workspace, has neither `.` nor `..`, no control characters, and is text.
//! Components are compared, never prefixes of strings. Links are the server's to see; `remote.rs` asks it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use holm_sandbox::{Result, SandboxError, confine};

/// More mappings than this are not remembered, and no more are guessed.
const MAPPINGS_MAX: usize = 100_000;

/// Folders that say where on a machine something is, and not what it is.
const SYSTEM_FOLDERS: &[&str] = &[
    "bin", "boot", "dev", "etc", "lib", "lib64", "mnt", "opt", "private", "proc", "root", "run",
    "sbin", "srv", "sys", "tmp", "usr", "var",
];
/// Those in which the next folder is a person or a disk.
const FOLDERS_OF_PEOPLE: &[&str] = &["Users", "Volumes", "home", "media"];

/// A folder of this machine, and what it is in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocalRoot {
    /// Absolute.
    pub local: PathBuf,
    /// Relative to the workspace; empty for the workspace itself.
    pub remote: PathBuf,
}

/// Which rule found a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Relative,
    Remote,
    LocalRoot,
    WithoutSystemFolders,
}

/// The mapping of one sandbox.
#[derive(Debug)]
pub struct PathMapper {
    workspace: PathBuf,
    roots: Vec<LocalRoot>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    mapped: HashMap<PathBuf, (String, Rule)>,
    /// Which local path a guess was made for, by what was guessed.
    guessed: HashMap<String, PathBuf>,
}

impl PathMapper {
    /// `workspace` is absolute in the sandbox.
    pub fn new(workspace: impl Into<PathBuf>, roots: Vec<LocalRoot>) -> Result<Self> {
        let workspace = confine(&workspace.into(), Path::new(""))?;
        for root in &roots {
            if !root.local.is_absolute() {
                return Err(SandboxError::Invalid {
                    what: format!("local root `{}` is not absolute", root.local.display()),
                    hint: "give it from `/` on".to_owned(),
                });
            }
            confine(&workspace, &root.remote)?;
        }
        Ok(Self {
            workspace,
            roots: roots
                .into_iter()
                .map(|root| LocalRoot {
                    local: normal(&root.local),
                    remote: root.remote,
                })
                .collect(),
            known: Mutex::default(),
        })
    }

    /// The workspace, to which all paths lead.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Where a path is in the sandbox.
    pub fn map(&self, path: &Path) -> Result<String> {
        self.map_by_rule(path).map(|(remote, _)| remote)
    }

    /// The same, with the rule that found it.
    pub fn map_by_rule(&self, path: &Path) -> Result<(String, Rule)> {
        if let Some(known) = self.known().mapped.get(path) {
            return Ok(known.clone());
        }
        let (remote, rule) = self.decide(path)?;
        let remote = text_of(path, &remote)?;
        let mut known = self.known();
        if rule == Rule::WithoutSystemFolders {
            known.guess(path, &remote)?;
        }
        if known.mapped.len() < MAPPINGS_MAX {
            known
                .mapped
                .insert(path.to_path_buf(), (remote.clone(), rule));
        }
        drop(known);
        tracing::debug!(path = %path.display(), remote, ?rule, "mapped a path into the sandbox");
        Ok((remote, rule))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, path: &Path) -> Result<(PathBuf, Rule)> {
        if !path.is_absolute() {
            return Ok((confine(&self.workspace, path)?, Rule::Relative));
        }
        let normal = normal(path);
        if normal.starts_with(&self.workspace) {
            return Ok((confine(&self.workspace, &normal)?, Rule::Remote));
        }
        let root = self
            .roots
            .iter()
            .filter(|root| normal.starts_with(&root.local))
            .max_by_key(|root| root.local.components().count());
        let (relative, rule) = match root {
            Some(root) => {
                let rest = normal.strip_prefix(&root.local).unwrap_or(Path::new(""));
                (root.remote.join(rest), Rule::LocalRoot)
            }
            None => (
                without_system_folders(path, &normal)?,
                Rule::WithoutSystemFolders,
            ),
        };
        Ok((confine(&self.workspace, &relative)?, rule))
    }
}

impl Known {
    fn guess(&mut self, path: &Path, remote: &str) -> Result<()> {
        let path = normal(path);
        let refused = |what: String| SandboxError::Invalid {
            what,
            hint: "name the folder of this machine that the paths are in as a local root"
                .to_owned(),
        };
        match self.guessed.get(remote) {
            Some(first) if *first != path => Err(refused(format!(
                "`{}` and `{}` would be the same file `{remote}` in the sandbox",
                first.display(),
                path.display()
            ))),
            Some(_) => Ok(()),
            None if self.guessed.len() >= MAPPINGS_MAX => {
                Err(refused("too many paths are below no known root".to_owned()))
            }
            None => {
                self.guessed.insert(remote.to_owned(), path);
                Ok(())
            }
        }
    }
}

/// Seed 002's rule: the parts of a path that say what it is.
fn without_system_folders(path: &Path, normal: &Path) -> Result<PathBuf> {
    let names: Vec<&OsStr> = normal
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    let mut rest = names.as_slice();
    while let Some((first, after)) = rest.split_first() {
        rest = match first.to_str() {
            Some(name) if SYSTEM_FOLDERS.contains(&name) => after,
            Some(name) if FOLDERS_OF_PEOPLE.contains(&name) => after.get(1..).unwrap_or_default(),
            Some(_) | None => break,
        };
    }
    if rest.is_empty() {
        return Err(SandboxError::Invalid {
            what: format!("`{}` is nothing but system folders", path.display()),
            hint: "use a relative path, or one below a local root".to_owned(),
        });
    }
    Ok(rest.iter().collect())
}

/// An absolute path without `.` and `..`; above `/` there is nothing.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    normal
}

/// Daytona's API takes text; scripts answer line by line.
fn text_of(path: &Path, remote: &Path) -> Result<String> {
    let refused = |problem: &str| SandboxError::Invalid {
        what: format!("path `{}` {problem}", path.display()),
        hint: "rename the file".to_owned(),
    };
    let text = remote.to_str().ok_or_else(|| refused("is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(refused("holds control characters"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
