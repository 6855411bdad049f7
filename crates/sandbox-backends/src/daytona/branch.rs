//! The repository of a sandbox: its branch, its commits, and how they leave it.

use std::path::Path;

use holm_daytona_client::Credentials;
use holm_daytona_client::wire::git::{GitCommitRequest, GitPushRequest};
use holm_sandbox::{GitHubRepo, PushOutcome, Redactor, Result, SandboxError, Secret, SnapshotId};
use tokio::sync::OnceCell;

use super::again::again;
use super::github::GitHub;
use super::inside;
use super::sandbox::Inner;

const AUTHOR: &str = "harness";
const EMAIL: &str = "harness@local";
/// With a token for a password, GitHub takes any name.
pub(super) const GIT_USER: &str = "git";

/// What was cloned.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) repo: GitHubRepo,
    pub(super) branch: String,
    /// The commit that it began with.
    pub(super) base: String,
    pub(super) github: GitHub,
    pub(super) token: Option<Secret>,
    /// Commits that were made here and not by a command.
    pub(super) snapshots: std::sync::Mutex<Vec<String>>,
    pub(super) default_branch: OnceCell<String>,
}

impl Repository {
    pub(super) async fn snapshot(&self, inner: &Inner) -> Result<SnapshotId> {
        let message = format!("snapshot-{}", holm_sandbox_linux::random_hex());
        let path = inner.work_dir.to_string_lossy().into_owned();
        let git = inner.toolbox.git();
        let failed = |error| inner.failed("take a snapshot", error);
        let status = git.status(&path).await.map_err(failed)?;
        let commit = if status.file_status.is_empty() {
            commit_nothing(inner, &message).await?
        } else {
            git.add(&path, vec![".".to_owned()]).await.map_err(failed)?;
            let request = GitCommitRequest {
                path,
                message,
                author: AUTHOR.to_owned(),
                email: EMAIL.to_owned(),
                ..GitCommitRequest::default()
            };
            git.commit(&request).await.map_err(failed)?
        };
        self.remember(commit.clone());
        Ok(SnapshotId(commit))
    }

    pub(super) fn remember(&self, commit: String) {
        let mut snapshots = self.lock();
        snapshots.push(commit);
    }

    pub(super) fn is_snapshot(&self, commit: &str) -> bool {
        self.lock().iter().any(|known| known == commit)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.snapshots
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) async fn push(
        &self,
        inner: &Inner,
        branch: &str,
        token: &Secret,
    ) -> Result<PushOutcome> {
        if branch != self.branch {
            return Err(SandboxError::Invalid {
                what: format!("`{branch}` is not the branch of this sandbox"),
                hint: format!("only `{}` can be pushed", self.branch),
            });
        }
        let refused = |error: String| {
            let none: [(&str, &str); 0] = [];
            let redactor = Redactor::from_env(none).with_secret("GITHUB_TOKEN", token);
            PushOutcome {
                pushed: false,
                error: Some(redactor.redact(&error).into_owned()),
            }
        };
        let path = inner.work_dir.to_string_lossy().into_owned();
        let git = inner.toolbox.git();
        // Older servers push what is checked out, whatever branch is asked for.
        let current = match git.status(&path).await {
            Ok(status) => status.current_branch,
            Err(_) if inner.is_torn_down() => return Err(SandboxError::TornDown),
            Err(error) => return Ok(refused(error.to_string())),
        };
        if current != branch {
            return Ok(refused(format!(
                "the sandbox has `{current}` checked out, not `{branch}`"
            )));
        }
        let request = GitPushRequest {
            path,
            branch: Some(branch.to_owned()),
            ..GitPushRequest::default()
        };
        let credentials = Credentials::new(GIT_USER, token.clone());
        match git.push(request, Some(&credentials)).await {
            Ok(()) => Ok(PushOutcome {
                pushed: true,
                error: None,
            }),
            Err(_) if inner.is_torn_down() => Err(SandboxError::TornDown),
            Err(error) => Ok(refused(error.to_string())),
        }
    }

    /// Asked once, and only when somebody wants to know.
    pub(super) async fn default_branch(&self) -> Result<String> {
        let asking = || self.github.default_branch(&self.repo, self.token.as_ref());
        self.default_branch.get_or_try_init(asking).await.cloned()
    }
}

/// A commit without a change, which the API of older servers cannot make.
async fn commit_nothing(inner: &Inner, message: &str) -> Result<String> {
    let name = format!("user.name={AUTHOR}");
    let email = format!("user.email={EMAIL}");
    let commit = [
        "git",
        "-c",
        &name,
        "-c",
        &email,
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        message,
    ];
    let doing = "take a snapshot";
    let (toolbox, cwd): (_, &Path) = (&inner.toolbox, &inner.work_dir);
    inside::program(toolbox, doing, cwd, &commit)
        .await
        .map_err(|error| inner.gone_or(error))?;
    head(inner).await
}

/// The commit that is checked out.
async fn head(inner: &Inner) -> Result<String> {
    let (doing, argv) = ("find the sandbox's commit", ["git", "rev-parse", "HEAD"]);
    let asking = || inside::program(&inner.toolbox, doing, &inner.work_dir, &argv);
    let said = again(asking).await.map_err(|error| inner.gone_or(error))?;
    commit_in(&said).ok_or_else(|| SandboxError::Git {
        doing: doing.to_owned(),
        detail: said.trim().to_owned(),
        hint: None,
    })
}

/// A commit's name and nothing else.
pub(super) fn commit_in(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (matches!(text.len(), 40 | 64) && is_hex).then(|| text.to_owned())
}

/// Refuses what git would refuse, or read as something else.
pub(super) fn check_branch(branch: &str) -> Result<()> {
    let is_odd = |character: char| {
        character.is_control() || character.is_whitespace() || "~^:?*[\\".contains(character)
    };
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_fine = !branch.starts_with('-')
        && branch.split('/').all(is_part)
        && !branch.chars().any(is_odd)
        && !branch.contains("..")
        && !branch.contains("@{")
        && !branch.ends_with('.')
        && branch != "@"
        && branch != "HEAD";
    if is_fine {
        return Ok(());
    }
    Err(SandboxError::Invalid {
        what: format!("`{branch}` cannot be the name of a branch"),
        hint: "use letters, digits, `-`, `_` and `/`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_are_those_of_git() {
        for fine in ["work", "harness/0a1b/fix", "a.b", "ä"] {
            check_branch(fine).unwrap();
        }
        for wrong in [
            "", "-b", "--all", "a b", "a..b", "a/", "/a", "a//b", "a~1", "a:b", "x.lock", "@{u}",
            ".a", "a\n", "HEAD",
        ] {
            assert!(check_branch(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_commit_is_a_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit_in(&format!("{commit}\n")).unwrap(), commit);
        for wrong in ["", "main", "--all", "fatal: not a repository"] {
            assert_eq!(commit_in(wrong), None);
        }
    }
}
