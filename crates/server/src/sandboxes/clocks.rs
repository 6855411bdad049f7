//! What happens to a sandbox when nobody does anything.

use std::sync::Arc;

use holm_daytona_wire::sandbox::SandboxState;

use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::clock::{self, Millis, minutes_after};
use crate::error::Result;
use crate::records::SandboxRecord;

/// What is due for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Stop,
    Pause,
    Archive,
    Delete,
}

/// Decides by the record alone; `record.last_activity_at` is when it last did anything.
pub(crate) fn due(record: &SandboxRecord, now: Millis) -> Option<Due> {
    let intervals = record.intervals;
    let idle_for = |minutes: i32| now >= minutes_after(record.last_activity_at, i64::from(minutes));
    if record.destroy_at.is_some_and(|at| now >= at) {
        return Some(Due::Delete);
    }
    match record.state {
        SandboxState::Started if intervals.stop > 0 && idle_for(intervals.stop) => Some(Due::Stop),
        SandboxState::Started if intervals.pause > 0 && idle_for(intervals.pause) => {
            Some(Due::Pause)
        }
        SandboxState::Paused if intervals.stop > 0 && idle_for(intervals.stop) => Some(Due::Stop),
        SandboxState::Stopped | SandboxState::Archived
            if intervals.delete >= 0 && idle_for(intervals.delete) =>
        {
            Some(Due::Delete)
        }
        SandboxState::Stopped if idle_for(intervals.archive) => Some(Due::Archive),
        _ => None,
    }
}

/// Looks at all sandboxes again and again.
pub(crate) async fn run(sandboxes: Arc<Sandboxes>) {
    let mut ticks = tokio::time::interval(sandboxes.making.config.limits.tick);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for sandbox in sandboxes.all() {
            let Some(what) = due(&sandbox.record(), clock::now()) else {
                continue;
            };
            if let Err(error) = act(&sandboxes, &sandbox, what).await {
                tracing::warn!(
                    sandbox = sandbox.id,
                    ?what,
                    error = error.message,
                    "what was due was not done"
                );
            }
        }
    }
}

async fn act(sandboxes: &Arc<Sandboxes>, sandbox: &Arc<Sandbox>, what: Due) -> Result<()> {
    match what {
        Due::Stop | Due::Pause if is_busy(sandbox).await => {
            // A process that runs is activity, whoever started it.
            sandbox.activity.touch();
            return Ok(());
        }
        Due::Stop => sandboxes.stop(sandbox).await,
        Due::Pause => sandboxes.pause(sandbox).await,
        Due::Archive => sandboxes.archive(sandbox).await,
        Due::Delete => sandboxes.delete(sandbox).await,
    }?;
    tracing::info!(
        sandbox = sandbox.id,
        ?what,
        "a sandbox was idle for long enough"
    );
    Ok(())
}

/// Whether something runs inside, other than what only waits for orders.
async fn is_busy(sandbox: &Arc<Sandbox>) -> bool {
    let Ok(machine) = sandbox.machine() else {
        return false;
    };
    let waiting = machine.toolbox.waiting_processes();
    let running = machine
        .blocking(|machine| machine.inner().process_count())
        .await;
    running.is_ok_and(|running| running > waiting)
}
