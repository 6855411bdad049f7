//! Sandboxes that wait for their image.

use std::sync::Arc;

use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;

use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::builds::{Builds, Stage};
use crate::error::Result;
use crate::machines::Activity;
use crate::records::{SandboxRecord, SnapshotRecord};

impl Sandboxes {
    /// Writes a sandbox down whose image is being built, and starts it when the image is there.
    pub(crate) async fn create_pending(
        self: &Arc<Self>,
        record: SandboxRecord,
        builds: &Arc<Builds>,
    ) -> Result<Arc<Sandbox>> {
        self.reserve(&record)?;
        let store = Arc::clone(&self.store);
        let stored = tokio::task::spawn_blocking(move || {
            let stored = store.put(&record);
            (record, stored)
        });
        let (record, stored) = stored.await?;
        if let Err(error) = stored {
            self.release(&record);
            return Err(error.into());
        }
        let sandbox = Sandbox::new(record.clone(), Activity::since(record.created_at));
        self.insert(&sandbox);
        self.tell(&record, None);
        self.wait_for_build(&sandbox, builds);
        Ok(sandbox)
    }

    /// Goes on waiting where an earlier life of the server was.
    pub(crate) fn wait_for_builds(self: &Arc<Self>, builds: &Arc<Builds>) {
        for sandbox in self.all() {
            if sandbox.state() == SandboxState::PendingBuild {
                self.wait_for_build(&sandbox, builds);
            }
        }
    }

    fn wait_for_build(self: &Arc<Self>, sandbox: &Arc<Sandbox>, builds: &Arc<Builds>) {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let snapshot = sandbox
            .peek(|record| record.build.clone())
            .unwrap_or_default();
        let mut stage = builds.stage(&snapshot);
        tokio::spawn(async move {
            // The sender is gone: as good as done.
            drop(stage.wait_for(|stage| *stage == Stage::Done).await);
            if let Err(error) = sandboxes.start_built(&sandbox, &snapshot).await {
                tracing::warn!(
                    sandbox = sandbox.id,
                    error = error.message,
                    "a built sandbox did not start"
                );
                let failed = sandboxes.update(&sandbox, |record| {
                    record.state = SandboxState::Error;
                    record.error_reason = Some(error.message);
                });
                if let Err(error) = failed.await {
                    tracing::error!(
                        sandbox = sandbox.id,
                        error = error.message,
                        "a failure was not noted"
                    );
                }
            }
        });
    }

    async fn start_built(self: &Arc<Self>, sandbox: &Arc<Sandbox>, snapshot: &str) -> Result<()> {
        if self.by_id(&sandbox.id).is_none() {
            // Deleted meanwhile.
            return Ok(());
        }
        let found: Option<SnapshotRecord> = self.store.get(snapshot)?;
        let active = found
            .as_ref()
            .filter(|found| found.state == SnapshotState::Active);
        let Some(built) = active else {
            let reason = found.and_then(|found| found.error_reason);
            self.update(sandbox, |record| {
                record.state = SandboxState::BuildFailed;
                record.error_reason =
                    Some(reason.unwrap_or_else(|| "the image of the sandbox is gone".into()));
            })
            .await?;
            return Ok(());
        };
        self.update(sandbox, |record| {
            record.foundation = built.foundation.clone();
            if record.user.is_empty() {
                record.user = built.image_user.clone().unwrap_or_else(|| "root".into());
            }
            record.state = SandboxState::Stopped;
        })
        .await?;
        self.start(sandbox).await?;
        Ok(())
    }
}
