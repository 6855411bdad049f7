//! Commits of a repository.

use axum::Json;
use holm_daytona_wire::git::GitCommitInfo;

use super::failure::failure;
use super::run::Git;
use crate::api::query::Pairs;
use crate::error::Result;
use crate::toolbox::Inside;

/// One answer.
const COMMITS_MAX: &str = "--max-count=10000";

pub(super) async fn history(inside: Inside, pairs: Pairs) -> Result<Json<Vec<GitCommitInfo>>> {
    let done = Git::inside(&inside.machine, pairs.required("path")?)?
        .args([
            "log",
            "-z",
            COMMITS_MAX,
            "--format=%H%n%an%n%ae%n%aI%n%B",
            "--",
        ])
        .outcome(&inside.machine)
        .await?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.exit_code != 0 && !said.contains("does not have any commits yet") {
        return Err(failure(&done));
    }
    Ok(Json(parse(&String::from_utf8_lossy(&done.stdout))))
}

fn parse(printed: &str) -> Vec<GitCommitInfo> {
    let commit = |text: &str| {
        let mut lines = text.splitn(5, '\n').map(str::to_owned);
        Some(GitCommitInfo {
            hash: lines.next()?,
            author: lines.next()?,
            email: lines.next()?,
            timestamp: lines.next()?,
            message: lines.next()?.trim_end().to_owned(),
        })
    };
    printed.split('\0').filter_map(commit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_told_apart() {
        let printed = "aa\nMe\nme@x\n2026-11-15T00:00:00Z\nsubject\n\nbody\n\0bb\n\n\nt\nsecond\n";
        let commits = parse(printed);
        assert_eq!(commits.len(), 2);
        assert_eq!(commits[0].message, "subject\n\nbody");
        assert_eq!(
            (commits[1].hash.as_str(), commits[1].author.as_str()),
            ("bb", "")
        );
        assert_eq!(parse(""), []);
    }
}
