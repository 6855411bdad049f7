//! Copies of a sandbox's files: forks and snapshots. Processes are not copied.

use std::sync::Arc;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;

use super::create::NewSandbox;
use super::lifecycle::enter;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::keys::random_token;
use crate::machines::{MakeError, Making};
use crate::records::{SandboxRecord, SnapshotRecord};

impl Sandboxes {
    /// Makes a sandbox with the same files, which from then on goes its own way.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        name: Option<String>,
    ) -> Result<Arc<Sandbox>> {
        let source = sandbox.record();
        let id = uuid::Uuid::new_v4().to_string();
        let now = clock::now();
        let record = SandboxRecord {
            name: name.unwrap_or_else(|| id.clone()),
            id: id.clone(),
            state: SandboxState::Creating,
            error_reason: None,
            created_at: now,
            updated_at: now,
            last_activity_at: now,
            auth_token: Hidden::new(random_token()),
            signing_key: Hidden::new(random_token()),
            running: None,
            ..source
        };
        let from = sandbox.id.clone();
        self.while_still(sandbox, move |making| {
            making.copy_to_sandbox(&from, &id).map(drop)
        })
        .await
        .inspect_err(|_| self.remove_traces(&record.id))?;
        let id = record.id.clone();
        // A name that is taken is found out only now, when the copy is there.
        self.create(NewSandbox { record })
            .await
            .inspect_err(|_| self.remove_traces(&id))
    }

    /// Saves the files of a sandbox as a snapshot.
    pub(crate) async fn save(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        name: String,
    ) -> Result<SnapshotRecord> {
        let source = sandbox.record();
        let layer = uuid::Uuid::new_v4().to_string();
        let (from, to) = (sandbox.id.clone(), layer.clone());
        let (making, pin) = (Arc::clone(&self.making), vec![layer.clone()]);
        let pinned = tokio::task::spawn_blocking(move || making.pin(pin)).await?;
        let report = self
            .while_still(sandbox, move |making| making.copy_to_layer(&from, &to))
            .await?;
        let ids = self.ids(&sandbox.organization)?;
        let now = clock::now();
        let mut layers = vec![layer];
        layers.extend(source.layers);
        let record = SnapshotRecord {
            id: uuid::Uuid::new_v4().to_string(),
            organization: sandbox.organization.clone(),
            name,
            state: SnapshotState::Active,
            foundation: source.foundation,
            layers,
            layers_id_range: ids.index(),
            image_name: None,
            image_user: Some(source.user),
            entrypoint: Vec::new(),
            dockerfile: None,
            resources: source.resources,
            size_bytes: report.bytes,
            error_reason: None,
            created_at: now,
            updated_at: now,
            last_used_at: None,
            source_sandbox: Some(sandbox.id.clone()),
        };
        let store = Arc::clone(&self.store);
        let stored = tokio::task::spawn_blocking(move || store.put(&record).map(|()| record));
        let stored = stored.await??;
        drop(pinned);
        Ok(stored)
    }

    /// Works on a sandbox's files while none of its processes does.
    async fn while_still<T: Send + 'static>(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        work: impl FnOnce(&Making) -> Result<T, MakeError> + Send + 'static,
    ) -> Result<T> {
        let _gate = enter(sandbox)?;
        let machine = match sandbox.state() {
            SandboxState::Started => Some(sandbox.machine()?),
            SandboxState::Stopped | SandboxState::Archived | SandboxState::Paused => None,
            state => {
                return Err(ApiError::conflict(format!(
                    "Sandbox cannot be copied in the state {state}"
                )));
            }
        };
        let making = Arc::clone(&self.making);
        let worked = tokio::task::spawn_blocking(move || {
            let frozen = machine.as_ref().map(|machine| machine.inner().freeze());
            // A host without a freezer: the copy is of files that may change meanwhile, as with any backup.
            if let Some(Err(error)) = &frozen {
                tracing::warn!(
                    error = crate::error::chain(error),
                    "a sandbox is copied while it runs"
                );
            }
            let worked = work(&making);
            let thawed = machine.map_or(Ok(()), |machine| machine.inner().thaw());
            let worked = worked.map_err(|error| {
                let message = format!(
                    "the files could not be copied: {}",
                    crate::error::chain(&error)
                );
                ApiError::internal(message, error)
            })?;
            thawed?;
            Ok::<T, ApiError>(worked)
        });
        worked.await?
    }
}
