//! A sandbox from nothing to started.

use std::sync::Arc;

use holm_daytona_wire::sandbox::SandboxState;

use super::lifecycle::to_the_end;
use super::registry::{Reservation, Sandboxes};
use super::sandbox::Sandbox;
use crate::error::{ApiError, Result};
use crate::machines::{Activity, MakeError, Wanted, make};
use crate::records::SandboxRecord;

/// A checked request: see [`crate::api`] for the checks.
#[derive(Debug)]
pub(crate) struct NewSandbox {
    pub(crate) record: SandboxRecord,
}

impl Sandboxes {
    /// Makes a sandbox and starts it. When this returns it runs, or nothing of it is left.
    pub(crate) async fn create(self: &Arc<Self>, new: NewSandbox) -> Result<Arc<Sandbox>> {
        let sandboxes = Arc::clone(self);
        to_the_end(async move {
            let reservation = sandboxes.reserve(&new.record)?;
            sandboxes.create_reserved(new.record, reservation).await
        })
        .await
    }

    /// Makes a sandbox whose name is taken already, in a folder that may already hold its files.
    pub(super) async fn create_reserved(
        self: &Arc<Self>,
        record: SandboxRecord,
        reservation: Reservation,
    ) -> Result<Arc<Sandbox>> {
        let ids = self.ids(&record.organization)?;
        // Until it is written down that it stands on them.
        let pinned = self.pin(record.stands_on()).await?;
        let activity = Activity::since(record.created_at);
        let sandboxes = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || {
            let mut record = record;
            let mut running = None;
            let wanted = Wanted {
                record: &record,
                ids,
                activity: &activity,
            };
            let result = make(&sandboxes.making, wanted, |found| {
                running = Some(found);
                let mut started = record.clone();
                started.state = SandboxState::Started;
                started.running = running;
                sandboxes.store.put(&started)
            });
            record.state = SandboxState::Started;
            record.running = running;
            match result {
                Ok(machine) => Ok((record, activity, machine)),
                Err(error) => {
                    sandboxes.remove_traces(&record.id);
                    if running.is_some()
                        && let Err(error) = sandboxes.store.delete::<SandboxRecord>(&record.id)
                    {
                        tracing::error!(
                            sandbox = record.id,
                            error = crate::error::chain(&error),
                            "a sandbox that was not made stays in the store"
                        );
                    }
                    Err(error)
                }
            }
        });
        let (record, activity, machine) = made.await?.map_err(not_made)?;
        let sandbox = Sandbox::new(record.clone(), activity);
        sandbox.set_machine(Some(Arc::new(machine)));
        self.insert(&sandbox);
        self.look_at_secrets_again(&sandbox);
        drop((reservation, pinned));
        self.tell(&record, None);
        self.watch(&sandbox);
        Ok(sandbox)
    }
}

/// What the client learns of a box that does not start: the whole chain, since it is its sandbox.
pub(super) fn not_made(error: MakeError) -> ApiError {
    let message = format!(
        "Sandbox could not be started: {}",
        crate::error::chain(&error)
    );
    match error {
        MakeError::NoSuchUser { .. } | MakeError::Volume { .. } => ApiError::bad_request(message),
        MakeError::Engine { .. }
        | MakeError::Folder { .. }
        | MakeError::Files { .. }
        | MakeError::Images { .. }
        | MakeError::WayOut { .. }
        | MakeError::Store { .. }
        | MakeError::EndedAtOnce => ApiError::internal(message, error),
    }
}
