//! What a sandbox has to do with its repository's remote. All of it happens on the host: the box has no
//! network, and the token must not enter it.

use holm_sandbox::{BranchOrigin, PushOutcome, Redactor, Result, SandboxError, Secret};

use super::git::text;
use super::harvest::Home;
use super::record::SourceRecord;
use super::repository::Repository;
use super::sandbox::Inner;

/// Pushes the branch from the host, with a token that git gets through its environment only.
pub(crate) fn push_branch(inner: &Inner, branch: &str, token: &Secret) -> Result<PushOutcome> {
    let inside = inner.inside("push_branch")?;
    let SourceRecord::Repository {
        path,
        branch: own,
        commit,
        ..
    } = &inner.record.source
    else {
        return Err(SandboxError::Unsupported {
            operation: "push_branch",
        });
    };
    if branch != own {
        return Err(SandboxError::Invalid {
            what: format!("branch `{branch}` is not this sandbox's branch"),
            hint: format!("push `{own}`"),
        });
    }
    let config = &inner.runtime.config;
    let repository = Repository::open(config, path)?;
    let home = Home {
        remains: inner.remains(),
        repository: &repository,
        inside: &inside,
    };
    if let Some(tip) = inside.commit_of(&format!("refs/heads/{branch}"))?
        && tip != *commit
    {
        let known = repository.git(config).args([
            "rev-parse",
            "-q",
            "--verify",
            &format!("refs/heads/{branch}"),
        ]);
        let known = text(&known.run("read the branch")?);
        if known != tip {
            home.bring(&tip, branch, Some(&known), BranchOrigin::Committed)?;
        }
    }
    let helper = "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' \"$HOLM_PUSH_TOKEN\"; }; f";
    let pushed = repository
        .git(config)
        .args([
            "-c",
            "credential.helper=",
            "-c",
            &format!("credential.helper={helper}"),
        ])
        .args([
            "push",
            "--quiet",
            "-u",
            "origin",
            &format!("refs/heads/{branch}:refs/heads/{branch}"),
        ])
        .env("HOLM_PUSH_TOKEN", token.expose())
        .output("push the branch")?;
    Ok(PushOutcome {
        pushed: pushed.success,
        error: (!pushed.success).then(|| {
            let redactor = Redactor::default().with_secret("TOKEN", token);
            redactor.redact(&pushed.stderr).into_owned()
        }),
    })
}

/// Opens a pull request for the sandbox's branch with the host's `gh`, and gives its address. The branch was pushed before.
pub(crate) fn create_pull_request(
    inner: &Inner,
    title: &str,
    body: &str,
    token: &Secret,
) -> Result<String> {
    let SourceRecord::Repository { path, branch, .. } = &inner.record.source else {
        return Err(SandboxError::Unsupported {
            operation: "create_pull_request",
        });
    };
    let doing = "open a pull request";
    let config = &inner.runtime.config;
    let repository = Repository::open(config, path)?;
    let said = repository
        .gh(config)
        .args(["pr", "create", "--title", title, "--body", body])
        .args(["--head", branch])
        .env("GITHUB_TOKEN", token.expose())
        .output(doing)?;
    let redactor = Redactor::default().with_secret("TOKEN", token);
    let refused = |detail: &str| SandboxError::Git {
        doing: doing.into(),
        detail: redactor.redact(detail).into_owned(),
        hint: None,
    };
    if !said.success {
        return Err(refused(&said.stderr));
    }
    let text = text(&said.stdout);
    let url = text.lines().rev().find(|line| line.starts_with("https://"));
    url.map(str::to_owned)
        .ok_or_else(|| refused("gh did not say where it is"))
}

/// The remote's default branch as the repository last saw it, else the one that it has checked out.
pub(crate) fn default_branch(inner: &Inner) -> Result<String> {
    let SourceRecord::Repository { path, .. } = &inner.record.source else {
        return Err(SandboxError::Unsupported {
            operation: "default_branch",
        });
    };
    let config = &inner.runtime.config;
    let repository = Repository::open(config, path)?;
    let remote = repository
        .git(config)
        .args(["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"])
        .output("read the remote's default branch")?;
    if let Some(name) = text(&remote.stdout).strip_prefix("refs/remotes/origin/") {
        return Ok(name.to_owned());
    }
    let own = repository
        .git(config)
        .args(["symbolic-ref", "--quiet", "--short", "HEAD"])
        .output("read the current branch")?;
    if own.success {
        return Ok(text(&own.stdout));
    }
    Err(SandboxError::Git {
        doing: "find the default branch".into(),
        detail: "there is no remote default branch, and HEAD is detached".into(),
        hint: Some("set one: `git remote set-head origin --auto`".into()),
    })
}
