//! The user's repository: what must be known of it, read with as few git calls as possible.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use holm_sandbox::{Result, SandboxError};
use holm_sandbox_linux::Owner;

use super::config::LocalConfig;
use super::git::{GitCommand, text};

/// Alternates of alternates: git itself stops at five.
const ALTERNATES_DEPTH_MAX: usize = 5;

/// Configuration that a private copy of the repository needs. Nothing here can hold a credential or
/// name a program to run: hooks, filters, credential helpers and aliases stay outside.
const COPIED_KEYS: [&str; 13] = [
    "core.autocrlf",
    "core.bare",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.safecrlf",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "index.sparse",
    "user.email",
    "user.name",
];

/// A repository on this host, and the commit that a sandbox starts from.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    /// Where the user stands: a work tree, a folder in one, or a bare repository.
    pub(crate) path: PathBuf,
    /// The directory that all of its worktrees share.
    pub(crate) common_dir: PathBuf,
    /// As whom git must run; `None` for ourselves.
    pub(crate) git_user: Option<Owner>,
    pub(crate) commit: String,
    pub(crate) object_format: String,
    /// The repository's objects, then those that it borrows.
    pub(crate) object_dirs: Vec<PathBuf>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) remotes: Vec<(String, String)>,
    /// The sparse patterns in force, if any.
    pub(crate) sparse: Option<Vec<u8>>,
    pub(crate) shallow: Option<Vec<u8>>,
}

impl Repository {
    pub(crate) fn open(config: &LocalConfig, path: &Path) -> Result<Self> {
        let path = fs::canonicalize(path).map_err(|source| {
            if source.kind() != io::ErrorKind::NotFound {
                let doing = "open the repository".into();
                return SandboxError::Io {
                    doing,
                    path: path.into(),
                    source,
                };
            }
            SandboxError::Invalid {
                what: format!("repository `{}` does not exist", path.display()),
                hint: "give the path of a git repository with --repo".into(),
            }
        })?;
        if !path.is_dir() {
            return Err(SandboxError::NotADirectory { path });
        }
        let owner = owner_of(&path)?;
        let git_user = git_user(owner);
        let git = || GitCommand::new(config, &path, git_user);
        let (git_dir, object_format, commit) = locate(git, &path)?;
        let common_dir = common_dir_of(&git_dir)?;
        let (settings, remotes) = read_settings(git())?;
        let is_sparse = settings
            .iter()
            .any(|(key, value)| key == "core.sparsecheckout" && value == "true");
        let sparse = if is_sparse {
            read_optional(&git_dir.join("info/sparse-checkout"))?
        } else {
            None
        };
        Ok(Self {
            object_dirs: object_dirs(&common_dir)?,
            shallow: read_optional(&common_dir.join("shallow"))?,
            commit,
            object_format,
            path,
            common_dir,
            git_user,
            settings,
            remotes,
            sparse,
        })
    }

    /// A git command in this repository.
    pub(crate) fn git(&self, config: &LocalConfig) -> GitCommand {
        GitCommand::new(config, &self.path, self.git_user)
    }

    /// A call of `gh` in it.
    pub(crate) fn gh(&self, config: &LocalConfig) -> GitCommand {
        GitCommand::gh(config, &self.path, self.git_user)
    }

    /// Branches, tags and notes with their objects, in the format of a `packed-refs` file. The stash and
    /// whatever else tools keep under `refs/` stay the user's own.
    pub(crate) fn packed_refs(&self, config: &LocalConfig) -> Result<Vec<u8>> {
        self.git(config)
            .args(["for-each-ref", "--format=%(objectname) %(refname)"])
            .args(["refs/heads", "refs/notes", "refs/remotes", "refs/tags"])
            .run("read the refs of the repository")
    }
}

/// Git directory, object format and current commit, from one call of git.
fn locate(git: impl Fn() -> GitCommand, path: &Path) -> Result<(PathBuf, String, String)> {
    let answer = git()
        .args([
            "rev-parse",
            "--path-format=absolute",
            "--show-object-format",
            "--git-dir",
        ])
        .arg("HEAD^{commit}")
        .output("find the commit to start from")?;
    let answered = answer.stdout.strip_suffix(b"\n").unwrap_or(&answer.stdout);
    // Format first, commit last: the path between them may hold newlines.
    let format_end = answered.iter().position(|byte| *byte == b'\n');
    let commit_start = answered.iter().rposition(|byte| *byte == b'\n');
    if let (true, Some(format_end), Some(commit_start)) = (answer.success, format_end, commit_start)
        && format_end < commit_start
    {
        let part = |from: usize, to: usize| answered.get(from..to).unwrap_or_default();
        return Ok((
            path_of(part(format_end + 1, commit_start)),
            text(part(0, format_end)),
            text(part(commit_start + 1, answered.len())),
        ));
    }
    let place = git()
        .args(["rev-parse", "--git-dir"])
        .output("find the repository")?;
    if !place.success {
        return Err(not_a_repository(path, &place.stderr));
    }
    Err(SandboxError::Git {
        doing: "find the commit to start from".into(),
        detail: format!("repository `{}` has no commits yet", path.display()),
        hint: Some("make a first one: `git commit --allow-empty -m init`".into()),
    })
}

fn not_a_repository(path: &Path, said: &str) -> SandboxError {
    if said.contains("not a git repository") {
        return SandboxError::Invalid {
            what: format!("`{}` is not a git repository", path.display()),
            hint: "give the path of one with --repo, or make one with `git init`".into(),
        };
    }
    SandboxError::Git {
        doing: format!("open the repository `{}`", path.display()),
        detail: said
            .lines()
            .next()
            .unwrap_or("git failed")
            .trim_start_matches("fatal: ")
            .into(),
        hint: None,
    }
}

pub(crate) fn owner_of(path: &Path) -> Result<Owner> {
    let found = fs::metadata(path).map_err(|source| SandboxError::Io {
        doing: "look at".into(),
        path: path.into(),
        source,
    })?;
    Ok(Owner {
        uid: found.uid(),
        gid: found.gid(),
    })
}

/// Root acts as the owner of what it works on; everybody else as themselves.
pub(crate) fn git_user(owner: Owner) -> Option<Owner> {
    (rustix::process::geteuid().is_root() && owner.uid != 0).then_some(owner)
}

fn path_of(output: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(
        output.strip_suffix(b"\n").unwrap_or(output).to_vec(),
    ))
}

/// A linked worktree's git directory names the shared one in its `commondir` file.
fn common_dir_of(git_dir: &Path) -> Result<PathBuf> {
    let Some(named) = read_optional(&git_dir.join("commondir"))? else {
        return Ok(git_dir.to_path_buf());
    };
    let joined = git_dir.join(path_of(&named));
    fs::canonicalize(&joined).map_err(|source| SandboxError::Io {
        doing: "find the repository of the worktree".into(),
        path: joined,
        source,
    })
}

pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SandboxError::Io {
            doing: "read".into(),
            path: path.into(),
            source,
        }),
    }
}

fn object_dirs(common_dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![common_dir.join("objects")];
    let mut next = 0;
    for _ in 0..ALTERNATES_DEPTH_MAX {
        let level: Vec<PathBuf> = found.get(next..).unwrap_or_default().to_vec();
        next = found.len();
        for directory in level {
            let Some(list) = read_optional(&directory.join("info/alternates"))? else {
                continue;
            };
            for line in list.split(|byte| *byte == b'\n') {
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let joined = directory.join(path_of(line));
                // One that is gone is git's to complain about.
                if let Ok(alternate) = fs::canonicalize(&joined)
                    && !found.contains(&alternate)
                {
                    found.push(alternate);
                }
            }
        }
    }
    Ok(found)
}

type Settings = Vec<(String, String)>;

fn read_settings(git: GitCommand) -> Result<(Settings, Settings)> {
    let output = git
        .args(["config", "--list", "-z"])
        .run("read the configuration")?;
    let (mut settings, mut remotes) = (Vec::new(), Vec::new());
    for entry in output.split(|byte| *byte == 0) {
        let entry = String::from_utf8_lossy(entry);
        let Some((key, value)) = entry.split_once('\n') else {
            continue;
        };
        if COPIED_KEYS.contains(&key) {
            settings.retain(|(known, _)| known != key);
            settings.push((key.to_owned(), value.to_owned()));
        } else if let Some(remote) = key
            .strip_prefix("remote.")
            .and_then(|rest| rest.strip_suffix(".url"))
        {
            remotes.push((remote.to_owned(), without_credentials(value)));
        }
    }
    Ok((settings, remotes))
}

/// A URL without user name and password, which some people keep in it.
pub(crate) fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest
        .split_once('/')
        .map_or((rest, None), |(a, p)| (a, Some(p)));
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    match path {
        Some(path) => format!("{scheme}://{host}/{path}"),
        None => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_a_url() {
        for (url, clean) in [
            (
                "https://user:tok@en@github.com/a/b.git",
                "https://github.com/a/b.git",
            ),
            ("https://token@host", "https://host"),
            ("https://host/a@b/c", "https://host/a@b/c"),
            ("git@github.com:a/b.git", "git@github.com:a/b.git"),
            ("/srv/git/a", "/srv/git/a"),
            ("ssh://git@host:22/a", "ssh://host:22/a"),
        ] {
            assert_eq!(without_credentials(url), clean);
        }
    }
}
