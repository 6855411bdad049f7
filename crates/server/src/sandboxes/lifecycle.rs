//! Changes of one sandbox's state.

use std::sync::{Arc, Weak};

use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::sandbox::SandboxState;
use tokio::sync::MutexGuard;

use super::create::not_made;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::error::{ApiError, Result};
use crate::keys;
use crate::machines::{Machine, Readiness, Wanted, make, remove_groups};
use crate::records::{SandboxRecord, SshAccessRecord};

impl Sandboxes {
    /// Starts a sandbox that is stopped, archived or paused; one that runs stays as it is.
    pub(crate) async fn start(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let _gate = enter(sandbox)?;
        match sandbox.state() {
            SandboxState::Started => return Ok(sandbox.record()),
            SandboxState::Paused => return self.resume(sandbox).await,
            SandboxState::Stopped | SandboxState::Archived => {}
            state => {
                return Err(ApiError::conflict(format!(
                    "Sandbox cannot be started in the state {state}"
                )));
            }
        }
        let ids = self.ids(&sandbox.organization)?;
        let (blocking, starting) = (Arc::clone(self), Arc::clone(sandbox));
        let made = tokio::task::spawn_blocking(move || {
            let mut record = starting.record();
            record.auth_token = Hidden::new(keys::random_token());
            let wanted = Wanted {
                record: &record,
                ids,
                activity: &starting.activity,
            };
            // Of a start that failed half-way. No box of this sandbox runs: the gate is ours.
            remove_groups(&blocking.making, &record.id);
            let mut running = None;
            let machine = make(&blocking.making, wanted, |found| {
                running = Some(found);
                blocking.store.put(&SandboxRecord {
                    running,
                    ..starting.record()
                })
            })?;
            Ok((machine, running, record.auth_token.clone()))
        })
        .await?;
        let (machine, running, auth_token) = made.map_err(not_made)?;
        sandbox.set_machine(Some(Arc::new(machine)));
        sandbox.activity.touch();
        let record = self
            .update(sandbox, |record| {
                record.state = SandboxState::Started;
                record.error_reason = None;
                record.running = running;
                record.auth_token = auth_token;
            })
            .await?;
        self.watch(sandbox);
        Ok(record)
    }

    /// Stops a sandbox that runs. One that is deleted when it stops is gone afterwards.
    pub(crate) async fn stop(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let gate = enter(sandbox)?;
        match sandbox.state() {
            SandboxState::Started | SandboxState::Paused => {}
            SandboxState::Stopped => return Ok(sandbox.record()),
            _ => return Err(ApiError::bad_request("Sandbox is not in a stoppable state")),
        }
        if sandbox.peek(|record| record.intervals.delete) == 0 {
            return self.destroy(sandbox, gate).await;
        }
        self.end_box(sandbox).await?;
        sandbox.activity.touch();
        self.update(sandbox, |record| {
            record.state = SandboxState::Stopped;
            record.running = None;
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
        match sandbox.state() {
            SandboxState::Archived => Ok(sandbox.record()),
            SandboxState::Stopped => {
                self.update(sandbox, |record| record.state = SandboxState::Archived)
                    .await
            }
            _ => Err(ApiError::bad_request("Sandbox is not stopped")),
        }
    }

    /// Freezes every process of a sandbox.
    pub(crate) async fn pause(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<SandboxRecord> {
        let _gate = enter(sandbox)?;
        if sandbox.state() == SandboxState::Paused {
            return Ok(sandbox.record());
        }
        let machine = sandbox.machine()?;
        machine
            .blocking(|machine| machine.inner().freeze())
            .await
            .map_err(|error| ApiError {
                code: ErrorCode::UnprocessableEntity,
                message: format!(
                    "Pausing is not supported for this sandbox: {}",
                    error.message
                ),
                ..error
            })?;
        self.update(sandbox, |record| record.state = SandboxState::Paused)
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
        let gate = sandbox.gate.lock().await;
        self.destroy(sandbox, gate).await
    }

    async fn destroy(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        _gate: MutexGuard<'_, ()>,
    ) -> Result<SandboxRecord> {
        if self.by_id(&sandbox.id).is_none() {
            return Err(ApiError::not_found(format!(
                "Sandbox with ID or name {} not found",
                sandbox.id
            )));
        }
        // Written down first: what a crash leaves half done, the next start of the server finishes.
        let record = self
            .update(sandbox, |record| record.state = SandboxState::Destroying)
            .await?;
        self.end_box(sandbox).await?;
        let (blocking, id) = (Arc::clone(self), sandbox.id.clone());
        tokio::task::spawn_blocking(move || {
            blocking.remove_traces(&id);
            blocking.store.write(|transaction| {
                for access in transaction.list::<SshAccessRecord>(&id)? {
                    transaction.delete::<SshAccessRecord>(&access.hash)?;
                }
                for token in transaction.list::<crate::records::PreviewTokenRecord>(&id)? {
                    transaction.delete::<crate::records::PreviewTokenRecord>(&token.hash)?;
                }
                transaction.delete::<SandboxRecord>(&id)
            })
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
        Ok(gone)
    }

    /// Ends the box, if there is one. Afterwards no process of the sandbox runs.
    async fn end_box(&self, sandbox: &Arc<Sandbox>) -> Result<()> {
        let Some(machine) = sandbox.current_machine() else {
            return Ok(());
        };
        // Nobody gets at it any more, and its watcher knows that the end was wanted.
        sandbox.set_machine(None);
        machine.toolbox.close().await;
        machine
            .blocking(|machine| {
                // A frozen process hears no signal.
                drop(machine.inner().thaw());
                machine.stop()
            })
            .await
    }

    /// Notices when a box ends by itself.
    pub(super) fn watch(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let Some(machine) = sandbox.current_machine() else {
            return;
        };
        let ended = match Readiness::of(machine.inner()) {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(sandbox = sandbox.id, %error, "a box cannot be watched");
                return;
            }
        };
        let (sandboxes, sandbox) = (Arc::downgrade(self), Arc::downgrade(sandbox));
        let machine = Arc::downgrade(&machine);
        tokio::spawn(async move {
            // An error of the watching is no end of the box.
            if ended.readable().await.is_err() {
                return;
            }
            let (Some(sandboxes), Some(sandbox)) = (sandboxes.upgrade(), sandbox.upgrade()) else {
                return;
            };
            if let Err(error) = sandboxes.note_end(&sandbox, &machine).await {
                tracing::error!(
                    sandbox = sandbox.id,
                    error = error.message,
                    "the end of a box was not noted"
                );
            }
        });
    }

    async fn note_end(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        ended: &Weak<Machine>,
    ) -> Result<()> {
        let current = || {
            let machine = sandbox.current_machine();
            machine.filter(|machine| Weak::ptr_eq(&Arc::downgrade(machine), ended))
        };
        // Ended on purpose, or by now another one: nothing to tell, and nobody to keep from the next change.
        if current().is_none() {
            return Ok(());
        }
        let _gate = sandbox.gate.lock().await;
        let Some(machine) = current() else {
            return Ok(());
        };
        sandbox.set_machine(None);
        machine.blocking(Machine::stop).await?;
        tracing::warn!(sandbox = sandbox.id, "a box has ended by itself");
        self.update(sandbox, |record| {
            record.state = SandboxState::Stopped;
            record.running = None;
            record.error_reason = Some("the sandbox's box has ended unexpectedly".into());
        })
        .await?;
        Ok(())
    }

    /// Removes everything of a sandbox that is not in the store. What cannot be removed now is removed later.
    pub(super) fn remove_traces(&self, id: &str) {
        remove_groups(&self.making, id);
        self.making
            .throw_away(&self.making.config.box_directory(id));
    }
}

/// Begins a change of state, unless another is on its way.
pub(super) fn enter(sandbox: &Sandbox) -> Result<MutexGuard<'_, ()>> {
    sandbox
        .gate
        .try_lock()
        .map_err(|_| ApiError::conflict("Sandbox state change in progress"))
}
