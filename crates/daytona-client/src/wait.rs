//! Waiting until a sandbox is what it shall be: a look at once, then ever fewer.

use std::time::Duration;

use holm_daytona_wire::sandbox::{Sandbox, SandboxState};
use tokio::time::Instant;

use crate::request::from_now;
use crate::{Client, ClientError, Result, StopManner};

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_GROWTH: f64 = 1.1;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Started,
    Stopped,
    Archived,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Reached,
    Underway,
    /// It will not come.
    Failed,
}

impl Client {
    /// Fails if the sandbox ends in an error instead.
    pub async fn wait_until_started(&self, sandbox: &str, patience: Duration) -> Result<Sandbox> {
        let last = self.wait(sandbox, Goal::Started, patience).await?;
        last.ok_or_else(|| vanished(sandbox))
    }

    /// `None` if it is gone, as one that is deleted by stopping it is.
    pub async fn wait_until_stopped(
        &self,
        sandbox: &str,
        patience: Duration,
    ) -> Result<Option<Sandbox>> {
        self.wait(sandbox, Goal::Stopped, patience).await
    }

    pub async fn wait_until_archived(&self, sandbox: &str, patience: Duration) -> Result<Sandbox> {
        let last = self.wait(sandbox, Goal::Archived, patience).await?;
        last.ok_or_else(|| vanished(sandbox))
    }

    pub async fn wait_until_gone(&self, sandbox: &str, patience: Duration) -> Result<()> {
        self.wait(sandbox, Goal::Gone, patience).await.map(drop)
    }

    /// Starts, also one that something else is starting, and waits for it.
    pub async fn start_and_wait(&self, sandbox: &str, patience: Duration) -> Result<Sandbox> {
        match self.start(sandbox).await {
            Ok(started) => self.wait_if_not_started(started, patience).await,
            Err(error) if error.is_conflict() || error.may_have_happened() => {
                self.wait_until_started(sandbox, patience).await
            }
            Err(error) => Err(error),
        }
    }

    /// Stops and waits for it; `None` if it is gone by that.
    pub async fn stop_and_wait(
        &self,
        sandbox: &str,
        manner: StopManner,
        patience: Duration,
    ) -> Result<Option<Sandbox>> {
        match self.stop(sandbox, manner).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if error.may_have_happened() => {}
            Err(error) => return Err(error),
        }
        self.wait_until_stopped(sandbox, patience).await
    }

    /// No look is needed at one whose last answer says that it has started.
    pub(crate) async fn wait_if_not_started(
        &self,
        sandbox: Sandbox,
        patience: Duration,
    ) -> Result<Sandbox> {
        match progress(Goal::Started, sandbox.state.as_ref()) {
            Progress::Reached => Ok(sandbox),
            Progress::Failed => Err(failed(sandbox)),
            Progress::Underway => self.wait_until_started(&sandbox.id, patience).await,
        }
    }

    async fn wait(&self, sandbox: &str, goal: Goal, patience: Duration) -> Result<Option<Sandbox>> {
        let until = from_now(patience);
        let mut pause = PAUSE_FIRST;
        loop {
            let problem = match self.look(sandbox, until, patience).await {
                Ok(None) => {
                    return match goal {
                        Goal::Stopped | Goal::Gone => Ok(None),
                        Goal::Started | Goal::Archived => Err(vanished(sandbox)),
                    };
                }
                Ok(Some(seen)) => match progress(goal, seen.state.as_ref()) {
                    Progress::Reached => return Ok(Some(seen)),
                    Progress::Failed => return Err(failed(seen)),
                    Progress::Underway => out_of_patience(sandbox, goal, &seen, patience),
                },
                Err(error) if is_passing(&error) => error,
                Err(error) => return Err(error),
            };
            if Instant::now() + pause >= until {
                return Err(problem);
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(PAUSE_GROWTH).min(PAUSE_MAX);
        }
    }

    /// One look, which may not take longer than there is patience.
    async fn look(
        &self,
        sandbox: &str,
        until: Instant,
        patience: Duration,
    ) -> Result<Option<Sandbox>> {
        let until = until.max(Instant::now() + PAUSE_MAX);
        match tokio::time::timeout_at(until, self.find(sandbox)).await {
            Ok(seen) => seen,
            Err(_elapsed) => Err(ClientError::Deadline {
                action: format!("look at sandbox `{sandbox}`"),
                after: patience,
            }),
        }
    }
}

fn progress(goal: Goal, state: Option<&SandboxState>) -> Progress {
    let Some(state) = state else {
        return Progress::Underway;
    };
    match (goal, state) {
        (Goal::Started, SandboxState::Started)
        | (
            Goal::Stopped,
            SandboxState::Stopped
            | SandboxState::Archiving
            | SandboxState::Archived
            | SandboxState::Destroyed,
        )
        | (Goal::Archived, SandboxState::Archived)
        | (Goal::Gone, SandboxState::Destroyed) => Progress::Reached,
        (
            Goal::Started | Goal::Archived,
            SandboxState::Error
            | SandboxState::BuildFailed
            | SandboxState::Destroying
            | SandboxState::Destroyed,
        )
        | (Goal::Stopped, SandboxState::Error | SandboxState::BuildFailed) => Progress::Failed,
        // One that is being deleted may show its last state for a while, an error too.
        (Goal::Started | Goal::Stopped | Goal::Archived | Goal::Gone, _) => Progress::Underway,
    }
}

/// Whether the next look may do better.
fn is_passing(error: &ClientError) -> bool {
    error.is_connect() || error.is_rate_limited() || error.may_have_happened()
}

fn vanished(sandbox: &str) -> ClientError {
    ClientError::SandboxState {
        sandbox: sandbox.to_owned(),
        state: SandboxState::Destroyed,
        reason: None,
    }
}

fn failed(sandbox: Sandbox) -> ClientError {
    ClientError::SandboxState {
        sandbox: sandbox.id,
        state: sandbox.state.unwrap_or_default(),
        reason: sandbox.error_reason,
    }
}

fn out_of_patience(sandbox: &str, goal: Goal, seen: &Sandbox, patience: Duration) -> ClientError {
    let wanted = match goal {
        Goal::Started => "started",
        Goal::Stopped => "stopped",
        Goal::Archived => "archived",
        Goal::Gone => "gone",
    };
    let state = seen.state.as_ref().map_or("unknown", SandboxState::as_str);
    ClientError::Deadline {
        action: format!("see sandbox `{sandbox}` {wanted}, which was {state} last,"),
        after: patience,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_means_something_for_every_goal() {
        use Progress::{Failed, Reached, Underway};
        for (state, started, stopped, archived, gone) in [
            ("started", Reached, Underway, Underway, Underway),
            ("starting", Underway, Underway, Underway, Underway),
            ("stopped", Underway, Reached, Underway, Underway),
            ("archiving", Underway, Reached, Underway, Underway),
            ("archived", Underway, Reached, Reached, Underway),
            ("error", Failed, Failed, Failed, Underway),
            ("build_failed", Failed, Failed, Failed, Underway),
            ("destroying", Failed, Underway, Failed, Underway),
            ("destroyed", Failed, Reached, Failed, Reached),
            ("made_later", Underway, Underway, Underway, Underway),
        ] {
            let state = SandboxState::from(state);
            let goals = [Goal::Started, Goal::Stopped, Goal::Archived, Goal::Gone];
            assert_eq!(
                goals.map(|goal| progress(goal, Some(&state))),
                [started, stopped, archived, gone],
                "{state}"
            );
        }
    }
}
