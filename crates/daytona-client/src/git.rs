//! Git in a sandbox. Paths are of repositories inside.

use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::git::{
    GitAddRequest, GitBranchRequest, GitCheckoutRequest, GitCloneRequest, GitCommitInfo,
    GitCommitRequest, GitCommitResponse, GitPullRequest, GitPushRequest, GitStatus,
    ListBranchResponse,
};
use holm_sandbox::Secret;
use reqwest::Method;
use serde::Serialize;

use crate::{Deletion, Result, Toolbox};

/// Who asks another server for a repository. It is sent along with one call and kept nowhere.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub username: String,
    pub password: Secret,
}

impl Credentials {
    pub fn new(username: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
        }
    }

    fn split(credentials: Option<&Self>) -> (Option<String>, Option<Hidden>) {
        let username = credentials.map(|credentials| credentials.username.clone());
        let password = credentials.map(|credentials| Hidden::new(credentials.password.expose()));
        (username, password)
    }
}

/// Git in a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Git<'toolbox> {
    pub(crate) toolbox: &'toolbox Toolbox,
}

impl Git<'_> {
    /// Clones as the request says; credentials that it holds already are replaced by those given.
    pub async fn clone(
        &self,
        mut request: GitCloneRequest,
        credentials: Option<&Credentials>,
    ) -> Result<()> {
        if credentials.is_some() {
            (request.username, request.password) = Credentials::split(credentials);
        }
        self.post_remote(&["git", "clone"], "clone a repository", &request)
            .await
    }

    pub async fn status(&self, path: &str) -> Result<GitStatus> {
        let segments = ["git", "status"];
        let call = self
            .toolbox
            .call(Method::GET, &segments, "get git's status")?;
        call.query("path", path).json().await
    }

    pub async fn branches(&self, path: &str) -> Result<ListBranchResponse> {
        let segments = ["git", "branches"];
        let call = self.toolbox.call(Method::GET, &segments, "list branches")?;
        call.query("path", path).json().await
    }

    /// A new branch where the repository stands. Whether it is checked out by that depends on the server.
    pub async fn create_branch(&self, path: &str, branch: &str) -> Result<()> {
        let action = format!("create branch `{branch}`");
        self.post(&["git", "branches"], action, &branch_request(path, branch))
            .await
    }

    /// One that is gone is success.
    pub async fn delete_branch(&self, path: &str, branch: &str) -> Result<Deletion> {
        let action = format!("delete branch `{branch}`");
        let call = self
            .toolbox
            .call(Method::DELETE, &["git", "branches"], action)?;
        match call.body(&branch_request(path, branch))?.done().await {
            Ok(()) => Ok(Deletion::Accepted),
            Err(error) if error.has_code(&ErrorCode::GitBranchNotFound) => {
                Ok(Deletion::AlreadyGone)
            }
            Err(error) => Err(error),
        }
    }

    /// A branch or a commit.
    pub async fn checkout(&self, path: &str, branch: &str) -> Result<()> {
        let action = format!("check out `{branch}`");
        let body = GitCheckoutRequest {
            path: path.to_owned(),
            branch: branch.to_owned(),
        };
        self.post(&["git", "checkout"], action, &body).await
    }

    pub async fn add(&self, path: &str, files: Vec<String>) -> Result<()> {
        let body = GitAddRequest {
            path: path.to_owned(),
            files,
        };
        self.post(&["git", "add"], "add files to git", &body).await
    }

    /// Gives the hash of the commit.
    pub async fn commit(&self, request: &GitCommitRequest) -> Result<String> {
        let call = self
            .toolbox
            .call(Method::POST, &["git", "commit"], "commit")?;
        Ok(call.body(request)?.json::<GitCommitResponse>().await?.hash)
    }

    /// Pushes as the request says; credentials that it holds already are replaced by those given.
    pub async fn push(
        &self,
        mut request: GitPushRequest,
        credentials: Option<&Credentials>,
    ) -> Result<()> {
        if credentials.is_some() {
            (request.username, request.password) = Credentials::split(credentials);
        }
        self.post_remote(&["git", "push"], "push", &request).await
    }

    /// Pulls as the request says; credentials that it holds already are replaced by those given.
    pub async fn pull(
        &self,
        mut request: GitPullRequest,
        credentials: Option<&Credentials>,
    ) -> Result<()> {
        if credentials.is_some() {
            (request.username, request.password) = Credentials::split(credentials);
        }
        self.post_remote(&["git", "pull"], "pull", &request).await
    }

    pub async fn history(&self, path: &str) -> Result<Vec<GitCommitInfo>> {
        let segments = ["git", "history"];
        let call = self.toolbox.call(Method::GET, &segments, "list commits")?;
        call.query("path", path).list().await
    }

    async fn post(
        &self,
        segments: &[&str],
        action: impl Into<String>,
        body: &impl Serialize,
    ) -> Result<()> {
        let call = self.toolbox.call(Method::POST, segments, action)?;
        call.body(body)?.done().await
    }

    /// For what makes git talk to another server.
    async fn post_remote(
        &self,
        segments: &[&str],
        action: &str,
        body: &impl Serialize,
    ) -> Result<()> {
        let deadline = self.toolbox.client().deadlines().git;
        let call = self.toolbox.call(Method::POST, segments, action)?;
        call.deadline(deadline).body(body)?.done().await
    }
}

fn branch_request(path: &str, name: &str) -> GitBranchRequest {
    GitBranchRequest {
        path: path.to_owned(),
        name: name.to_owned(),
    }
}
