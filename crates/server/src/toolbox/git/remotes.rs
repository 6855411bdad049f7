//! Remotes of a repository.

use axum::Json;
use axum::http::StatusCode;
use holm_daytona_wire::git::{GitAddRemoteRequest, GitRemote, ListRemotesResponse};

use super::failure::failure;
use super::run::{Git, TRANSFER_TIMEOUT, value};
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::error::Result;
use crate::toolbox::Inside;

pub(super) async fn list(inside: Inside, pairs: Pairs) -> Result<Json<ListRemotesResponse>> {
    let path = pairs.required("path")?;
    // That there is a repository; without one, git would look at the user's settings alone.
    let repository = Git::inside(&inside.machine, path)?.args(["rev-parse", "--git-dir"]);
    repository.run(&inside.machine).await?;
    let done = Git::inside(&inside.machine, path)?
        .args([
            "config",
            "--local",
            "-z",
            "--get-regexp",
            r"^remote\..*\.url$",
        ])
        .outcome(&inside.machine)
        .await?;
    // 1 is none.
    if !(0..=1).contains(&done.exit_code) {
        return Err(failure(&done));
    }
    let remotes = parse(&String::from_utf8_lossy(&done.stdout));
    Ok(Json(ListRemotesResponse { remotes }))
}

fn parse(printed: &str) -> Vec<GitRemote> {
    let mut remotes: Vec<GitRemote> = Vec::new();
    for setting in printed.split('\0') {
        let Some((key, url)) = setting.split_once('\n') else {
            continue;
        };
        let name = key
            .strip_prefix("remote.")
            .and_then(|name| name.strip_suffix(".url"));
        // A remote with several addresses is shown by its first.
        if let Some(name) = name
            && remotes.iter().all(|remote| remote.name != name)
        {
            remotes.push(GitRemote {
                name: name.to_owned(),
                url: url.to_owned(),
            });
        }
    }
    remotes
}

pub(super) async fn add(
    inside: Inside,
    Body(request): Body<GitAddRemoteRequest>,
) -> Result<StatusCode> {
    let machine = &inside.machine;
    let name = value("name", &request.name)?;
    let url = value("url", &request.url)?;
    let git = || Git::inside(machine, &request.path);
    let added = git()?
        .args(["remote", "add", "--", name, url])
        .outcome(machine)
        .await?;
    // 3 says that there is one of that name.
    match (added.exit_code, request.overwrite) {
        (0, _) => {}
        (3, Some(true)) => {
            git()?
                .args(["remote", "set-url", "--", name, url])
                .run(machine)
                .await?;
        }
        (_, _) => return Err(failure(&added)),
    }
    if request.fetch == Some(true) {
        let fetch = git()?.args(["fetch", "--quiet", "--", name]);
        fetch.timeout(TRANSFER_TIMEOUT).run(machine).await?;
    }
    Ok(StatusCode::CREATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_from_the_settings() {
        let remotes =
            parse("remote.origin.url\nhttps://h/x\0remote.a.b.url\n../y\0remote.origin.url\nz\0");
        let shown: Vec<_> = remotes
            .iter()
            .map(|remote| format!("{} {}", remote.name, remote.url))
            .collect();
        assert_eq!(shown, ["origin https://h/x", "a.b ../y"]);
        assert_eq!(parse(""), []);
    }
}
