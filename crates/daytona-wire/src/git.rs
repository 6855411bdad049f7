//! Git in a sandbox. Requests are in snake_case, answers in camelCase.

use crate::Hidden;

wire_words! {
    /// What git says of one side of a file.
    pub enum FileStatusWord {
        Unmodified = "Unmodified",
        Untracked = "Untracked",
        Modified = "Modified",
        Added = "Added",
        Deleted = "Deleted",
        Renamed = "Renamed",
        Copied = "Copied",
        UpdatedButUnmerged = "Updated but unmerged",
    }
}

wire_words! {
    /// Which file of settings is meant.
    pub enum GitScope {
        Global = "global",
        Local = "local",
        System = "system",
    }
}

wire_structs! {
    /// `POST /git/clone`.
    #[serde(rename_all = "snake_case")]
    pub struct GitCloneRequest {
        pub url: String,
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commit_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub username: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub password: Option<Hidden>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub depth: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub insecure_skip_tls: Option<bool>,
    }

    /// `POST /git/add`.
    #[serde(rename_all = "snake_case")]
    pub struct GitAddRequest {
        pub path: String,
        pub files: Vec<String>,
    }

    /// `POST /git/commit`.
    #[serde(rename_all = "snake_case")]
    pub struct GitCommitRequest {
        pub path: String,
        pub message: String,
        pub author: String,
        pub email: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub allow_empty: Option<bool>,
    }

    /// Its answer.
    #[serde(rename_all = "camelCase")]
    pub struct GitCommitResponse {
        pub hash: String,
    }

    /// `POST /git/push`.
    #[serde(rename_all = "snake_case")]
    pub struct GitPushRequest {
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub username: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub password: Option<Hidden>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub remote: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub set_upstream: Option<bool>,
    }

    /// `POST /git/pull`.
    #[serde(rename_all = "snake_case")]
    pub struct GitPullRequest {
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub username: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub password: Option<Hidden>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub remote: Option<String>,
    }

    /// `POST /git/branches` and `DELETE /git/branches`, which has a body too.
    #[serde(rename_all = "snake_case")]
    pub struct GitBranchRequest {
        pub path: String,
        pub name: String,
    }

    /// `POST /git/checkout`.
    #[serde(rename_all = "snake_case")]
    pub struct GitCheckoutRequest {
        pub path: String,
        pub branch: String,
    }

    /// `POST /git/init`.
    #[serde(rename_all = "snake_case")]
    pub struct GitInitRequest {
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bare: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub initial_branch: Option<String>,
    }

    /// `POST /git/remotes`.
    #[serde(rename_all = "snake_case")]
    pub struct GitAddRemoteRequest {
        pub path: String,
        pub name: String,
        pub url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fetch: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub overwrite: Option<bool>,
    }

    /// `POST /git/config`.
    #[serde(rename_all = "snake_case")]
    pub struct GitSetConfigRequest {
        pub key: String,
        pub value: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scope: Option<GitScope>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<String>,
    }

    /// `POST /git/config/user`.
    #[serde(rename_all = "snake_case")]
    pub struct GitConfigureUserRequest {
        pub name: String,
        pub email: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scope: Option<GitScope>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<String>,
    }

    /// `POST /git/credentials`.
    #[serde(rename_all = "snake_case")]
    pub struct GitAuthenticateRequest {
        pub username: String,
        pub password: Hidden,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub host: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub protocol: Option<String>,
    }

    /// `POST /git/reset`.
    #[serde(rename_all = "snake_case")]
    pub struct GitResetRequest {
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub files: Vec<String>,
    }

    /// `POST /git/restore`.
    #[serde(rename_all = "snake_case")]
    pub struct GitRestoreRequest {
        pub path: String,
        pub files: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub source: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub staged: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub worktree: Option<bool>,
    }

    /// The answer of `GET /git/status`.
    #[serde(rename_all = "camelCase")]
    pub struct GitStatus {
        pub current_branch: String,
        pub file_status: Vec<FileStatus>,
        pub ahead: u32,
        pub behind: u32,
        pub branch_published: bool,
        pub detached: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub upstream: Option<String>,
    }

    /// A file that differs.
    #[serde(rename_all = "camelCase")]
    pub struct FileStatus {
        pub name: String,
        pub staging: FileStatusWord,
        pub worktree: FileStatusWord,
        /// The older name, when a file was renamed.
        pub extra: String,
    }

    /// The answer of `GET /git/branches`.
    #[serde(rename_all = "camelCase")]
    pub struct ListBranchResponse {
        pub branches: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub current: Option<String>,
    }

    /// One commit of `GET /git/history`.
    #[serde(rename_all = "camelCase")]
    pub struct GitCommitInfo {
        pub hash: String,
        pub author: String,
        pub email: String,
        pub message: String,
        pub timestamp: String,
    }

    /// A remote.
    #[serde(rename_all = "camelCase")]
    pub struct GitRemote {
        pub name: String,
        pub url: String,
    }

    /// The answer of `GET /git/remotes`.
    #[serde(rename_all = "camelCase")]
    pub struct ListRemotesResponse {
        pub remotes: Vec<GitRemote>,
    }

    /// The answer of `GET /git/config`; nothing when it is not set.
    #[serde(rename_all = "camelCase")]
    pub struct GitConfigResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub value: Option<String>,
    }
}
