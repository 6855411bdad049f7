//! What a failed call is for whoever uses a sandbox.

use std::path::Path;

use holm_daytona_client::ClientError;
use holm_sandbox::{GitHubRepo, SandboxError};

/// The exit codes with which the scripts in a sandbox say what is wrong.
pub(super) const OUTSIDE: i32 = 10;
pub(super) const MISSING: i32 = 11;
pub(super) const NO_FOLDER: i32 = 12;
pub(super) const NO_FILE: i32 = 13;
pub(super) const COMMAND_MISSING: i32 = 20;
pub(super) const COMMAND_NOT_EXECUTABLE: i32 = 21;

/// A call failed.
pub(super) fn remote(doing: impl Into<String>, error: ClientError) -> SandboxError {
    SandboxError::Backend {
        doing: doing.into(),
        hint: hint(&error),
        source: Box::new(error),
    }
}

/// Settings that cannot be used.
pub(super) fn unusable(error: ClientError) -> SandboxError {
    let hint = "see what DAYTONA_API_URL and DAYTONA_API_KEY say";
    with_hint(remote("use the settings for Daytona", error), hint)
}

/// No sandbox was made.
pub(super) fn not_created(error: ClientError) -> SandboxError {
    let is_elsewhere = error.is_not_found();
    let failed = remote("create a Daytona sandbox", error);
    if is_elsewhere {
        let hint = "see whether DAYTONA_API_URL is where the API is: it ends in `/api`";
        return with_hint(failed, hint);
    }
    failed
}

/// A repository could not be cloned. Servers tell of one that is private as of one that is not there.
pub(super) fn not_cloned(repo: &GitHubRepo, error: ClientError) -> SandboxError {
    let is_answered = error.status().is_some();
    let failed = remote(format!("clone `{repo}` into the sandbox"), error);
    if is_answered {
        let hint =
            "see whether its name is right; a private one needs a GITHUB_TOKEN that may read it";
        return with_hint(failed, hint);
    }
    failed
}

/// The same error with another thing to do.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others have no place for it"
)]
pub(super) fn with_hint(error: SandboxError, hint: impl Into<String>) -> SandboxError {
    let hint = hint.into();
    match error {
        SandboxError::Backend { doing, source, .. } => SandboxError::Backend {
            doing,
            hint: Some(hint),
            source,
        },
        SandboxError::Git { doing, detail, .. } => SandboxError::Git {
            doing,
            detail,
            hint: Some(hint),
        },
        error => error,
    }
}

fn hint(error: &ClientError) -> Option<String> {
    let text = if error.is_connect() {
        "see whether the server runs, and what DAYTONA_API_URL says"
    } else if error.status() == Some(401) {
        "see whether DAYTONA_API_KEY is a key of this server"
    } else if error.is_rate_limited() {
        "the server asks for patience: try again later"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// A script said that something is wrong with a path.
pub(super) fn refused(
    code: i32,
    doing: &str,
    root: &Path,
    path: &Path,
    said: &str,
) -> SandboxError {
    let path = path.to_path_buf();
    match code {
        OUTSIDE => SandboxError::PathConfinement {
            path,
            base: root.to_path_buf(),
        },
        MISSING => SandboxError::NotFound { path },
        NO_FOLDER => SandboxError::NotADirectory { path },
        NO_FILE => SandboxError::NotAFile { path },
        code => {
            let said = said.trim();
            let why = if said.is_empty() {
                "it is not allowed to"
            } else {
                said
            };
            SandboxError::Backend {
                doing: format!("{doing} `{}` in the sandbox", path.display()),
                hint: None,
                source: format!("{why} (code {code})").into(),
            }
        }
    }
}
