//! Copies of a sandbox's files: forks and snapshots. Processes are not copied.

use std::sync::Arc;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;

use super::lifecycle::{enter, to_the_end};
use super::phase::Phase;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::keys::random_token;
use crate::machines::{MakeError, Making};
use crate::records::{SandboxRecord, SnapshotRecord};
use crate::snapshots::add_snapshot;

/// Layers that a saved sandbox may stand on: each snapshot of a sandbox adds one.
const LAYERS_MAX: usize = 64;

impl Sandboxes {
    /// Makes a sandbox with the same files, which from then on goes its own way.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        name: Option<String>,
    ) -> Result<Arc<Sandbox>> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
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
            // Before the copy, which takes its time: who comes second learns it at once.
            let reservation = sandboxes.reserve(&record)?;
            // The source may be deleted when it is copied, and take them along.
            let _pinned = sandboxes.pin(record.stands_on()).await?;
            let from = sandbox.id.clone();
            let copied = sandboxes.while_still(&sandbox, move |making| {
                making.copy_to_sandbox(&from, &id).map(drop)
            });
            if let Err(error) = copied.await {
                sandboxes.remove_traces(&record.id);
                return Err(error);
            }
            sandboxes.create_reserved(record, reservation).await
        })
        .await
    }

    /// Makes a snapshot of a sandbox's files, for the same organisation.
    pub(crate) async fn save(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        name: String,
    ) -> Result<SnapshotRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let source = sandbox.record();
            if source.layers.len() >= LAYERS_MAX {
                return Err(ApiError::new(
                    ErrorCode::UnprocessableEntity,
                    format!(
                        "Sandbox stands on {LAYERS_MAX} snapshots of snapshots already: make a new one from an image"
                    ),
                ));
            }
            let layer = holm_sandbox_linux::random_hex();
            // Nothing names the new layer until the snapshot is in the store, and the sandbox may be deleted meanwhile
            // with what it stands on.
            let mut needed = source.stands_on();
            needed.push(layer.clone());
            let _pinned = sandboxes.pin(needed).await?;
            let saved = sandboxes.save_as(&sandbox, source, name, &layer).await;
            if saved.is_err() {
                let folder = sandboxes.making.config.layers().join(&layer);
                sandboxes.making.throw_away(&folder);
            }
            saved
        })
        .await
    }

    async fn save_as(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        source: SandboxRecord,
        name: String,
        layer: &str,
    ) -> Result<SnapshotRecord> {
        let (from, to) = (sandbox.id.clone(), layer.to_owned());
        let report = self
            .while_still(sandbox, move |making| making.copy_to_layer(&from, &to))
            .await?;
        let ids = self.ids(&sandbox.organization)?;
        let now = clock::now();
        let mut layers = vec![layer.to_owned()];
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
        let stored =
            tokio::task::spawn_blocking(move || add_snapshot(&store, &record).map(|()| record));
        stored.await?
    }

    /// Works on a sandbox's files while none of its processes does.
    async fn while_still<T: Send + 'static>(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        work: impl FnOnce(&Making) -> Result<T, MakeError> + Send + 'static,
    ) -> Result<T> {
        let _gate = enter(sandbox)?;
        let state = sandbox.state();
        let machine = match Phase::of(&state) {
            Phase::Running => Some(sandbox.machine()?),
            Phase::Stopped | Phase::Archived | Phase::Frozen => None,
            Phase::Leaving | Phase::Unready => {
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
            let thawed = match (machine, frozen) {
                (Some(machine), Some(Ok(()))) => machine.inner().thaw(),
                (_, _) => Ok(()),
            };
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
