//! A sandbox on its way, which is deleted unless it gets there.
//!
//! The request is a task of its own: it is not given up in the middle, since the server would go on and leave a sandbox behind.
//! Whoever goes away leaves the clearing away to the runtime; whoever has the time waits for it, which is bounded.

use std::time::Duration;

use holm_daytona_client::wire::sandbox::{CreateSandbox, Sandbox as Record, SandboxState};
use holm_daytona_client::{Client, ClientError, PreparedCreate};
use tokio::task::JoinHandle;

/// For the answer to a request that nobody wants any more. Then its sandbox is looked for by name.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// For all of the clearing away.
const DISCARD_PATIENCE: Duration = Duration::from_secs(15);

type Creating = JoinHandle<Result<Record, ClientError>>;

#[derive(Debug)]
pub(super) struct Unfinished {
    client: Client,
    prepared: PreparedCreate,
    creating: Option<Creating>,
    is_armed: bool,
}

/// A sandbox that could not be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftBehind {
    pub(super) name: String,
}

impl LeftBehind {
    pub(super) fn hint(&self) -> String {
        let name = &self.name;
        format!(
            "a sandbox may be left behind: `holm sandbox rm --sandbox daytona --discard {name}`"
        )
    }
}

impl Unfinished {
    pub(super) fn begin(client: &Client, request: CreateSandbox) -> Self {
        let prepared = PreparedCreate::new(request);
        let (asking, wanted) = (client.clone(), prepared.clone());
        let creating = tokio::spawn(async move { asking.create_prepared(&wanted).await });
        Self {
            client: client.clone(),
            prepared,
            creating: Some(creating),
            is_armed: true,
        }
    }

    /// Waits until it has started.
    pub(super) async fn started(&mut self, patience: Duration) -> Result<Record, ClientError> {
        let made = self.made().await?;
        if made.state == Some(SandboxState::Started) {
            return Ok(made);
        }
        self.client.wait_until_started(&made.id, patience).await
    }

    async fn made(&mut self) -> Result<Record, ClientError> {
        let Some(creating) = &mut self.creating else {
            return self.client.get(self.prepared.name()).await;
        };
        let made = creating
            .await
            .unwrap_or_else(|error| Err(abandoned(error.into())));
        self.creating = None;
        if made.as_ref().is_err_and(|error| !error.may_have_happened()) {
            // There is nothing to delete.
            self.is_armed = false;
        }
        made
    }

    /// It is somebody else's to delete now.
    pub(super) fn finished(mut self) {
        self.is_armed = false;
    }

    /// Deletes what there is of it.
    pub(super) async fn delete(mut self) -> Result<(), LeftBehind> {
        if !self.is_armed {
            return Ok(());
        }
        // From here on in a task of its own, in case that nobody waits for this either.
        self.is_armed = false;
        let clearing = self.clear_away();
        let name = self.prepared.name().to_owned();
        let cleared = tokio::spawn(clearing).await;
        cleared.unwrap_or(Err(LeftBehind { name }))
    }

    fn clear_away(&mut self) -> impl Future<Output = Result<(), LeftBehind>> + Send + use<> {
        let creating = self.creating.take();
        let (client, prepared) = (self.client.clone(), self.prepared.clone());
        async move {
            let discarding = async {
                if let Some(creating) = creating {
                    // What it comes to is looked up below.
                    drop(tokio::time::timeout(ANSWER_PATIENCE, creating).await);
                }
                client.discard_prepared(&prepared).await
            };
            let name = prepared.name();
            match tokio::time::timeout(DISCARD_PATIENCE, discarding).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => tracing::warn!(name, %error, "a sandbox may be left behind"),
                Err(_elapsed) => tracing::warn!(name, "a sandbox may be left behind"),
            }
            Err(LeftBehind {
                name: name.to_owned(),
            })
        }
    }
}

fn abandoned(source: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
    ClientError::Interrupted {
        action: "create a sandbox".to_owned(),
        source,
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        // Outside of a runtime nobody is left to do it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(self.clear_away()));
        }
    }
}
