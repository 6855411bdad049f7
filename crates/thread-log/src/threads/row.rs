//! What a thread is at a moment: the fold of its entries.

use serde::{Deserialize, Serialize};

use super::entry::{Group, ThreadEntry};
use super::id::ThreadId;
use super::signal::{Details, Parent, RunId, Signal, Update};
use crate::state::StreamState;

/// The version of the stored form. A new field gets a default, so that older rows stay readable.
const FORMAT: u32 = 1;

/// A thread's row. Times are those of entries, in milliseconds; what the server itself knows (when the stream was made, who was seen
/// last) is the stream's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    format: u32,
    pub status: Status,
    /// The current run, or the last one.
    pub run: Option<Run>,
    pub parent: Option<Parent>,
    /// The thread that this one was forked from.
    #[serde(default)]
    pub forked_from: Option<ThreadId>,
    pub tags: Vec<String>,
    pub environment_id: Option<String>,
    pub sandbox_id: Option<String>,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A conversation that no run has worked on.
    Open,
    /// Waits for its run.
    Idle,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Idle,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub id: RunId,
    pub state: RunState,
    pub began_at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum RunState {
    Running,
    Ended {
        at: i64,
        /// `completed`, `cancelled`, or the name of the signal: `pi_failed`, `pi_session_orphaned`.
        reason: String,
        exit_code: Option<i32>,
    },
}

/// What models charged for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Millionths of a dollar: sums of whole numbers are exact.
    pub cost_micro_usd: u64,
}

/// Who was meant by a signal that ends a run.
enum Meant {
    Current,
    /// It has ended, or another has followed it: the first signal has counted.
    Past,
    Nobody,
}

impl Row {
    /// Before the first entry of a stream's own.
    pub fn new(stream: &StreamState) -> Self {
        let origin = stream.origin.as_ref();
        let source = origin.and_then(|origin| ThreadId::of_stored(&origin.source_name));
        Self {
            forked_from: source.map(|(_, id)| id),
            ..Self::empty()
        }
    }

    /// Before the first entry of a thread that is no fork: what clients begin their own fold with.
    pub fn empty() -> Self {
        Self {
            format: FORMAT,
            status: Status::Open,
            run: None,
            parent: None,
            forked_from: None,
            tags: Vec::new(),
            environment_id: None,
            sandbox_id: None,
            usage: Usage::default(),
        }
    }

    /// Takes an entry in. Any entry: what was refused never came here.
    pub fn apply(&mut self, entry: &ThreadEntry) {
        let at = entry.ts.0;
        let Group::Signal(signal) = &entry.group else {
            return;
        };
        match signal {
            Signal::Created(details) => self.describe(details),
            Signal::Updated(update) => self.update(update),
            Signal::StatusChanged {
                status: Status::Running,
                run_id: Some(run_id),
            } => self.begin(run_id, at),
            Signal::StatusChanged { status, run_id } => {
                self.end(run_id.as_ref(), *status, status.as_str(), None, at);
            }
            Signal::Failed(failure) => {
                let (run_id, exit_code) = (failure.run_id.as_ref(), failure.exit_code);
                self.end(run_id, Status::Failed, &failure.reason, exit_code, at);
            }
            Signal::Usage(usage) => self.usage.add(usage),
            Signal::ChildFinished | Signal::Heartbeat | Signal::Other => {}
        }
    }

    fn describe(&mut self, details: &Details) {
        self.parent.clone_from(&details.parent);
        self.tags.clone_from(&details.tags);
        self.environment_id.clone_from(&details.environment_id);
        self.sandbox_id.clone_from(&details.sandbox_id);
        if let (Some(status), None) = (details.status, &self.run) {
            self.status = status;
        }
    }

    fn update(&mut self, update: &Update) {
        if let Some(tags) = &update.tags {
            self.tags.clone_from(tags);
        }
        if let Some(id) = &update.environment_id {
            self.environment_id.clone_from(id);
        }
        if let Some(id) = &update.sandbox_id {
            self.sandbox_id.clone_from(id);
        }
    }

    fn begin(&mut self, run_id: &RunId, at: i64) {
        let is_known = self.run.as_ref().is_some_and(|run| run.id == *run_id);
        if is_known || self.running().is_some() {
            return;
        }
        self.status = Status::Running;
        self.run = Some(Run {
            id: run_id.clone(),
            state: RunState::Running,
            began_at: at,
        });
    }

    fn end(
        &mut self,
        run_id: Option<&RunId>,
        status: Status,
        reason: &str,
        exit_code: Option<i32>,
        at: i64,
    ) {
        match (self.meant(run_id), &mut self.run) {
            (Meant::Current, Some(run)) => {
                run.state = RunState::Ended {
                    at,
                    reason: reason.to_owned(),
                    exit_code,
                };
                self.status = status;
            }
            (Meant::Nobody, _) => self.status = status,
            (Meant::Past, _) | (Meant::Current, None) => {}
        }
    }

    fn meant(&self, run_id: Option<&RunId>) -> Meant {
        match (self.running(), run_id) {
            (Some(_), None) => Meant::Current,
            (Some(run), Some(run_id)) if run.id == *run_id => Meant::Current,
            (Some(_) | None, Some(_)) => Meant::Past,
            (None, None) => Meant::Nobody,
        }
    }

    /// The run that works on the thread.
    pub fn running(&self) -> Option<&Run> {
        self.run
            .as_ref()
            .filter(|run| run.state == RunState::Running)
    }
}

impl Usage {
    fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }
}
