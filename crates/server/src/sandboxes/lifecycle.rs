//! Changes of one sandbox's state.
//!
//! Each is done to its end even if the client that asked for it has gone: half a change would be a box that nobody
//! owns.

use std::sync::Arc;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::sandbox::SandboxState;

use super::create::not_made;
use super::gate::Turn;
use super::phase::Phase;
use super::registry::{Sandboxes, not_found};
use super::sandbox::Sandbox;
use crate::error::{ApiError, Result};
use crate::keys;
use crate::machines::{Wanted, make, remove_groups};
use crate::records::SandboxRecord;

impl Sandboxes {
    /// Starts a sandbox that is stopped, archived or paused; one that runs stays as it is.
    pub(crate) async fn start(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = enter(&sandbox)?;
            let state = sandbox.state();
            match Phase::of(&state) {
                Phase::Running => Ok(sandbox.record()),
                Phase::Frozen => sandboxes.resume(&sandbox).await,
                Phase::Stopped | Phase::Archived => sandboxes.start_box(&sandbox).await,
                Phase::Leaving | Phase::Unready => Err(ApiError::conflict(format!(
                    "Sandbox cannot be started in the state {state}"
                ))),
            }
        })
        .await
    }

    /// Tries to start a sandbox that is in an error.
    pub(crate) async fn recover(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = enter(&sandbox)?;
            if sandbox.state() != SandboxState::Error {
                return Err(ApiError::bad_request("Sandbox is not in an error state"));
            }
            sandboxes.start_box(&sandbox).await
        })
        .await
    }

    /// Starts a sandbox whose image has arrived. The gate is taken for the first time.
    pub(super) async fn start_pending(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
    ) -> Result<SandboxRecord> {
        let _gate = sandbox.gate.enter().await;
        if sandbox.state() != SandboxState::PendingBuild {
            return Ok(sandbox.record());
        }
        self.start_box(sandbox).await
    }

    /// Makes the box of a sandbox that has none. The gate is held.
    async fn start_box(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let ids = self.ids(&sandbox.organization)?;
        let before = sandbox.state();
        let (sandboxes, starting) = (Arc::clone(self), Arc::clone(sandbox));
        let made = tokio::task::spawn_blocking(move || {
            let record = starting.record();
            let wanted = Wanted {
                record: &record,
                ids,
                activity: &starting.activity,
            };
            // Of a start that failed half-way. No box of this sandbox runs: the gate is ours.
            remove_groups(&sandboxes.making, &record.id);
            make(&sandboxes.making, wanted, |found| {
                let written = sandboxes.write(&starting, |record| {
                    record.state = SandboxState::Starting;
                    record.running = Some(found);
                    record.auth_token = Hidden::new(keys::random_token());
                });
                written.map(drop)
            })
        });
        match made.await? {
            Ok(machine) => {
                sandbox.set_machine(Some(Arc::new(machine)));
                self.look_at_secrets_again(sandbox);
                sandbox.activity.touch();
                let record = self
                    .update(sandbox, |record| {
                        record.state = SandboxState::Started;
                        record.error_reason = None;
                    })
                    .await?;
                self.watch(sandbox);
                Ok(record)
            }
            Err(error) => {
                let error = not_made(error);
                let reason = error.message.clone();
                self.update(sandbox, |record| {
                    record.state = if before == SandboxState::PendingBuild {
                        SandboxState::Error
                    } else {
                        before
                    };
                    record.running = None;
                    record.error_reason = Some(reason);
                })
                .await?;
                Err(error)
            }
        }
    }

    /// Stops a sandbox that runs. One that is deleted when it stops is gone afterwards.
    pub(crate) async fn stop(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let gate = enter(&sandbox)?;
            match Phase::of(&sandbox.state()) {
                Phase::Running | Phase::Frozen => {}
                Phase::Stopped | Phase::Archived | Phase::Leaving | Phase::Unready => {
                    return Err(ApiError::bad_request("Sandbox is not in a stoppable state"));
                }
            }
            if sandbox.peek(|record| record.intervals.delete) == 0 {
                return sandboxes.destroy(&sandbox, gate).await;
            }
            sandboxes.end_box(&sandbox).await;
            sandbox.activity.touch();
            sandboxes
                .update(&sandbox, |record| {
                    record.state = SandboxState::Stopped;
                    record.running = None;
                })
                .await
        })
        .await
    }

    /// Puts a stopped sandbox away.
    pub(crate) async fn archive(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let _gate = enter(sandbox)?;
        if sandbox.peek(|record| record.intervals.delete) == 0 {
            return Err(ApiError::bad_request(
                "Ephemeral sandboxes cannot be archived",
            ));
        }
        if sandbox.state() != SandboxState::Stopped {
            return Err(ApiError::bad_request("Sandbox is not stopped"));
        }
        self.update(sandbox, |record| record.state = SandboxState::Archived)
            .await
    }

    /// Freezes every process of a sandbox.
    pub(crate) async fn pause(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = enter(&sandbox)?;
            if sandbox.state() == SandboxState::Paused {
                return Ok(sandbox.record());
            }
            let machine = sandbox.machine()?;
            // First, so that no new request waits for an answer of a box that is frozen.
            sandboxes
                .update(&sandbox, |record| record.state = SandboxState::Pausing)
                .await?;
            let frozen = machine.blocking(|machine| machine.inner().freeze()).await;
            let state = match frozen {
                Ok(()) => SandboxState::Paused,
                Err(_) => SandboxState::Started,
            };
            let record = sandboxes
                .update(&sandbox, |record| record.state = state)
                .await?;
            frozen.map_err(|error| ApiError {
                code: ErrorCode::UnprocessableEntity,
                message: format!(
                    "Pausing is not supported for this sandbox: {}",
                    error.message
                ),
                ..error
            })?;
            Ok(record)
        })
        .await
    }

    async fn resume(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let machine = sandbox.current_machine().ok_or_else(|| {
            ApiError::conflict("Sandbox has no box to resume: stop it and start it again")
        })?;
        machine.blocking(|machine| machine.inner().thaw()).await?;
        sandbox.activity.touch();
        self.update(sandbox, |record| record.state = SandboxState::Started)
            .await
    }

    /// Deletes a sandbox, whatever it is doing.
    pub(crate) async fn delete(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let gate = sandbox.gate.enter().await;
            sandboxes.destroy(&sandbox, gate).await
        })
        .await
    }

    async fn destroy(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        _gate: Turn<'_>,
    ) -> Result<SandboxRecord> {
        if self.by_id(&sandbox.id).is_none() {
            return Err(not_found(&sandbox.id));
        }
        // Written down first: what a crash leaves half done, the next start of the server finishes.
        let record = self
            .update(sandbox, |record| record.state = SandboxState::Destroying)
            .await?;
        self.end_box(sandbox).await;
        let (sandboxes, erasing) = (Arc::clone(self), Arc::clone(sandbox));
        tokio::task::spawn_blocking(move || {
            sandboxes.remove_traces(&erasing.id);
            sandboxes.erase(&erasing)
        })
        .await??;
        self.forget(sandbox);
        let gone = SandboxRecord {
            state: SandboxState::Destroyed,
            running: None,
            ..record
        };
        self.departed.remember(gone.clone());
        self.tell(&gone, Some(SandboxState::Destroying));
        if !gone.stands_on().is_empty() {
            self.collect_later();
        }
        Ok(gone)
    }

    /// Looks in the background whether what a sandbox stood on is needed by others.
    fn collect_later(self: &Arc<Self>) {
        let making = Arc::clone(&self.making);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = making.collect() {
                let error = crate::error::chain(&error);
                tracing::warn!(error, "what a sandbox stood on was not looked at");
            }
        });
    }
}

/// Does a change to its end, whether or not somebody still waits for it.
pub(super) async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await?
}

/// Begins a change of state, unless another is on its way.
pub(super) fn enter(sandbox: &Sandbox) -> Result<Turn<'_>> {
    sandbox
        .gate
        .try_enter()
        .ok_or_else(|| ApiError::conflict("Sandbox state change in progress"))
}
