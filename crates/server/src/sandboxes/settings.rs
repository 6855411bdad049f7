//! Changes of a sandbox that its box has to follow at once: size, network, secrets.
//!
//! They hold the gate, so that what the box does and what the store says change in the same order.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use holm_sandbox_linux::cgroup::LimitKind;

use super::lifecycle::to_the_end;
use super::phase::Phase;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::error::{ApiError, Result};
use crate::machines::{Machine, limits, outside};
use crate::records::{NetworkSettings, Resources, SandboxRecord};

impl Sandboxes {
    /// Changes what a sandbox reaches.
    pub(crate) async fn set_network(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        change: impl FnOnce(NetworkSettings) -> NetworkSettings + Send + 'static,
    ) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = sandbox.gate.enter().await;
            let network = change(sandbox.peek(|record| record.network.clone()));
            let policy = outside::policy(&network)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            let record = sandboxes
                .update(&sandbox, |record| record.network = network)
                .await?;
            if let Some(machine) = sandbox.current_machine() {
                machine.way_out.set_policy(policy);
            }
            Ok(record)
        })
        .await
    }

    /// Changes the variables that stand for secrets.
    pub(crate) async fn set_secrets(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        secrets: BTreeMap<String, String>,
    ) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = sandbox.gate.enter().await;
            let old = sandbox.peek(|record| record.secrets.clone());
            let record = sandboxes
                .update(&sandbox, |record| record.secrets = secrets)
                .await?;
            if let Some(machine) = sandbox.current_machine() {
                machine.change_environment(|environment| {
                    for variable in old.keys() {
                        environment.remove(variable);
                    }
                    // What a secret's variable had hidden is seen again.
                    for variable in old.keys() {
                        if let Some(value) = record.env.get(variable) {
                            environment.insert(variable.clone(), value.clone());
                        }
                    }
                });
            }
            sandboxes.refresh_secrets(&sandbox)?;
            Ok(record)
        })
        .await
    }

    /// Has a box use its secrets as they are now. The lock keeps an older reading from being the last one to count: a
    /// secret that was deleted would live on.
    pub(crate) fn refresh_secrets(&self, sandbox: &Sandbox) -> Result<()> {
        // Whatever the state: one that is paused goes on later.
        if let Some(machine) = sandbox.current_machine() {
            let turn = self.secrets_turn.lock();
            let _turn = turn.unwrap_or_else(PoisonError::into_inner);
            machine.use_secrets(&self.making.secrets(&sandbox.record())?);
        }
        Ok(())
    }

    /// Secrets may have changed since a box that just started was given them, and only now it is found by whoever
    /// changes them.
    pub(super) fn look_at_secrets_again(&self, sandbox: &Sandbox) {
        if let Err(error) = self.refresh_secrets(sandbox) {
            let (sandbox, error) = (&sandbox.id, error.message);
            tracing::warn!(sandbox, error, "secrets were not looked at again");
        }
    }

    /// Gives a sandbox another size: at once if it runs, otherwise at its next start.
    pub(crate) async fn resize(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        wanted: Resources,
    ) -> Result<SandboxRecord> {
        let (sandboxes, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        to_the_end(async move {
            let _gate = sandbox.gate.enter().await;
            let state = sandbox.state();
            match Phase::of(&state) {
                Phase::Running => resize_box(&sandbox, &sandbox.machine()?, wanted).await?,
                Phase::Stopped => {}
                Phase::Frozen | Phase::Archived | Phase::Leaving | Phase::Unready => {
                    return Err(ApiError::bad_request(format!(
                        "Sandbox is {state}: it has to be started or stopped to be resized"
                    )));
                }
            }
            sandboxes
                .update(&sandbox, move |record| record.resources = wanted)
                .await
        })
        .await
    }
}

/// Changes the limits of a box that runs. Memory that it uses is not taken from it: it is refused then.
async fn resize_box(sandbox: &Sandbox, machine: &Arc<Machine>, wanted: Resources) -> Result<()> {
    let now = sandbox.peek(|record| record.resources);
    machine
        .blocking(move |machine| {
            let unenforced = machine.inner().update_limits(&limits(wanted))?;
            let is_new = wanted.memory_gib < now.memory_gib
                && unenforced
                    .iter()
                    .any(|limit| limit.limit == LimitKind::Memory);
            if is_new && machine.inner().usage().memory_bytes.is_some() {
                machine.inner().update_limits(&limits(now))?;
                return Err(ApiError::conflict(format!(
                    "Sandbox uses more memory than {} GiB: end some of its processes first",
                    wanted.memory_gib
                )));
            }
            Ok(())
        })
        .await
}
