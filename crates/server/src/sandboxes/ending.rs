//! The end of a box, wanted or not.

use std::sync::{Arc, Weak};

use holm_daytona_wire::sandbox::SandboxState;

use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::error::Result;
use crate::machines::{Machine, Readiness, remove_groups};

impl Sandboxes {
    /// Ends the box, if there is one. Afterwards no process of the sandbox runs.
    pub(super) async fn end_box(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let Some(machine) = sandbox.current_machine() else {
            return;
        };
        // Nobody gets at it any more, and its watcher knows that the end was wanted.
        sandbox.set_machine(None);
        machine.toolbox.close().await;
        self.end(sandbox, &machine).await;
    }

    /// Asks the box to end, and kills what does not.
    async fn end(self: &Arc<Self>, sandbox: &Arc<Sandbox>, machine: &Arc<Machine>) {
        let stopped = machine
            .blocking(|machine| {
                // A frozen process hears no signal.
                drop(machine.inner().thaw());
                machine.stop()
            })
            .await;
        if let Err(error) = stopped {
            tracing::warn!(
                sandbox = sandbox.id,
                error = error.message,
                "a box did not end cleanly, and is killed"
            );
            let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
            let killed = tokio::task::spawn_blocking(move || sandboxes.kill_recorded(&sandbox));
            drop(killed.await);
        }
    }

    /// Kills the box that the record names, and whatever is in its control groups.
    fn kill_recorded(&self, sandbox: &Sandbox) {
        if let Some(running) = sandbox.peek(|record| record.running) {
            running.process.kill();
        }
        remove_groups(&self.making, &sandbox.id);
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
        let _gate = sandbox.gate.enter().await;
        let Some(machine) = current() else {
            return Ok(());
        };
        sandbox.set_machine(None);
        self.end(sandbox, &machine).await;
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
