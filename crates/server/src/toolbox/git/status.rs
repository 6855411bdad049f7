//! What differs in a repository.

use axum::Json;
use holm_daytona_wire::git::{FileStatus, FileStatusWord, GitStatus};

use super::run::Git;
use crate::api::query::Pairs;
use crate::error::Result;
use crate::toolbox::Inside;

pub(super) async fn status(inside: Inside, pairs: Pairs) -> Result<Json<GitStatus>> {
    let path = pairs.required("path")?;
    let printed = Git::inside(&inside.machine, path)?
        .args([
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
        ])
        .run(&inside.machine)
        .await?;
    let mut status = parse(&String::from_utf8_lossy(&printed));
    if status.upstream.is_none() && !status.detached {
        // Pushed without being told to follow it.
        let published = Git::inside(&inside.machine, path)?
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("refs/remotes/origin/{}", status.current_branch))
            .outcome(&inside.machine)
            .await?;
        status.branch_published = published.exit_code == 0;
    }
    Ok(Json(status))
}

/// Reads git's porcelain format, version 2, ended by NULs.
fn parse(printed: &str) -> GitStatus {
    let mut status = GitStatus::default();
    let mut entries = printed.split('\0');
    while let Some(entry) = entries.next() {
        let (kind, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        match kind {
            "#" => header(&mut status, rest),
            "1" => status.file_status.extend(changed(rest, 6, "")),
            // The name that it had is the next entry.
            "2" => {
                let before = entries.next().unwrap_or_default();
                status.file_status.extend(changed(rest, 7, before));
            }
            "u" => {
                if let Some(name) = rest.splitn(10, ' ').nth(9) {
                    let word = FileStatusWord::UpdatedButUnmerged;
                    status.file_status.push(file(name, word.clone(), word, ""));
                }
            }
            "?" => {
                let word = FileStatusWord::Untracked;
                status.file_status.push(file(rest, word.clone(), word, ""));
            }
            _ => {}
        }
    }
    status
}

fn header(status: &mut GitStatus, header: &str) {
    let (name, value) = header.split_once(' ').unwrap_or((header, ""));
    match name {
        "branch.head" if value == "(detached)" => {
            status.detached = true;
            status.current_branch = "HEAD".to_owned();
        }
        "branch.head" => status.current_branch = value.to_owned(),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let mut counts = value.split(' ');
            let mut count = |sign| counts.next()?.strip_prefix(sign)?.parse().ok();
            status.ahead = count('+').unwrap_or(0);
            status.behind = count('-').unwrap_or(0);
            // Told only when the branch that is followed is there.
            status.branch_published = true;
        }
        _ => {}
    }
}

/// `XY`, some fields that nobody wants, and the name.
fn changed(rest: &str, fields: usize, before: &str) -> Option<FileStatus> {
    let name = rest.splitn(fields + 2, ' ').nth(fields + 1)?;
    let mut letters = rest.chars();
    let (staging, worktree) = (word(letters.next()?), word(letters.next()?));
    Some(file(name, staging, worktree, before))
}

fn file(name: &str, staging: FileStatusWord, worktree: FileStatusWord, extra: &str) -> FileStatus {
    FileStatus {
        name: name.to_owned(),
        staging,
        worktree,
        extra: extra.to_owned(),
    }
}

fn word(letter: char) -> FileStatusWord {
    match letter {
        // A change of type is a change.
        'M' | 'T' => FileStatusWord::Modified,
        'A' => FileStatusWord::Added,
        'D' => FileStatusWord::Deleted,
        'R' => FileStatusWord::Renamed,
        'C' => FileStatusWord::Copied,
        'U' => FileStatusWord::UpdatedButUnmerged,
        _ => FileStatusWord::Unmodified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_words_become_daytonas() {
        let printed = "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
            1 M. N... 100644 100644 100644 aaa bbb staged file\0\
            1 .D N... 100644 100644 000000 aaa aaa deleted\0\
            1 AM N... 000000 100644 100644 000 bbb added\0\
            2 R. N... 100644 100644 100644 aaa aaa R100 new name\0old name\0\
            u UU N... 100644 100644 100644 100644 aaa bbb ccc in conflict\0\
            ? un tracked\0";
        let status = parse(printed);
        assert_eq!(
            (status.current_branch.as_str(), status.ahead, status.behind),
            ("main", 2, 1)
        );
        assert!(status.branch_published && !status.detached);
        assert_eq!(status.upstream.as_deref(), Some("origin/main"));
        let shown: Vec<_> = status
            .file_status
            .iter()
            .map(|file| {
                format!(
                    "{}: {}, {}, {}",
                    file.name, file.staging, file.worktree, file.extra
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "staged file: Modified, Unmodified, ",
                "deleted: Unmodified, Deleted, ",
                "added: Added, Modified, ",
                "new name: Renamed, Unmodified, old name",
                "in conflict: Updated but unmerged, Updated but unmerged, ",
                "un tracked: Untracked, Untracked, ",
            ]
        );
        assert!(parse("# branch.head (detached)\0").detached);
        assert_eq!(parse(""), GitStatus::default());
    }
}
