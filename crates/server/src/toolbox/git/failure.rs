//! What git says when it fails, in Daytona's words.

use holm_daytona_wire::error::ErrorCode;

use crate::error::ApiError;
use crate::toolbox::command::Collected;

/// What a client is shown of it.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// The first line of this table with a text that git said decides. More particular ones come first.
const MEANINGS: &[(&[&str], ErrorCode)] = &[
    (
        &[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "terminal prompts disabled",
            "error: 401",
            "Permission denied (publickey",
            "Host key verification failed",
        ],
        ErrorCode::GitAuthFailed,
    ),
    (&["error: 403"], ErrorCode::Forbidden),
    (
        &["[remote rejected]", "hook declined"],
        ErrorCode::GitRemoteRejected,
    ),
    (
        &["[rejected]", "non-fast-forward", "fetch first"],
        ErrorCode::GitPushRejected,
    ),
    (
        &[
            "would be overwritten by",
            "Please commit your changes or stash them",
            "You have unstaged changes",
            "local changes",
        ],
        ErrorCode::GitDirtyWorktree,
    ),
    (
        &[
            "CONFLICT (",
            "Automatic merge failed",
            "unmerged files",
            "have not concluded your merge",
            "needs merge",
            "Not possible to fast-forward",
            "refusing to merge unrelated histories",
        ],
        ErrorCode::GitMergeConflict,
    ),
    (
        &[
            "not found in upstream",
            "invalid reference",
            "unknown revision",
            "bad revision",
            "as a valid revision",
            "as a valid tree",
            "couldn't find remote ref",
            "src refspec",
            "not a valid object name",
            "reference is not a tree",
            "unable to read tree",
            "could not resolve",
            "not our ref",
        ],
        ErrorCode::GitBranchNotFound,
    ),
    (&["a branch named"], ErrorCode::GitBranchExists),
    (&["already exists"], ErrorCode::Conflict),
    (&["No such remote"], ErrorCode::NotFound),
    (
        &["transport '", "is not a valid branch name"],
        ErrorCode::BadRequest,
    ),
    (
        &[
            "not a git repository",
            "cannot change to",
            "does not appear to be a git repository",
            "error: 404",
            "Repository not found",
            "does not exist",
        ],
        ErrorCode::GitRepoNotFound,
    ),
    (
        &[
            "Could not resolve host",
            "unable to access",
            "unable to connect",
            "Connection refused",
            "Connection timed out",
            "Could not read from remote repository",
            "early EOF",
            "hung up unexpectedly",
            "RPC failed",
        ],
        ErrorCode::GitTransportFailed,
    ),
    (
        &[
            "Permission denied",
            "Read-only file system",
            "could not lock config file",
        ],
        ErrorCode::FileAccessDenied,
    ),
];

/// The error of a run that did not succeed.
pub(super) fn failure(done: &Collected) -> ApiError {
    let stderr = String::from_utf8_lossy(&done.stderr);
    let stdout = String::from_utf8_lossy(&done.stdout);
    // A commit with nothing in it, and conflicts, are told on the standard output.
    let said = match stderr.trim() {
        "" => stdout.trim().to_owned(),
        said if stdout.contains("CONFLICT (") => format!("{said}\n{}", stdout.trim()),
        said => said.to_owned(),
    };
    let code = meaning(&said);
    let message = match shorten(&said) {
        "" => format!("git failed with exit code {}", done.exit_code),
        said => said.to_owned(),
    };
    ApiError::new(code, message)
}

fn meaning(said: &str) -> ErrorCode {
    // A branch that is not there and a file that is not there are told alike, but for this.
    if said.contains("branch '") && said.contains("' not found") {
        return ErrorCode::GitBranchNotFound;
    }
    if said.contains("repository '") && said.contains("' not found") {
        return ErrorCode::GitRepoNotFound;
    }
    MEANINGS
        .iter()
        .find(|(texts, _)| texts.iter().any(|text| said.contains(text)))
        .map_or(ErrorCode::BadRequest, |(_, code)| code.clone())
}

/// The end of a long message: git says what matters last.
fn shorten(said: &str) -> &str {
    let from = said.len().saturating_sub(MESSAGE_BYTES_MAX);
    let from = (from..said.len()).find(|at| said.is_char_boundary(*at));
    said.get(from.unwrap_or(0)..).unwrap_or(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_messages_have_daytonas_codes() {
        for (said, code) in [
            (
                "fatal: Authentication failed for 'http://h/x/'",
                ErrorCode::GitAuthFailed,
            ),
            (
                "fatal: could not read Username for 'https://h': terminal prompts disabled",
                ErrorCode::GitAuthFailed,
            ),
            (
                "fatal: repository 'http://h/none.git/' not found",
                ErrorCode::GitRepoNotFound,
            ),
            (
                "fatal: repository '/none' does not exist",
                ErrorCode::GitRepoNotFound,
            ),
            (
                "fatal: not a git repository (or any of the parent directories): .git",
                ErrorCode::GitRepoNotFound,
            ),
            (
                "fatal: cannot change to '/none': No such file or directory",
                ErrorCode::GitRepoNotFound,
            ),
            (
                "warning: Could not find remote branch x to clone.\nfatal: Remote branch x not found in upstream origin",
                ErrorCode::GitBranchNotFound,
            ),
            ("fatal: invalid reference: x", ErrorCode::GitBranchNotFound),
            ("error: branch 'x' not found", ErrorCode::GitBranchNotFound),
            (
                "error: src refspec refs/heads/x does not match any",
                ErrorCode::GitBranchNotFound,
            ),
            (
                "fatal: a branch named 'x' already exists",
                ErrorCode::GitBranchExists,
            ),
            (
                " ! [rejected]        main -> main (fetch first)",
                ErrorCode::GitPushRejected,
            ),
            (
                " ! [remote rejected] main -> main (pre-receive hook declined)",
                ErrorCode::GitRemoteRejected,
            ),
            (
                "error: Your local changes to the following files would be overwritten by checkout:",
                ErrorCode::GitDirtyWorktree,
            ),
            (
                "CONFLICT (content): Merge conflict in a",
                ErrorCode::GitMergeConflict,
            ),
            (
                "fatal: unable to access 'http://h/': Could not resolve host: h",
                ErrorCode::GitTransportFailed,
            ),
            ("fatal: transport 'ext' not allowed", ErrorCode::BadRequest),
            (
                "fatal: destination path 'x' already exists and is not an empty directory.",
                ErrorCode::Conflict,
            ),
            ("error: remote origin already exists.", ErrorCode::Conflict),
            (
                "error: could not lock config file /etc/gitconfig: Permission denied",
                ErrorCode::FileAccessDenied,
            ),
            ("something else", ErrorCode::BadRequest),
        ] {
            assert_eq!(meaning(said), code, "{said}");
        }
    }

    #[test]
    fn long_messages_are_cut_at_their_beginning() {
        let long = format!("{}end", "ü".repeat(MESSAGE_BYTES_MAX));
        assert!(shorten(&long).len() <= MESSAGE_BYTES_MAX);
        assert!(shorten(&long).ends_with("end"));
        assert_eq!(shorten("short"), "short");
    }
}
