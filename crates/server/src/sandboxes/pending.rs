//! Sandboxes that wait for their image.

use std::sync::Arc;

use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;

use super::lifecycle::to_the_end;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::builds::{Builds, Stage};
use crate::error::Result;
use crate::machines::Activity;
use crate::records::{SandboxRecord, SnapshotRecord};
use crate::snapshots::note_use;

/// Whom an image's processes run as if it does not say.
const ROOT: &str = "root";

impl Sandboxes {
    /// Writes a sandbox down whose image is being built, and starts it when the image is there.
    pub(crate) async fn create_pending(
        self: &Arc<Self>,
        record: SandboxRecord,
        builds: &Arc<Builds>,
    ) -> Result<Arc<Sandbox>> {
        let reservation = self.reserve(&record)?;
        let (sandboxes, builds) = (Arc::clone(self), Arc::clone(builds));
        to_the_end(async move {
            let store = Arc::clone(&sandboxes.store);
            let stored = tokio::task::spawn_blocking(move || store.put(&record).map(|()| record));
            let record = stored.await??;
            let sandbox = Sandbox::new(record.clone(), Activity::since(record.created_at));
            sandboxes.insert(&sandbox);
            drop(reservation);
            sandboxes.tell(&record, None);
            sandboxes.wait_for_build(&sandbox, &builds);
            Ok(sandbox)
        })
        .await
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
            }
        });
    }

    async fn start_built(self: &Arc<Self>, sandbox: &Arc<Sandbox>, snapshot: &str) -> Result<()> {
        if self.by_id(&sandbox.id).is_none() {
            // Deleted meanwhile.
            return Ok(());
        }
        let found: Option<SnapshotRecord> = self.store.get(snapshot)?;
        let is_under_way = |found: &SnapshotRecord| {
            matches!(
                found.state,
                SnapshotState::Pending | SnapshotState::Pulling | SnapshotState::Building
            )
        };
        if found.as_ref().is_some_and(is_under_way) {
            // The server ends, and the next one goes on with both.
            return Ok(());
        }
        let (built, reason) = match found {
            Some(found) if found.state == SnapshotState::Active => (Some(found), None),
            found => (None, found.and_then(|found| found.error_reason)),
        };
        let Some(built) = built else {
            self.update(sandbox, |record| {
                record.state = SandboxState::BuildFailed;
                record.error_reason =
                    Some(reason.unwrap_or_else(|| "the image of the sandbox is gone".into()));
            })
            .await?;
            return Ok(());
        };
        let (foundation, user) = (built.foundation.clone(), built.image_user.clone());
        self.update(sandbox, |record| {
            record.foundation = foundation;
            if record.user.is_empty() {
                record.user = user.unwrap_or_else(|| ROOT.into());
            }
        })
        .await?;
        self.start_pending(sandbox).await?;
        self.note_use(built).await;
        Ok(())
    }

    /// Writes down that a sandbox was made from a snapshot. The sandbox is there, whether or not that succeeds.
    pub(crate) async fn note_use(&self, snapshot: SnapshotRecord) {
        let store = Arc::clone(&self.store);
        let noted = tokio::task::spawn_blocking(move || note_use(&store, &snapshot));
        if let Ok(Err(error)) = noted.await {
            let error = crate::error::chain(&error);
            tracing::warn!(error, "the use of a snapshot was not written down");
        }
    }
}
