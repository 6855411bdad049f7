//! What happens to a sandbox when nobody does anything.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use super::phase::Phase;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::clock::{self, Millis, minutes_after};
use crate::error::Result;
use crate::records::SandboxRecord;

/// Sandboxes that are stopped or deleted at the same time.
const AT_ONCE_MAX: usize = 8;
/// How long the others wait for one of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is due for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Stop,
    Pause,
    Archive,
    Delete,
}

/// Decides by the record alone; `record.last_activity_at` is when it last did anything.
pub(crate) fn due(record: &SandboxRecord, now: Millis, minute: Duration) -> Option<Due> {
    let intervals = record.intervals;
    let idle_for = |minutes: i32| now >= minutes_after(record.last_activity_at, minutes, minute);
    if record.destroy_at.is_some_and(|at| now >= at) {
        return Some(Due::Delete);
    }
    let stops = intervals.stop > 0 && idle_for(intervals.stop);
    let pauses = intervals.pause > 0 && idle_for(intervals.pause);
    let is_deleted = intervals.delete >= 0 && idle_for(intervals.delete);
    match Phase::of(&record.state) {
        Phase::Running if stops => Some(Due::Stop),
        Phase::Running if pauses => Some(Due::Pause),
        Phase::Frozen if stops => Some(Due::Stop),
        Phase::Stopped | Phase::Archived if is_deleted => Some(Due::Delete),
        Phase::Stopped if idle_for(intervals.archive) => Some(Due::Archive),
        Phase::Running
        | Phase::Frozen
        | Phase::Stopped
        | Phase::Archived
        | Phase::Leaving
        | Phase::Unready => None,
    }
}

/// Looks at all sandboxes again and again.
pub(crate) async fn run(sandboxes: Arc<Sandboxes>) {
    let mut ticks = tokio::time::interval(sandboxes.making.config.limits.tick);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let minute = sandboxes.making.config.limits.minute;
        stream::iter(sandboxes.all())
            .for_each_concurrent(AT_ONCE_MAX, |sandbox| {
                let sandboxes = Arc::clone(&sandboxes);
                async move {
                    // One that takes long goes on by itself and does not keep the others.
                    let looked = look(&sandboxes, &sandbox, minute);
                    if tokio::time::timeout(PATIENCE, looked).await.is_err() {
                        tracing::warn!(sandbox = sandbox.id, "what was due takes long");
                    }
                }
            })
            .await;
    }
}

async fn look(sandboxes: &Arc<Sandboxes>, sandbox: &Arc<Sandbox>, minute: Duration) {
    let record = sandbox.record();
    let done = match due(&record, clock::now(), minute) {
        Some(what) => act(sandboxes, sandbox, what, minute).await,
        None => keep_activity(sandboxes, sandbox, &record, minute).await,
    };
    if let Err(error) = done {
        let error = error.message;
        tracing::warn!(sandbox = sandbox.id, error, "what was due was not done");
    }
}

/// A restart shall not forget what was active, but for the last minute.
async fn keep_activity(
    sandboxes: &Arc<Sandboxes>,
    sandbox: &Arc<Sandbox>,
    record: &SandboxRecord,
    minute: Duration,
) -> Result<()> {
    let stored = sandbox.peek(|record| record.last_activity_at);
    if record.last_activity_at < minutes_after(stored, 1, minute) {
        return Ok(());
    }
    let (sandboxes, sandbox) = (Arc::clone(sandboxes), Arc::clone(sandbox));
    Ok(tokio::task::spawn_blocking(move || sandboxes.write_activity(&sandbox)).await??)
}

async fn act(
    sandboxes: &Arc<Sandboxes>,
    sandbox: &Arc<Sandbox>,
    what: Due,
    minute: Duration,
) -> Result<()> {
    match what {
        Due::Stop | Due::Pause if is_busy(sandbox).await => {
            // A process that runs is activity, whoever started it.
            sandbox.activity.touch();
            return Ok(());
        }
        // Somebody may have come meanwhile.
        _ if due(&sandbox.record(), clock::now(), minute) != Some(what) => return Ok(()),
        Due::Stop => sandboxes.stop(sandbox).await,
        Due::Pause => sandboxes.pause(sandbox).await,
        Due::Archive => sandboxes.archive(sandbox).await,
        Due::Delete => sandboxes.delete(sandbox).await,
    }?;
    let sandbox = &sandbox.id;
    tracing::info!(sandbox, ?what, "a sandbox was idle for long enough");
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

#[cfg(test)]
mod tests {
    use holm_daytona_wire::Hidden;

    use holm_daytona_wire::sandbox::SandboxState;

    use super::*;
    use crate::records::{Foundation, Intervals, NetworkSettings, Resources};

    const MINUTE: Duration = Duration::from_secs(60);
    /// When the sandbox was last active.
    const LAST: Millis = 1_000_000;

    fn record(state: SandboxState, [stop, pause, archive, delete]: [i32; 4]) -> SandboxRecord {
        SandboxRecord {
            id: "id".into(),
            organization: "team".into(),
            name: "name".into(),
            user: "daytona".into(),
            env: [].into(),
            labels: [].into(),
            public: false,
            network: NetworkSettings::default(),
            target: "local".into(),
            resources: Resources {
                cpu: 1,
                memory_gib: 1,
                disk_gib: 3,
            },
            snapshot: None,
            foundation: Foundation::Host,
            layers: Vec::new(),
            state,
            error_reason: None,
            intervals: Intervals {
                stop,
                pause,
                archive,
                delete,
            },
            destroy_at: None,
            volumes: Vec::new(),
            secrets: [].into(),
            created_at: 0,
            updated_at: 0,
            last_activity_at: LAST,
            auth_token: Hidden::default(),
            signing_key: Hidden::default(),
            linked_sandbox: None,
            dockerfile: None,
            build: None,
            running: None,
        }
    }

    #[test]
    fn each_state_has_its_clocks() {
        use SandboxState::{
            Archived, BuildFailed, Destroying, Error, Paused, PendingBuild, Started, Stopped,
        };
        // State; minutes until stop, pause, archive and delete; minutes without activity; what is due.
        let cases = [
            (Started, [15, 0, 30, -1], 14, None),
            (Started, [15, 0, 30, -1], 15, Some(Due::Stop)),
            (Started, [0, 0, 30, 0], 1_000, None),
            (Started, [0, 5, 30, -1], 5, Some(Due::Pause)),
            (Started, [15, 5, 30, -1], 20, Some(Due::Stop)),
            // Ephemeral: it is stopped, which deletes it.
            (Started, [15, 0, 30, 0], 15, Some(Due::Stop)),
            (Started, [15, 0, 30, 0], 14, None),
            (Paused, [15, 5, 30, -1], 14, None),
            (Paused, [15, 5, 30, -1], 15, Some(Due::Stop)),
            (Paused, [0, 5, 30, -1], 1_000, None),
            (Stopped, [15, 0, 30, -1], 29, None),
            (Stopped, [15, 0, 30, -1], 30, Some(Due::Archive)),
            (Stopped, [15, 0, 30, 60], 59, Some(Due::Archive)),
            (Stopped, [15, 0, 30, 60], 60, Some(Due::Delete)),
            (Stopped, [15, 0, 30, 0], 0, Some(Due::Delete)),
            (Archived, [15, 0, 30, 60], 59, None),
            (Archived, [15, 0, 30, 60], 60, Some(Due::Delete)),
            (Archived, [15, 0, 30, -1], 100_000, None),
            (Error, [15, 0, 30, 60], 1_000, None),
            (BuildFailed, [15, 0, 30, 60], 1_000, None),
            (PendingBuild, [15, 0, 30, 60], 1_000, None),
            (Destroying, [15, 0, 30, 60], 1_000, None),
        ];
        for (state, intervals, minutes, expected) in cases {
            let record = record(state, intervals);
            let now = minutes_after(LAST, minutes, MINUTE);
            let shown = format!("{} {intervals:?} after {minutes}", record.state);
            assert_eq!(due(&record, now, MINUTE), expected, "{shown}");
        }
    }

    #[test]
    fn a_time_to_live_ends_whatever_goes_on() {
        let states = [
            SandboxState::Started,
            SandboxState::Stopped,
            SandboxState::Error,
        ];
        for state in states {
            let mut record = record(state, [0, 0, 100, -1]);
            record.destroy_at = Some(LAST + 10);
            assert_eq!(due(&record, LAST + 9, MINUTE), None);
            assert_eq!(due(&record, LAST + 10, MINUTE), Some(Due::Delete));
        }
    }

    #[test]
    fn a_minute_is_as_long_as_the_settings_say() {
        let record = record(SandboxState::Started, [15, 0, 30, -1]);
        assert_eq!(
            due(&record, LAST + 15, Duration::from_millis(1)),
            Some(Due::Stop)
        );
        assert_eq!(due(&record, i64::MAX, Duration::MAX), Some(Due::Stop));
    }
}
