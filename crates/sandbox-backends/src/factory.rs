//! Choosing a backend by name.

use std::sync::Arc;

use holm_sandbox::{BackendKind, Result, Sandbox, SandboxError, Secret};

use crate::daytona::{DaytonaOptions, SandboxOptions, create_daytona_sandbox};
use crate::local::{CreateOptions, LocalRuntime, Source};

/// What the backends need; each takes its own part.
#[derive(Debug, Clone)]
pub struct SandboxFactory {
    pub local: Arc<LocalRuntime>,
    pub daytona: DaytonaOptions,
    /// For repositories of GitHub, where the sandbox is on another machine.
    pub github_token: Option<Secret>,
}

/// Makes a sandbox in the chosen backend. A backend that is not built yet says so.
///
/// # Errors
///
/// What the backend says, and [`SandboxError::NotYetBuilt`].
pub async fn create(
    factory: &SandboxFactory,
    kind: BackendKind,
    options: &CreateOptions,
) -> Result<Box<dyn Sandbox>> {
    match (kind, kind.not_yet_built()) {
        (_, Some(error)) => Err(error),
        (BackendKind::Daytona, None) => {
            let sandbox = create_daytona_sandbox(remote(factory, options)).await?;
            Ok(Box::new(sandbox))
        }
        (BackendKind::Local | BackendKind::Docker | BackendKind::Dagger, None) => {
            let (local, options) = (Arc::clone(&factory.local), options.clone());
            let made = tokio::task::spawn_blocking(move || local.create(&options)).await;
            let made = made.map_err(|error| SandboxError::Backend {
                doing: "create a sandbox".to_owned(),
                hint: None,
                source: Box::new(error),
            })?;
            Ok(Box::new(made?))
        }
    }
}

/// A source is a repository of GitHub there. Isolation, limits and network are the server's.
fn remote(factory: &SandboxFactory, options: &CreateOptions) -> SandboxOptions {
    let (repo, branch) = match &options.source {
        Source::Empty => (None, None),
        // Refused with the backend's own words: it is a path of this machine.
        Source::Directory(path) => (Some(path.join("")), None),
        Source::Repository { path, branch } => (Some(path.clone()), branch.clone()),
    };
    let mut daytona = factory.daytona.clone();
    daytona.name = options.name.clone();
    SandboxOptions {
        repo: repo.map(|path| path.to_string_lossy().into_owned()),
        branch: branch.unwrap_or_else(|| format!("holm/{}", holm_sandbox_linux::random_hex())),
        operation_timeout: None,
        daytona,
        github_token: factory.github_token.clone(),
    }
}
