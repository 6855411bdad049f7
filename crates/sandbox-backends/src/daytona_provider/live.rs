//! A sandbox that has started: its toolbox, its paths, and what wakes it up again.

use std::future::Future;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holm_daytona_client::wire::sandbox::SandboxState;
use holm_daytona_client::{Client, ClientError, Toolbox};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::config::ProviderConfig;
use super::error::{ProviderError, Result, StartError};
use super::paths::PathMapper;
use super::remote;

/// Starting again what was stopped.
const WAKE_PATIENCE: Duration = Duration::from_secs(120);
/// For making the workspace, which is one call.
const SETUP_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Live {
    client: Client,
    id: String,
    /// Its address may change when the sandbox is started again.
    toolbox: Mutex<Toolbox>,
    home: String,
    mapper: PathMapper,
    file_bytes_max: usize,
    /// Whoever has its permit carries out a patch.
    patches: Semaphore,
    /// What came of setting up the workspace, once that is known.
    setup: watch::Receiver<Option<Result<(), String>>>,
}

impl Live {
    /// Sets up the workspace behind the caller's back.
    pub(super) fn new(
        client: Client,
        toolbox: Toolbox,
        home: &str,
        config: &ProviderConfig,
    ) -> Result<Self, StartError> {
        let workspace = holm_sandbox::confine(Path::new(home), Path::new(&config.workspace))?;
        let mapper = PathMapper::new(workspace, config.local_roots.clone())?;
        let folder = mapper.map(Path::new(""))?;
        let (sender, setup) = watch::channel(None);
        let background = toolbox.clone();
        tokio::spawn(async move {
            let outcome = set_up(&background, &folder).await;
            if let Err(problem) = &outcome {
                tracing::warn!(folder, problem, "the workspace could not be set up");
            }
            sender.send_replace(Some(outcome));
        });
        Ok(Self {
            id: toolbox.sandbox().to_owned(),
            client,
            toolbox: Mutex::new(toolbox),
            home: home.to_owned(),
            mapper,
            file_bytes_max: config.file_bytes_max,
            patches: Semaphore::new(1),
            setup,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn home(&self) -> &str {
        &self.home
    }

    pub(super) fn mapper(&self) -> &PathMapper {
        &self.mapper
    }

    pub(super) fn file_bytes_max(&self) -> usize {
        self.file_bytes_max
    }

    /// The workspace, absolute in the sandbox.
    pub(super) fn workspace(&self) -> Result<String> {
        Ok(self.mapper.map(Path::new(""))?)
    }

    /// Waits until no other patch is carried out; `None` cannot be, since nobody closes it.
    pub(super) async fn patch_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.patches.acquire().await.ok()
    }

    pub(super) fn toolbox(&self) -> Toolbox {
        self.toolbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until the workspace is there; one that failed in the background is tried again here.
    pub(super) async fn workspace_is_set_up(&self) -> Result<()> {
        let mut setup = self.setup.clone();
        let waiting = setup.wait_for(Option::is_some);
        let is_done = match tokio::time::timeout(SETUP_PATIENCE, waiting).await {
            Ok(Ok(outcome)) => matches!(*outcome, Some(Ok(()))),
            Ok(Err(_)) | Err(_) => false,
        };
        if is_done {
            return Ok(());
        }
        let path = self.workspace()?;
        let again = set_up(&self.toolbox(), &path).await;
        again.map_err(|problem| ProviderError::Workspace { path, problem })
    }

    /// A call of the toolbox. If the sandbox was stopped meanwhile, it is started and the call is made again: it was refused, so
    /// that nothing has happened yet.
    pub(super) async fn call<T, F>(&self, work: impl Fn(Toolbox) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        match work(self.toolbox()).await {
            Ok(done) => Ok(done),
            Err(error) if self.was_asleep(&error).await? => {
                tracing::info!(sandbox = self.id, "starting a sandbox that was stopped");
                let sandbox = self.client.start_and_wait(&self.id, WAKE_PATIENCE).await?;
                let toolbox = self.client.toolbox(&sandbox).await?;
                *self.toolbox.lock().unwrap_or_else(PoisonError::into_inner) = toolbox;
                Ok(work(self.toolbox()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a call failed because the sandbox does not run.
    async fn was_asleep(&self, error: &ClientError) -> Result<bool> {
        // What servers answer for a sandbox that is not started; a call that may have been carried out is not made again.
        if !matches!(error.status(), Some(400 | 404 | 409)) {
            return Ok(false);
        }
        let Ok(found) = self.client.find(&self.id).await else {
            return Ok(false);
        };
        let state = found.map_or(SandboxState::Destroyed, |sandbox| {
            sandbox.state.unwrap_or_default()
        });
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "all other states are neither asleep nor gone, those of later servers too"
        )]
        match state {
            SandboxState::Stopped
            | SandboxState::Stopping
            | SandboxState::Archived
            | SandboxState::Archiving => Ok(true),
            SandboxState::Destroyed
            | SandboxState::Destroying
            | SandboxState::Error
            | SandboxState::BuildFailed => Err(ProviderError::Gone {
                sandbox: self.id.clone(),
                state: state.as_str().to_owned(),
            }),
            _ => Ok(false),
        }
    }
}

/// Makes the workspace, by a command if the files' API will not.
async fn set_up(toolbox: &Toolbox, folder: &str) -> Result<(), String> {
    let Err(error) = toolbox.files().create_folder(folder, "755").await else {
        return Ok(());
    };
    tracing::debug!(folder, %error, "making the workspace by a command instead");
    let made = remote::run(toolbox, "mkdir -p -- \"$1\"", &[folder]).await;
    match made {
        Ok(answer) if answer.exit_code == 0 => Ok(()),
        Ok(answer) => Err(answer.result.trim().to_owned()),
        Err(_) => Err(error.to_string()),
    }
}
