//! A finished run goes to GitHub: its branch is pushed, and a pull request opened.
//!
//! | state | `pushed` | `pr_url` | `error` |
//! | --- | --- | --- | --- |
//! | no token | no | none | `GITHUB_TOKEN required for push` |
//! | push failed | no | none | `git push failed: <reason>` |
//! | pull request failed | yes | none | `PR creation failed: <reason>` |
//! | all done | yes | its address | none |
//!
//! **Invariant:** nothing here fails a run; what went wrong is in the result.

use holm_sandbox::{Exec, GitHubRepo, Isolation, Sandbox, SandboxError, Secret};
use serde::Serialize;

use super::github::{GitHub, NewPullRequest};

const TITLE_CHARACTERS_MAX: usize = 256;

/// What a pull request is about.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// Needed where a sandbox is not on this machine; `gh` finds it by itself.
    pub repo: Option<GitHubRepo>,
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

/// Pushes the branch and opens a pull request: by GitHub's API where the sandbox is on another machine, with `gh` in it
/// where it is on this one.
pub async fn push_and_create_pr(
    sandbox: &dyn Sandbox,
    request: &PullRequest,
    token: Option<&Secret>,
    github: &GitHub,
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
    let opened = match (sandbox.capabilities().isolation, &request.repo) {
        (Isolation::Remote, Some(repo)) => open(sandbox, request, repo, token, github).await,
        (Isolation::Remote, None) => Err("the repository is not known".to_owned()),
        (Isolation::Namespaces | Isolation::None, _) => open_with_gh(sandbox, request, token).await,
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
    if sandbox.capabilities().push_branch {
        let outcome = sandbox.push_branch(branch, token).await.map_err(reason)?;
        return match outcome.error {
            None if outcome.pushed => Ok(()),
            error => Err(error.unwrap_or_else(|| "nothing was pushed".to_owned())),
        };
    }
    let push = Exec::new(["git", "push", "-u", "origin", branch]);
    run(sandbox, push).await.map(drop)
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

async fn open_with_gh(
    sandbox: &dyn Sandbox,
    request: &PullRequest,
    token: &Secret,
) -> Result<String, String> {
    let (title, body) = (request.title(), request.body());
    let create = Exec::new([
        "gh",
        "pr",
        "create",
        "--title",
        &title,
        "--body",
        &body,
        "--head",
        &request.branch,
    ]);
    let create = create
        .secret_env("GITHUB_TOKEN", token.clone())
        .map_err(reason)?;
    let said = run(sandbox, create).await?;
    let url = said.lines().rev().find(|line| line.starts_with("https://"));
    url.map(str::to_owned)
        .ok_or_else(|| "`gh` did not say where it is".to_owned())
}

async fn run(sandbox: &dyn Sandbox, exec: Exec) -> Result<String, String> {
    let outcome = sandbox.exec(exec).await.map_err(reason)?;
    if outcome.success() {
        return Ok(outcome.stdout_text().into_owned());
    }
    Err(outcome.stderr_text().trim().to_owned())
}

fn reason(error: SandboxError) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
