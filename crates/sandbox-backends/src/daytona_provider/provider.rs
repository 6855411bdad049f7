//! One provider: who starts the sandbox, who waits, who ends it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_daytona_client::{Client, PreparedCreate};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::config::ProviderConfig;
use super::error::{ProviderError, Result, StartError};
use super::live::Live;
use super::{registry, start};

/// A sandbox that is made when it is first needed. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Provider {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ProviderConfig,
    client: Client,
    phase: Mutex<Phase>,
    /// Ends a start that is under way.
    cancel: CancellationToken,
}

type Started = Option<std::result::Result<Arc<Live>, Arc<StartError>>>;

#[derive(Debug)]
enum Phase {
    Idle,
    Starting {
        started: watch::Receiver<Started>,
        /// By which its sandbox is found if nobody hears of it.
        prepared: Arc<PreparedCreate>,
    },
    Ready(Arc<Live>),
    Closed(watch::Receiver<Option<ShutdownReport>>),
}

/// What became of the sandbox at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShutdownReport {
    /// There was none.
    NothingToDo,
    Deleted {
        sandbox: String,
    },
    /// It may still be there. It stops by itself if the configuration lets it, and is deleted then.
    LeftBehind {
        sandbox: Option<String>,
        reason: String,
    },
}

impl Provider {
    /// The provider of this process for a configuration: the same one for everyone, until it is shut down.
    pub fn shared(config: ProviderConfig) -> Result<Self> {
        registry::shared(config)
    }

    /// One that nobody else has. Nothing is asked of the server yet.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let client = Client::new(config.settings.clone())?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                client,
                phase: Mutex::new(Phase::Idle),
                cancel: CancellationToken::new(),
            }),
        })
    }

    pub fn config(&self) -> &ProviderConfig {
        &self.inner.config
    }

    /// Starts the sandbox if it has not started, and waits until it can be used; gives its id. Setting up the workspace goes on.
    pub async fn ready(&self) -> Result<String> {
        Ok(self.live().await?.id().to_owned())
    }

    /// Where a path is in the sandbox.
    pub async fn map_path(&self, path: &Path) -> Result<String> {
        Ok(self.live().await?.mapper().map(path)?)
    }

    /// Whether [`Provider::shutdown`] was called.
    pub fn is_closed(&self) -> bool {
        matches!(*self.inner.phase(), Phase::Closed(_))
    }

    pub(super) async fn live(&self) -> Result<Arc<Live>> {
        let mut started = {
            let mut phase = self.inner.phase();
            match &*phase {
                Phase::Ready(live) => return Ok(Arc::clone(live)),
                Phase::Closed(_) => return Err(ProviderError::Closed),
                // A start whose runtime has ended will not come to its end.
                Phase::Starting { started, .. } if started.has_changed().is_ok() => started.clone(),
                Phase::Starting { .. } | Phase::Idle => {
                    let (sender, started) = watch::channel(None);
                    let prepared =
                        Arc::new(PreparedCreate::new(start::request(&self.inner.config)));
                    // A task of its own: the caller may go away, and others wait too.
                    tokio::spawn(start_up(
                        Arc::clone(&self.inner),
                        Arc::clone(&prepared),
                        sender,
                    ));
                    *phase = Phase::Starting {
                        started: started.clone(),
                        prepared,
                    };
                    started
                }
            }
        };
        let failed = |source| Err(ProviderError::Start { source });
        match started.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(live))) => Ok(Arc::clone(live)),
            Ok(Some(Err(error))) if matches!(**error, StartError::Cancelled) => {
                Err(ProviderError::Closed)
            }
            Ok(Some(Err(error))) => failed(Arc::clone(error)),
            Ok(None) | Err(_) => failed(Arc::new(StartError::Abandoned)),
        }
    }

    /// Deletes the sandbox, and ends a start that is under way. Comes back within the deadline; what is not done by then goes
    /// on as long as the runtime does. Whoever calls it again waits for the same end.
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let mut report = {
            let mut phase = self.inner.phase();
            if let Phase::Closed(report) = &*phase {
                report.clone()
            } else {
                let (sender, receiver) = watch::channel(None);
                let before = std::mem::replace(&mut *phase, Phase::Closed(receiver.clone()));
                self.inner.cancel.cancel();
                let inner = Arc::clone(&self.inner);
                tokio::spawn(async move {
                    sender.send_replace(Some(clear_away(&inner, before, deadline).await));
                });
                receiver
            }
        };
        registry::forget(self);
        let too_late = || ShutdownReport::LeftBehind {
            sandbox: None,
            reason: format!("it was not deleted within {deadline:?}"),
        };
        match tokio::time::timeout(deadline, report.wait_for(Option::is_some)).await {
            Ok(Ok(report)) => report.clone().unwrap_or_else(too_late),
            Ok(Err(_)) | Err(_) => too_late(),
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Inner {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn start_up(
    inner: Arc<Inner>,
    prepared: Arc<PreparedCreate>,
    sender: watch::Sender<Started>,
) {
    let after = inner.config.start_timeout;
    let mut creating = start::create(&inner.client, &prepared);
    let starting = start::start(&inner.client, &inner.config, &prepared, &mut creating);
    let outcome = tokio::select! {
        biased;
        () = inner.cancel.cancelled() => Err(StartError::Cancelled),
        outcome = tokio::time::timeout(after, starting) => {
            outcome.unwrap_or(Err(StartError::Timeout { after }))
        }
    };
    if let Err(error) = &outcome {
        tracing::debug!(%error, name = prepared.name(), "the start of a sandbox failed");
        start::discard(&inner.client, &prepared, creating).await;
    }
    let outcome = outcome.map(Arc::new).map_err(Arc::new);
    {
        let mut phase = inner.phase();
        // Whoever shuts down waits for this outcome, and deletes what is in it.
        if !matches!(*phase, Phase::Closed(_)) {
            *phase = match &outcome {
                Ok(live) => Phase::Ready(Arc::clone(live)),
                Err(_) => Phase::Idle,
            };
        }
    }
    sender.send_replace(Some(outcome));
}

async fn clear_away(inner: &Inner, before: Phase, deadline: Duration) -> ShutdownReport {
    // Connections of its own: the others may belong to a runtime that has ended, or that waits for this.
    let client =
        Client::new(inner.config.settings.clone()).unwrap_or_else(|_| inner.client.clone());
    let sandbox = match before {
        Phase::Idle | Phase::Closed(_) => return ShutdownReport::NothingToDo,
        Phase::Ready(live) => live.id().to_owned(),
        Phase::Starting {
            mut started,
            prepared,
        } => {
            let waiting = started.wait_for(Option::is_some);
            match tokio::time::timeout(deadline / 2, waiting).await {
                Ok(Ok(outcome)) => match &*outcome {
                    Some(Ok(live)) => live.id().to_owned(),
                    // A start that fails leaves nothing behind.
                    Some(Err(_)) | None => return ShutdownReport::NothingToDo,
                },
                // Its runtime has ended in the middle of it, or does not come to it.
                Ok(Err(_)) | Err(_) => prepared.name().to_owned(),
            }
        }
    };
    match tokio::time::timeout(deadline, client.delete(&sandbox)).await {
        Ok(Ok(_)) => ShutdownReport::Deleted { sandbox },
        Ok(Err(error)) => {
            tracing::warn!(sandbox, %error, "a sandbox could not be deleted");
            ShutdownReport::LeftBehind {
                reason: error.to_string(),
                sandbox: Some(sandbox),
            }
        }
        Err(_elapsed) => {
            tracing::warn!(sandbox, ?deadline, "a sandbox was not deleted in time");
            ShutdownReport::LeftBehind {
                reason: format!("it was not deleted within {deadline:?}"),
                sandbox: Some(sandbox),
            }
        }
    }
}
