//! The worktree that git knows of: named `harness-<runId>` below the temp folder.

use std::fs::File;
use std::path::Path;

use holm_sandbox::{Result, SandboxError};
use rustix::fs::FlockOperation;

use super::config::LocalConfig;
use super::repository::Repository;

/// Whether the host's worktree holds files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// A plain worktree, as `git worktree add` makes it.
    CheckedOut,
    /// Only registered: the files are seen inside the box.
    InTheBox,
}

/// Makes the branch and registers the worktree for it.
pub(crate) fn add(
    config: &LocalConfig,
    repository: &Repository,
    branch: &str,
    path: &Path,
    files: Files,
) -> Result<()> {
    let invalid_name = || SandboxError::Invalid {
        what: format!("`{branch}` is not a valid branch name"),
        hint: "`git help check-ref-format` tells what git allows".into(),
    };
    // Git reads some names as options and others as `the branch before`, and makes another one.
    if !is_branch_name(branch) {
        return Err(invalid_name());
    }
    let _alone = lock(repository);
    let mut git = repository.git(config).args([
        "worktree",
        "add",
        "--quiet",
        "--lock",
        "--reason",
        "a Holm sandbox",
    ]);
    match files {
        Files::CheckedOut => {}
        Files::InTheBox => git = git.arg("--no-checkout"),
    }
    let doing = format!("make a worktree for branch `{branch}`");
    let output = git
        .arg("-b")
        .arg(branch)
        .arg(path)
        .arg(&repository.commit)
        .output(&doing)?;
    if output.success {
        return Ok(());
    }
    let said = &output.stderr;
    if said.contains("already exists") && said.contains(branch) {
        return Err(SandboxError::Git {
            doing,
            detail: format!("branch `{branch}` already exists"),
            hint: Some("choose another name with --branch".into()),
        });
    }
    if said.contains("not a valid branch name") || said.contains("is not a valid ref name") {
        return Err(invalid_name());
    }
    // A checkout that failed half-way has made the branch; it was not there before.
    drop(delete_unchanged_branch(
        config,
        repository,
        branch,
        &repository.commit,
    ));
    if said.contains("Permission denied") || said.contains("Read-only file system") {
        return Err(SandboxError::Git {
            doing,
            detail: said.lines().next().unwrap_or_default().to_owned(),
            hint: Some("you need to be able to write to the repository".into()),
        });
    }
    Err(output.error(&doing))
}

/// Keeps other sandboxes from changing the worktrees of the repository: git reads those of others while
/// they are being made, and fails. The lock is on the folder itself, so it leaves no file and holds for
/// every user. A file system without locks is no reason not to try.
fn lock(repository: &Repository) -> Option<File> {
    let folder = File::open(&repository.common_dir).ok()?;
    rustix::fs::flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// Whether git takes a name for a branch and for nothing else: the rules of `git check-ref-format`.
fn is_branch_name(name: &str) -> bool {
    let is_component =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_refused =
        |character: char| character.is_ascii_control() || " ~^:?*[\\".contains(character);
    name.split('/').all(is_component)
        && !name.contains(is_refused)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.starts_with('-')
        && !matches!(name, "@" | "HEAD")
}

/// Unregisters the worktree and removes its folder; one that is gone already is fine.
pub(crate) fn remove(config: &LocalConfig, repository: &Repository, path: &Path) -> Result<()> {
    let _alone = lock(repository);
    // Fails if it is not locked or not there, which is what is wanted.
    repository
        .git(config)
        .args(["worktree", "unlock"])
        .arg(path)
        .output("unlock the worktree")?;
    let doing = format!("remove the worktree `{}`", path.display());
    let output = repository
        .git(config)
        .args(["worktree", "remove", "--force"])
        .arg(path)
        .output(&doing)?;
    if output.success || output.stderr.contains("is not a working tree") {
        return Ok(());
    }
    // A folder that somebody has already taken away leaves a registration to prune.
    if !path.exists() {
        repository
            .git(config)
            .args(["worktree", "prune"])
            .run("prune worktrees")?;
        return Ok(());
    }
    Err(output.error(&doing))
}

/// Deletes a branch that still is where it began.
pub(crate) fn delete_unchanged_branch(
    config: &LocalConfig,
    repository: &Repository,
    branch: &str,
    commit: &str,
) -> Result<()> {
    repository
        .git(config)
        .args(["update-ref", "-d", &format!("refs/heads/{branch}"), commit])
        .run(&format!("remove the unused branch `{branch}`"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_branch_name;

    #[test]
    fn a_name_is_a_branch_name_exactly_when_git_says_so() {
        for name in [
            "a", "a/b", "a-b", "A.b", "a@b", "ä", "a.lock.b", "x/-y", "{a}", "a'b", "$(id)",
            "a\"b", "", "-a", ".a", "a/.b", "a..b", "a.", "a.lock", "a.lock/b", "a b", "a~1", "a^",
            "a:b", "a?", "a*", "a[", "a\\b", "/a", "a/", "a//b", "@", "HEAD", "a@{b", "@{-1}",
            "a\nb",
        ] {
            // `--branch` would expand `@{-1}`, so the name is asked for as a ref.
            let git = std::process::Command::new("git")
                .arg("check-ref-format")
                .arg(format!("refs/heads/{name}"))
                .status()
                .unwrap();
            let is_special = name.starts_with('-') || matches!(name, "@" | "HEAD");
            assert_eq!(
                is_branch_name(name),
                git.success() && !is_special,
                "{name:?}"
            );
        }
    }
}
