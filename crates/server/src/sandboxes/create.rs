//! A sandbox from nothing to started.

use std::sync::Arc;

use holm_daytona_wire::sandbox::SandboxState;

use super::registry::Sandboxes;
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
        let record = new.record;
        let ids = self.ids(&record.organization)?;
        self.reserve(&record)?;
        let sandboxes = Arc::clone(self);
        // Not cancelled with the request: a client that hangs up leaves a whole sandbox, not half of one.
        let made = tokio::spawn(async move {
            let activity = Activity::since(record.created_at);
            let blocking = Arc::clone(&sandboxes);
            let made = tokio::task::spawn_blocking(move || {
                let mut record = record;
                let mut running = None;
                // Its snapshot may be deleted before the record of the sandbox names the layers.
                let _pinned = blocking.making.pin(record.layers.clone());
                let wanted = Wanted {
                    record: &record,
                    ids,
                    activity: &activity,
                };
                let result = make(&blocking.making, wanted, |found| {
                    running = Some(found);
                    let mut started = record.clone();
                    started.state = SandboxState::Started;
                    started.running = running;
                    blocking.store.put(&started)
                });
                record.state = SandboxState::Started;
                record.running = running;
                match result {
                    Ok(machine) => Ok((record, activity, machine)),
                    Err(error) => {
                        blocking.remove_traces(&record.id);
                        Err((record, error))
                    }
                }
            })
            .await?;
            match made {
                Ok((record, activity, machine)) => {
                    let sandbox = Sandbox::new(record.clone(), activity);
                    sandbox.set_machine(Some(Arc::new(machine)));
                    sandboxes.insert(&sandbox);
                    sandboxes.tell(&record, None);
                    sandboxes.watch(&sandbox);
                    Ok(sandbox)
                }
                Err((record, error)) => {
                    sandboxes.release(&record);
                    Err(not_made(error))
                }
            }
        });
        made.await?
    }
}

/// What the client learns of a box that does not start: the whole chain, since it is its sandbox.
pub(super) fn not_made(error: MakeError) -> ApiError {
    let message = format!(
        "Sandbox could not be started: {}",
        crate::error::chain(&error)
    );
    ApiError::internal(message, error)
}
