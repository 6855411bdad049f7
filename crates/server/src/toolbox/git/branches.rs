//! Branches.

use axum::Json;
use axum::http::StatusCode;
use holm_daytona_wire::git::{GitBranchRequest, GitCheckoutRequest, ListBranchResponse};

use super::run::{Git, value};
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::error::Result;
use crate::toolbox::Inside;

pub(super) async fn list(inside: Inside, pairs: Pairs) -> Result<Json<ListBranchResponse>> {
    let printed = Git::inside(&inside.machine, pairs.required("path")?)?
        .args([
            "for-each-ref",
            "--format=%(HEAD)%(refname:lstrip=2)",
            "refs/heads",
        ])
        .run(&inside.machine)
        .await?;
    let mut answer = ListBranchResponse::default();
    for line in String::from_utf8_lossy(&printed).lines() {
        let (head, name) = line.split_at_checked(1).unwrap_or(("", line));
        if head == "*" {
            answer.current = Some(name.to_owned());
        }
        answer.branches.push(name.to_owned());
    }
    Ok(Json(answer))
}

/// Makes a branch and goes to it, as Daytona does.
pub(super) async fn create(
    inside: Inside,
    Body(request): Body<GitBranchRequest>,
) -> Result<StatusCode> {
    Git::inside(&inside.machine, &request.path)?
        .args([
            "checkout",
            "--quiet",
            "-b",
            value("name", &request.name)?,
            "--",
        ])
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::CREATED)
}

pub(super) async fn delete(
    inside: Inside,
    Body(request): Body<GitBranchRequest>,
) -> Result<StatusCode> {
    Git::inside(&inside.machine, &request.path)?
        .args([
            "branch",
            "--quiet",
            "-D",
            "--",
            value("name", &request.name)?,
        ])
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn checkout(
    inside: Inside,
    Body(request): Body<GitCheckoutRequest>,
) -> Result<StatusCode> {
    Git::inside(&inside.machine, &request.path)?
        .args([
            "checkout",
            "--quiet",
            value("branch", &request.branch)?,
            "--",
        ])
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::OK)
}
