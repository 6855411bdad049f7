//! The sandboxes of an earlier life of the server.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use holm_daytona_wire::sandbox::SandboxState;

use super::phase::Phase;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::error::Result;
use crate::machines::{Activity, Adopted, Wanted, adopt, remove_groups};
use crate::records::{SandboxRecord, VolumeRecord};

/// Boxes that are asked at the same time whether they still run.
const RESTORED_AT_ONCE: usize = 16;

/// Loads every sandbox, adopts the boxes that still run, and removes what belongs to nobody.
pub(crate) async fn restore(sandboxes: &Arc<Sandboxes>) -> Result<()> {
    let loading = Arc::clone(sandboxes);
    let records =
        tokio::task::spawn_blocking(move || loading.store.all::<SandboxRecord>()).await??;
    let known: HashSet<String> = records.iter().map(|record| record.id.clone()).collect();
    let restoring = records
        .into_iter()
        .map(|record| restore_one(sandboxes, record));
    let mut restoring = stream::iter(restoring).buffer_unordered(RESTORED_AT_ONCE);
    while let Some(restored) = restoring.next().await {
        restored?;
    }
    let sweeping = Arc::clone(sandboxes);
    tokio::task::spawn_blocking(move || remove_unknown(&sweeping, &known)).await?
}

async fn restore_one(sandboxes: &Arc<Sandboxes>, record: SandboxRecord) -> Result<()> {
    let ids = sandboxes.ids(&record.organization)?;
    let activity = Activity::since(record.last_activity_at);
    let sandbox = Sandbox::new(record.clone(), Arc::clone(&activity));
    sandboxes.insert(&sandbox);
    let is_told = match Phase::of(&record.state) {
        Phase::Running | Phase::Frozen | Phase::Leaving => true,
        Phase::Stopped | Phase::Archived | Phase::Unready => false,
    };
    // Interrupted builds are begun again by whoever builds; the rest has no box, but may have been given one.
    if !is_told && record.running.is_none() {
        let (making, id) = (Arc::clone(&sandboxes.making), record.id);
        tokio::task::spawn_blocking(move || remove_groups(&making, &id)).await?;
        return Ok(());
    }
    let making = Arc::clone(&sandboxes.making);
    let adopting = record.clone();
    let adopted = tokio::task::spawn_blocking(move || {
        let wanted = Wanted {
            record: &adopting,
            ids,
            activity: &activity,
        };
        adopt(&making, wanted, adopting.running)
    })
    .await?;
    match adopted {
        Adopted::Running(machine) => {
            let machine = Arc::new(*machine);
            machine.toolbox.resume(&machine).await;
            sandbox.set_machine(Some(machine));
            sandboxes.watch(&sandbox);
            tracing::info!(sandbox = record.id, "a running sandbox was found again");
            // The server died between the start of the box and the note that it is started.
            if !is_told {
                let started = |record: &mut SandboxRecord| record.state = SandboxState::Started;
                sandboxes.update(&sandbox, started).await?;
            }
        }
        Adopted::Gone(reason) => {
            tracing::warn!(
                sandbox = record.id,
                reason,
                "a sandbox is not running any more"
            );
            sandboxes
                .update(&sandbox, |record| {
                    record.running = None;
                    if record.state != SandboxState::Destroying {
                        record.state = SandboxState::Stopped;
                        record.error_reason = Some(reason);
                    }
                })
                .await?;
        }
    }
    if record.state == SandboxState::Destroying {
        sandboxes.delete(&sandbox).await?;
    }
    Ok(())
}

/// Folders of boxes and volumes that were never written down, and what was on its way to be removed.
fn remove_unknown(sandboxes: &Sandboxes, known: &HashSet<String>) -> Result<()> {
    let config = &sandboxes.making.config;
    let volumes: Vec<VolumeRecord> = sandboxes.store.all()?;
    let volumes: HashSet<&str> = volumes.iter().map(|volume| volume.id.as_str()).collect();
    let entries = fs::read_dir(config.volumes()).into_iter().flatten();
    for entry in entries.flatten() {
        if let Some(id) = entry.file_name().to_str()
            && !volumes.contains(id)
        {
            tracing::info!(volume = id, "the folder of an unknown volume is removed");
            sandboxes.making.remove_volume(id);
        }
    }
    let entries = fs::read_dir(config.boxes()).into_iter().flatten();
    for entry in entries.flatten() {
        if let Some(id) = entry.file_name().to_str()
            && !known.contains(id)
        {
            tracing::info!(sandbox = id, "the folder of an unknown sandbox is removed");
            sandboxes.remove_traces(id);
        }
    }
    sandboxes.making.empty_trash();
    Ok(())
}
