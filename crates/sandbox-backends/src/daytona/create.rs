//! A sandbox from nothing to running, with its repository on a branch of its own.
//!
//! ```text
//! check the options ──▶ create ──▶ clone the default branch ──▶ create the branch ──▶ check it out
//!                     └─────────────┴──────────────┴── failed ──┴──▶ delete the sandbox
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::git::GitCloneRequest;
use holm_daytona_client::wire::sandbox::{CreateSandbox, ResizeSandbox, Sandbox as Record};
use holm_daytona_client::{Client, Credentials, Toolbox};
use holm_sandbox::{GitHubRepo, Result, SandboxError, is_local_path, parse_github_repo};

use super::again::again;
use super::branch::{GIT_USER, Repository, check_branch, commit_in};
use super::errors::{not_cloned, not_created, remote, unusable, with_hint};
use super::inside;
use super::options::{
    DEFAULT_SNAPSHOT, DEFAULT_TARGET, LABEL_BRANCH, LABEL_ENVIRONMENT, LABEL_REPOSITORY, LABEL_RUN,
    LABEL_THREAD, SandboxOptions, WORKSPACE,
};
use super::sandbox::{DaytonaSandbox, Inner, State};
use super::unfinished::Unfinished;

/// From the request to a sandbox that runs; snapshots that are not at hand are fetched first.
const START_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// The folder of a sandbox without a repository.
const PLAIN_FOLDER: &str = "work";
const LOCAL_PATH: &str =
    "Daytona sandbox requires a GitHub repo URL (e.g. org/repo), not a local path";

/// What came of making a sandbox that may be called off.
#[derive(Debug)]
pub enum Creation<Why> {
    Made(Box<DaytonaSandbox>),
    CalledOff {
        why: Why,
        /// The name of a sandbox that may be there all the same, since the server did not say.
        left_behind: Option<String>,
    },
}

/// Makes a sandbox, clones the repository's default branch, and checks out a new branch. If the future is dropped, what there
/// is of the sandbox is deleted as long as the runtime lives.
///
/// # Errors
///
/// [`SandboxError::Invalid`] before any call; [`SandboxError::Backend`] when a step failed, in which case no sandbox is left.
pub async fn create_daytona_sandbox(options: SandboxOptions) -> Result<DaytonaSandbox> {
    let never = std::future::pending::<Infallible>();
    match create_daytona_sandbox_unless(options, never).await? {
        Creation::Made(sandbox) => Ok(*sandbox),
        Creation::CalledOff { why, .. } => match why {},
    }
}

/// The same, until somebody wants it no more: then what there is of it is deleted, for which a server that does not answer
/// gets a quarter of a minute.
///
/// # Errors
///
/// Those of [`create_daytona_sandbox`].
pub async fn create_daytona_sandbox_unless<Why>(
    options: SandboxOptions,
    called_off: impl Future<Output = Why>,
) -> Result<Creation<Why>> {
    let mut settings = options.daytona.settings()?;
    let repo = repository_of(&options)?;
    if let Some(timeout) = options.operation_timeout {
        settings.deadlines.git = timeout;
    }
    let client = Client::new(settings).map_err(unusable)?;
    let mut unfinished = Unfinished::begin(&client, request(&options, repo.as_ref()));
    let making = async {
        let started = unfinished.started(START_PATIENCE).await;
        let record = started.map_err(not_created)?;
        bootstrap(&client, &record, &options, repo).await
    };
    let made = tokio::select! {
        made = making => Ok(made),
        why = called_off => Err(why),
    };
    match made {
        Ok(Ok(sandbox)) => {
            unfinished.finished();
            Ok(Creation::Made(Box::new(sandbox)))
        }
        Ok(Err(error)) => match unfinished.delete().await {
            Ok(()) => Err(error),
            Err(left) => Err(with_hint(error, left.hint())),
        },
        Err(why) => {
            let deleted = unfinished.delete().await;
            let left_behind = deleted.err().map(|left| left.name);
            Ok(Creation::CalledOff { why, left_behind })
        }
    }
}

/// Finds a sandbox again that was made before, by id or name.
///
/// # Errors
///
/// [`SandboxError::Invalid`] for one that is not there or was not made by Holm.
pub async fn attach_daytona_sandbox(name: &str, options: SandboxOptions) -> Result<DaytonaSandbox> {
    let client = options.daytona.client()?;
    let found = client.find(name).await;
    let found = found.map_err(|error| remote(format!("find sandbox `{name}`"), error))?;
    let unknown = |hint: &str| SandboxError::Invalid {
        what: format!("there is no sandbox `{name}`"),
        hint: hint.to_owned(),
    };
    let record =
        found.ok_or_else(|| unknown("`holm sandbox list --sandbox daytona` shows them"))?;
    client
        .start(&record.id)
        .await
        .map_err(|error| remote(format!("start sandbox `{name}`"), error))?;
    let started = client.wait_until_started(&record.id, START_PATIENCE).await;
    let record = started.map_err(|error| remote(format!("start sandbox `{name}`"), error))?;
    let toolbox = toolbox_of(&client, &record).await?;
    let label = |name: &str| record.labels.get(name).cloned();
    let repository = match (label(LABEL_REPOSITORY), label(LABEL_BRANCH)) {
        (Some(repo), Some(branch)) => {
            let repo = parse_github_repo(&repo)?;
            check_branch(&branch)?;
            let folder = work_dir(Some(&repo));
            let base = base_of(&toolbox, &folder).await?;
            Some(repository(repo, branch, base, &options))
        }
        _ => None,
    };
    Ok(sandbox(toolbox, record, repository, &options))
}

fn repository_of(options: &SandboxOptions) -> Result<Option<GitHubRepo>> {
    let Some(repo) = &options.repo else {
        return Ok(None);
    };
    if is_local_path(repo) {
        return Err(SandboxError::Invalid {
            what: LOCAL_PATH.to_owned(),
            hint: "push the repository to GitHub, or use `--sandbox local`".to_owned(),
        });
    }
    check_branch(&options.branch)?;
    parse_github_repo(repo).map(Some)
}

fn request(options: &SandboxOptions, repo: Option<&GitHubRepo>) -> CreateSandbox {
    let daytona = &options.daytona;
    let given = [
        (LABEL_RUN, daytona.labels.run.clone()),
        (LABEL_THREAD, daytona.labels.thread.clone()),
        (LABEL_ENVIRONMENT, daytona.labels.environment.clone()),
        (LABEL_REPOSITORY, repo.map(ToString::to_string)),
        (LABEL_BRANCH, repo.map(|_| options.branch.clone())),
    ];
    let labels: StringMap = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    let (auto_stop, auto_delete) = daytona.intervals();
    let or = |value: &Option<String>, default: &str| {
        Some(value.clone().unwrap_or_else(|| default.to_owned()))
    };
    CreateSandbox {
        name: daytona.name.clone(),
        snapshot: or(&daytona.snapshot, DEFAULT_SNAPSHOT),
        target: or(&daytona.target, DEFAULT_TARGET),
        labels,
        auto_stop_interval: Some(auto_stop),
        auto_delete_interval: Some(auto_delete),
        network_allow_list: daytona.network_allow_list.clone(),
        ..CreateSandbox::default()
    }
}

async fn bootstrap(
    client: &Client,
    record: &Record,
    options: &SandboxOptions,
    repo: Option<GitHubRepo>,
) -> Result<DaytonaSandbox> {
    resize(client, record, options).await;
    let toolbox = toolbox_of(client, record).await?;
    let folder = work_dir(repo.as_ref());
    let path = folder.to_string_lossy().into_owned();
    let Some(repo) = repo else {
        let made = toolbox.files().create_folder(&path, "755").await;
        made.map_err(|error| remote("make the sandbox's work folder", error))?;
        return Ok(sandbox(toolbox, record.clone(), None, options));
    };
    let git = toolbox.git();
    let clone = GitCloneRequest {
        url: options.daytona.github.clone_url(&repo),
        path: path.clone(),
        ..GitCloneRequest::default()
    };
    let token = options
        .github_token
        .clone()
        .filter(|token| !token.is_empty());
    let credentials = token.map(|token| Credentials::new(GIT_USER, token));
    git.clone(clone, credentials.as_ref())
        .await
        .map_err(|error| not_cloned(&repo, error))?;
    let failed = |error| remote(format!("make branch `{}`", options.branch), error);
    git.create_branch(&path, &options.branch)
        .await
        .map_err(failed)?;
    git.checkout(&path, &options.branch).await.map_err(failed)?;
    let base = base_of(&toolbox, &folder).await?;
    let repository = repository(repo, options.branch.clone(), base, options);
    Ok(sandbox(toolbox, record.clone(), Some(repository), options))
}

/// Not every snapshot can be resized; one that cannot stays as it is.
async fn resize(client: &Client, record: &Record, options: &SandboxOptions) {
    let Some(resources) = options.daytona.resources else {
        return;
    };
    let size = ResizeSandbox {
        cpu: resources.cpu,
        memory: resources.memory,
        disk: resources.disk,
    };
    if let Err(error) = client.resize(&record.id, &size).await {
        tracing::warn!(sandbox = record.id, %error, "the sandbox keeps the size of its snapshot");
    }
}

async fn toolbox_of(client: &Client, record: &Record) -> Result<Toolbox> {
    let toolbox = client.toolbox(record).await;
    toolbox.map_err(|error| remote("reach the sandbox", error))
}

/// We choose it, so nothing has to be asked for.
fn work_dir(repo: Option<&GitHubRepo>) -> PathBuf {
    PathBuf::from(WORKSPACE).join(repo.map_or(PLAIN_FOLDER, |repo| &repo.name))
}

/// The commit that the work began with. It is kept under a name of its own, for whoever finds the sandbox again.
async fn base_of(toolbox: &Toolbox, folder: &std::path::Path) -> Result<String> {
    let doing = "find the commit that the sandbox begins with";
    let script = "git rev-parse --quiet --verify refs/holm/base || \
                  { git update-ref refs/holm/base HEAD && git rev-parse refs/holm/base; }";
    let argv = ["sh", "-c", script];
    let asking = || inside::program(toolbox, doing, folder, &argv);
    let said = again(asking).await?;
    commit_in(&said).ok_or_else(|| SandboxError::Git {
        doing: doing.to_owned(),
        detail: said.trim().to_owned(),
        hint: None,
    })
}

fn repository(
    repo: GitHubRepo,
    branch: String,
    base: String,
    options: &SandboxOptions,
) -> Repository {
    Repository {
        repo,
        branch,
        base,
        github: options.daytona.github.clone(),
        token: options.github_token.clone(),
        snapshots: Mutex::default(),
        default_branch: tokio::sync::OnceCell::new(),
    }
}

fn sandbox(
    toolbox: Toolbox,
    record: Record,
    repository: Option<Repository>,
    options: &SandboxOptions,
) -> DaytonaSandbox {
    let work_dir = work_dir(repository.as_ref().map(|repository| &repository.repo));
    DaytonaSandbox {
        inner: std::sync::Arc::new(Inner {
            toolbox,
            stage: format!("{WORKSPACE}/.holm"),
            state: Mutex::new(State::new(&work_dir)),
            work_dir,
            id: record.id,
            name: record.name,
            repository,
            bundles: options.daytona.bundles.clone(),
            way: options.daytona.exec,
            github_token: options.github_token.clone(),
            ended: tokio::sync::OnceCell::new(),
        }),
    }
}
