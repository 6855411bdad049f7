//! The repository itself: made, added to, committed, put back.

use axum::Json;
use axum::http::StatusCode;
use holm_daytona_wire::git::{
    GitAddRequest, GitCommitRequest, GitCommitResponse, GitInitRequest, GitResetRequest,
    GitRestoreRequest,
};

use super::run::{Git, pathspecs, repository_path, value};
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::toolbox::Inside;

pub(super) async fn init(
    inside: Inside,
    Body(request): Body<GitInitRequest>,
) -> Result<StatusCode> {
    let path = repository_path(&inside.machine, &request.path)?;
    let mut git = Git::new().args(["init", "--quiet"]);
    if request.bare == Some(true) {
        git = git.arg("--bare");
    }
    if let Some(branch) = request.initial_branch.filter(|branch| !branch.is_empty()) {
        git = git.arg(format!(
            "--initial-branch={}",
            value("initial_branch", &branch)?
        ));
    }
    git.arg("--").arg(path).run(&inside.machine).await?;
    Ok(StatusCode::CREATED)
}

pub(super) async fn add(inside: Inside, Body(request): Body<GitAddRequest>) -> Result<StatusCode> {
    Git::inside(&inside.machine, &request.path)?
        .arg("add")
        .operands(pathspecs("files", &request.files)?)
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::OK)
}

pub(super) async fn commit(
    inside: Inside,
    Body(request): Body<GitCommitRequest>,
) -> Result<Json<GitCommitResponse>> {
    if request.message.trim().is_empty() {
        return Err(ApiError::bad_request("`message` is empty"));
    }
    let mut git = Git::inside(&inside.machine, &request.path)?
        .args(["commit", "--quiet", "--file=-"])
        .stdin(request.message);
    for (name, text) in [("NAME", &request.author), ("EMAIL", &request.email)] {
        if text.contains(['\0', '\n']) {
            return Err(ApiError::bad_request(
                "the author's name and address have to be one line each",
            ));
        }
        // What is left out is as git is set up.
        if !text.is_empty() {
            git = git
                .env(&format!("GIT_AUTHOR_{name}"), text)
                .env(&format!("GIT_COMMITTER_{name}"), text);
        }
    }
    if request.allow_empty == Some(true) {
        git = git.arg("--allow-empty");
    }
    git.run(&inside.machine).await?;
    let hash = Git::inside(&inside.machine, &request.path)?
        .args(["rev-parse", "--verify", "HEAD"])
        .line(&inside.machine)
        .await?;
    Ok(Json(GitCommitResponse { hash }))
}

pub(super) async fn reset(
    inside: Inside,
    Body(request): Body<GitResetRequest>,
) -> Result<StatusCode> {
    let mode = request.mode.as_deref().filter(|mode| !mode.is_empty());
    let target = request
        .target
        .as_deref()
        .filter(|target| !target.is_empty());
    let target = value("target", target.unwrap_or("HEAD"))?;
    let git = Git::inside(&inside.machine, &request.path)?.args(["reset", "--quiet"]);
    let git = match mode.unwrap_or("mixed") {
        "mixed" if !request.files.is_empty() => {
            let files = pathspecs("files", &request.files)?;
            git.arg(target).operands(files)
        }
        mode @ ("soft" | "mixed" | "hard" | "merge" | "keep") if request.files.is_empty() => {
            git.arg(format!("--{mode}")).arg(target).arg("--")
        }
        "soft" | "hard" | "merge" | "keep" => {
            return Err(ApiError::bad_request(
                "`files` can be reset in the mode `mixed` only",
            ));
        }
        mode => {
            return Err(ApiError::bad_request(format!(
                "`{}` is no mode: it is one of soft, mixed, hard, merge, keep",
                mode.escape_debug()
            )));
        }
    };
    git.run(&inside.machine).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn restore(
    inside: Inside,
    Body(request): Body<GitRestoreRequest>,
) -> Result<StatusCode> {
    let mut git = Git::inside(&inside.machine, &request.path)?.args(["restore", "--quiet"]);
    if let Some(source) = request.source.filter(|source| !source.is_empty()) {
        git = git.arg(format!("--source={}", value("source", &source)?));
    }
    if request.staged == Some(true) {
        git = git.arg("--staged");
    }
    if request.worktree == Some(true) {
        git = git.arg("--worktree");
    }
    git.operands(pathspecs("files", &request.files)?)
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::OK)
}
