//! What goes between a repository and its remote.

use std::sync::Arc;

use axum::http::StatusCode;
use holm_daytona_wire::Hidden;
use holm_daytona_wire::git::{GitCloneRequest, GitPullRequest, GitPushRequest};

use super::credentials::{Address, Credentials};
use super::run::{Git, repository_path, value};
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;

const REMOTE: &str = "origin";

pub(super) async fn clone(
    inside: Inside,
    Body(request): Body<GitCloneRequest>,
) -> Result<StatusCode> {
    let machine = &inside.machine;
    let path = repository_path(machine, &request.path)?;
    let address = Address::new(
        value("url", &request.url)?,
        request.username.as_deref(),
        request.password.as_ref(),
    )?;
    let commit = given(request.commit_id.as_ref());
    if let Some(commit) = commit
        && !is_commit(commit)
    {
        return Err(ApiError::bad_request(format!(
            "`{}` is no commit: give its hexadecimal name",
            commit.escape_debug()
        )));
    }
    let mut git = tls(Git::new(), &request).args(["clone", "--quiet", "--single-branch"]);
    if let Some(branch) = given(request.branch.as_ref()) {
        git = git.arg(format!("--branch={}", value("branch", branch)?));
    }
    if let Some(depth) = request.depth.filter(|depth| *depth > 0) {
        git = git.arg(format!("--depth={depth}"));
    }
    git.arg("--")
        .arg(&address.url)
        .arg(&path)
        .authenticated(address.credentials.clone())
        .run(machine)
        .await?;
    if let Some(commit) = commit {
        let inside_clone = || Git::new().arg("-C").arg(&path);
        let checkout = || inside_clone().args(["checkout", "--quiet", "--detach", commit, "--"]);
        if checkout().outcome(machine).await?.exit_code != 0 {
            // Not on the branch that was cloned, or below its depth.
            tls(inside_clone(), &request)
                .args(["fetch", "--quiet", REMOTE, commit])
                .authenticated(address.credentials)
                .run(machine)
                .await?;
            checkout().run(machine).await?;
        }
    }
    Ok(StatusCode::OK)
}

fn tls(git: Git, request: &GitCloneRequest) -> Git {
    match request.insecure_skip_tls {
        Some(true) => git.env("GIT_SSL_NO_VERIFY", "1"),
        Some(false) | None => git,
    }
}

/// Clients also send empty texts for what they leave out.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn is_commit(name: &str) -> bool {
    (4..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) async fn push(
    inside: Inside,
    Body(request): Body<GitPushRequest>,
) -> Result<StatusCode> {
    let machine = &inside.machine;
    let remote = value("remote", given(request.remote.as_ref()).unwrap_or(REMOTE))?;
    let branch = match given(request.branch.as_ref()) {
        Some(branch) => value("branch", branch)?.to_owned(),
        None => current_branch(machine, &request.path).await?,
    };
    let (username, password) = (request.username.as_deref(), request.password.as_ref());
    let git = Git::inside(machine, &request.path)?.args(["remote", "get-url", "--push", "--"]);
    let credentials = credentials(machine, git.arg(remote), username, password).await?;
    let mut git = Git::inside(machine, &request.path)?.args(["push", "--quiet"]);
    if request.set_upstream == Some(true) {
        git = git.arg("--set-upstream");
    }
    git.arg("--")
        .arg(remote)
        .arg(format!("refs/heads/{branch}:refs/heads/{branch}"))
        .authenticated(credentials)
        .run(machine)
        .await?;
    remember_pushed(machine, &request.path, remote, &branch).await?;
    Ok(StatusCode::OK)
}

/// A clone of a single branch follows that one alone, and git would forget that another was pushed.
async fn remember_pushed(
    machine: &Arc<Machine>,
    path: &str,
    remote: &str,
    branch: &str,
) -> Result<()> {
    let followed = format!("refs/remotes/{remote}/{branch}");
    let git = || Git::inside(machine, path);
    let known = git()?.args(["rev-parse", "--verify", "--quiet", &followed]);
    if known.outcome(machine).await?.exit_code != 0 {
        git()?
            .args(["remote", "set-branches", "--add", "--", remote, branch])
            .run(machine)
            .await?;
        git()?
            .args([
                "update-ref",
                "--",
                &followed,
                &format!("refs/heads/{branch}"),
            ])
            .run(machine)
            .await?;
    }
    Ok(())
}

pub(super) async fn pull(
    inside: Inside,
    Body(request): Body<GitPullRequest>,
) -> Result<StatusCode> {
    let machine = &inside.machine;
    let remote = value("remote", given(request.remote.as_ref()).unwrap_or(REMOTE))?;
    let branch = match given(request.branch.as_ref()) {
        Some(branch) => value("branch", branch)?.to_owned(),
        None => upstream_branch(machine, &request.path).await?,
    };
    let (username, password) = (request.username.as_deref(), request.password.as_ref());
    let git = Git::inside(machine, &request.path)?.args(["remote", "get-url", "--"]);
    let credentials = credentials(machine, git.arg(remote), username, password).await?;
    Git::inside(machine, &request.path)?
        .args(["pull", "--quiet", "--no-rebase", "--no-edit", "--"])
        .arg(remote)
        .arg(branch)
        .authenticated(credentials)
        .run(machine)
        .await?;
    Ok(StatusCode::OK)
}

/// Who we are to the remote whose address this run of git tells.
async fn credentials(
    machine: &Arc<Machine>,
    address: Git,
    username: Option<&str>,
    password: Option<&Hidden>,
) -> Result<Option<Credentials>> {
    let url = address.line(machine).await?;
    // An address of several is enough: the others are mirrors.
    let url = url.lines().next().unwrap_or_default();
    if password.is_none() && username.is_none_or(str::is_empty) {
        // What stands in the address itself is git's to use.
        return Ok(None);
    }
    Ok(Address::new(url, username, password)?.credentials)
}

pub(super) async fn current_branch(machine: &Arc<Machine>, path: &str) -> Result<String> {
    let git = Git::inside(machine, path)?;
    let head = git.args(["symbolic-ref", "--short", "--quiet", "HEAD"]);
    let done = head.outcome(machine).await?;
    match done.exit_code {
        0 => Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned()),
        1 => Err(ApiError::bad_request(
            "no branch is checked out: name the branch",
        )),
        _ => Err(super::failure::failure(&done)),
    }
}

/// The branch of the remote that the current one follows, or one of the same name.
async fn upstream_branch(machine: &Arc<Machine>, path: &str) -> Result<String> {
    let current = current_branch(machine, path).await?;
    let key = format!("branch.{current}.merge");
    let git = Git::inside(machine, path)?.args(["config", "--get", "--"]);
    let followed = git.arg(key).outcome(machine).await?;
    let followed = String::from_utf8_lossy(&followed.stdout)
        .trim_end()
        .to_owned();
    match followed.strip_prefix("refs/heads/") {
        Some(branch) => Ok(value("branch", branch)?.to_owned()),
        None => Ok(current),
    }
}
