//! A finished run goes to GitHub: its branch is pushed, and a pull request opened.
//!
//! | state | `pushed` | `pr_url` | `error` |
//! | --- | --- | --- | --- |
//! | no token | no | none | `GITHUB_TOKEN required for push` |
//! | push failed | no | none | `git push failed: <reason>` |
//! | pull request failed | yes | none | `PR creation failed: <reason>` |
//! | all done | yes | its address | none |
//!
//! **Invariants:** nothing here fails a run; what went wrong is in the result. The token enters no sandbox but by git's own
//! request of Daytona's API: a program that an agent left behind could read it there.

use holm_sandbox::{Exec, GitHubRepo, Sandbox, SandboxError, Secret};
use serde::Serialize;

use super::github::{GitHub, NewPullRequest};
use crate::local::LocalSandbox;

const TITLE_CHARACTERS_MAX: usize = 256;
/// Whether there is anything is all that matters.
const STATUS_BYTES: usize = 1024;

/// What a pull request is about.
#[derive(Debug, Clone)]
pub struct PullRequest {
    pub branch: String,
    pub intent: String,
    pub blueprint: String,
    pub run_id: String,
}

impl PullRequest {
    /// `[harness] {intent}`, as long as GitHub takes it.
    #[must_use]
    pub fn title(&self) -> String {
        let title = format!("[harness] {}", self.intent);
        title.chars().take(TITLE_CHARACTERS_MAX).collect()
    }

    #[must_use]
    pub fn body(&self) -> String {
        format!(
            "Blueprint: {}\nBranch: {}\nRun: {}",
            self.blueprint, self.branch, self.run_id
        )
    }
}

/// By what a pull request is opened.
#[derive(Debug, Clone, Copy)]
pub enum Opener<'a> {
    /// GitHub's API, where the sandbox is on another machine.
    Api {
        github: &'a GitHub,
        repo: &'a GitHubRepo,
    },
    /// `gh` of this machine, which finds the repository by itself.
    Gh(&'a LocalSandbox),
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushResult {
    pub pushed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Commits what is not committed yet, so that a push takes it along.
///
/// # Errors
///
/// Those of the sandbox.
pub async fn commit_uncommitted(sandbox: &dyn Sandbox) -> holm_sandbox::Result<()> {
    let status = Exec::new(["git", "status", "--porcelain"]).output_bytes_max(STATUS_BYTES);
    let outcome = sandbox.exec(status).await?;
    if !outcome.stdout.is_empty() {
        sandbox.snapshot().await?;
    }
    Ok(())
}

/// Pushes the branch and opens a pull request.
pub async fn push_and_create_pr(
    sandbox: &dyn Sandbox,
    request: &PullRequest,
    token: Option<&Secret>,
    opener: Opener<'_>,
) -> PushResult {
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return PushResult {
            error: Some("GITHUB_TOKEN required for push".to_owned()),
            ..PushResult::default()
        };
    };
    if let Err(reason) = push(sandbox, &request.branch, token).await {
        return PushResult {
            error: Some(format!("git push failed: {reason}")),
            ..PushResult::default()
        };
    }
    let opened = match opener {
        Opener::Api { github, repo } => open(sandbox, request, repo, token, github).await,
        Opener::Gh(local) => {
            let (title, body) = (request.title(), request.body());
            let opened = local.create_pull_request(&title, &body, token).await;
            opened.map_err(reason)
        }
    };
    match opened {
        Ok(url) => PushResult {
            pushed: true,
            pr_url: Some(url),
            error: None,
        },
        Err(reason) => PushResult {
            pushed: true,
            pr_url: None,
            error: Some(format!("PR creation failed: {reason}")),
        },
    }
}

async fn push(sandbox: &dyn Sandbox, branch: &str, token: &Secret) -> Result<(), String> {
    if !sandbox.capabilities().push_branch {
        let push = Exec::new(["git", "push", "-u", "origin", branch]);
        let outcome = sandbox.exec(push).await.map_err(reason)?;
        return match outcome.success() {
            true => Ok(()),
            false => Err(outcome.stderr_text().trim().to_owned()),
        };
    }
    let outcome = sandbox.push_branch(branch, token).await.map_err(reason)?;
    match outcome.error {
        None if outcome.pushed => Ok(()),
        error => Err(error.unwrap_or_else(|| "nothing was pushed".to_owned())),
    }
}

async fn open(
    sandbox: &dyn Sandbox,
    request: &PullRequest,
    repo: &GitHubRepo,
    token: &Secret,
    github: &GitHub,
) -> Result<String, String> {
    let base = sandbox.default_branch().await.map_err(reason)?;
    let (title, body) = (request.title(), request.body());
    let new = NewPullRequest {
        title: &title,
        body: &body,
        head: &request.branch,
        base: &base,
    };
    github.create_pull_request(repo, &new, token).await
}

fn reason(error: SandboxError) -> String {
    use std::error::Error as _;
    if let SandboxError::Git { detail, .. } = error {
        return detail;
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
