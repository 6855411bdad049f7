//! Bodies of requests and answers.

use holm_thread_log::threads::{Parent, Row, Run, RunState, Status, ThreadId, Usage};
use holm_thread_log::{Ending, StreamState, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::tokens::Operation;

/// A thread, as its entries and its stream say.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    id: String,
    status: ThreadStatus,
    /// The current run, or the last one.
    run: Option<ThreadRun>,
    parent: Option<ThreadParent>,
    /// The thread that this one was forked from.
    forked_from: Option<String>,
    tags: Vec<String>,
    environment_id: Option<String>,
    sandbox_id: Option<String>,
    usage: ThreadUsage,
    /// RFC 3339, by the server's clock.
    created_at: String,
    /// When something was last written to its stream, heartbeats included; by the server's clock.
    updated_at: String,
    /// The last heartbeat of a run, by the server's clock.
    last_seen_at: Option<String>,
    stream: ThreadStream,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ThreadStatus {
    Open,
    Idle,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl From<Status> for ThreadStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Open => Self::Open,
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadRun {
    id: String,
    /// By the clock of whoever began it.
    began_at: String,
    /// By the clock of whoever said so; missing while it runs.
    ended_at: Option<String>,
    /// `completed`, `cancelled`, or what happened: `pi_failed`, `pi_session_orphaned`.
    end_reason: Option<String>,
    exit_code: Option<i32>,
}

impl From<Run> for ThreadRun {
    fn from(run: Run) -> Self {
        let (ended_at, end_reason, exit_code) = match run.state {
            RunState::Running => (None, None, None),
            RunState::Ended {
                at,
                reason,
                exit_code,
            } => (Some(Timestamp(at).to_string()), Some(reason), exit_code),
        };
        Self {
            id: run.id.to_string(),
            began_at: Timestamp(run.began_at).to_string(),
            ended_at,
            end_reason,
            exit_code,
        }
    }
}

/// What a thread was delegated from.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum ThreadParent {
    Thread { id: String },
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    /// Millionths of a dollar.
    cost_micro_usd: u64,
}

impl From<Usage> for ThreadUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_micro_usd: usage.cost_micro_usd,
        }
    }
}

/// The thread's stream, which speaks the Durable Streams protocol.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadStream {
    /// Below the address of this server.
    path: String,
    /// The end of its last entry.
    next_offset: String,
    closed: bool,
}

impl Thread {
    pub(super) fn new(id: &ThreadId, row: Row, stream: &StreamState) -> Self {
        Self {
            id: id.to_string(),
            status: row.status.into(),
            run: row.run.map(Into::into),
            parent: row
                .parent
                .map(|Parent::Thread { id }| ThreadParent::Thread { id: id.to_string() }),
            forked_from: row.forked_from.map(|id| id.to_string()),
            tags: row.tags,
            environment_id: row.environment_id,
            sandbox_id: row.sandbox_id,
            usage: row.usage.into(),
            created_at: stream.created_at.to_string(),
            updated_at: stream.last_access.to_string(),
            last_seen_at: stream.last_seen.map(|time| time.to_string()),
            stream: ThreadStream {
                path: stream_path(id),
                next_offset: stream.tail().to_string(),
                closed: stream.ending == Ending::Closed,
            },
        }
    }
}

/// Where a thread's stream is.
pub(super) fn stream_path(id: &ThreadId) -> String {
    format!("/v1/stream/{}{id}", holm_thread_log::threads::STREAM_PREFIX)
}

/// Everything may be left out.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateThread {
    /// 1 to 64 letters, digits, `-` and `_`; a second request with the same id and content finds the thread that is there. Without it, the
    /// server makes an id that sorts by time.
    #[serde(skip_serializing)]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<ThreadParent>,
    /// At most 32, each of 1 to 64 bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) environment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox_id: Option<String>,
    /// `open`, which is the default, or `idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<ThreadStatus>,
}

/// What is left out stays as it is; `null` takes it away.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpdateThread {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub(super) environment_id: Option<Option<String>>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub(super) sandbox_id: Option<Option<String>>,
}

/// Tells `null` from what is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadList {
    /// The last id first.
    pub(super) items: Vec<Thread>,
    /// For the next page; missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RebuiltThread {
    /// Whether the row was not what the entries say.
    pub(super) changed: bool,
    pub(super) thread: Thread,
}

/// An entry of a thread. Fields and types that are not known are kept as they are.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "entries are passed on as they are: this is for the document only"
)]
pub(super) struct Entry {
    /// A second entry with the same id is not stored.
    id: String,
    /// RFC 3339, or milliseconds since 1970.
    ts: serde_json::Value,
    #[schema(rename = "authorId")]
    author_id: Option<String>,
    payload: EntryPayload,
}

/// `type` is `chat`, or begins with `pi.`, `codex.`, `claude.` or `signal.`; the rest belongs to the type.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "entries are passed on as they are: this is for the document only"
)]
pub(super) struct EntryPayload {
    #[schema(rename = "type")]
    kind: String,
}

/// A page of entries.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "pages are put together from stored bytes: this is for the document only"
)]
pub(super) struct EntryPage {
    entries: Vec<Entry>,
    /// Where to read on.
    #[schema(rename = "nextOffset")]
    next_offset: String,
    /// Whether this was all there is, for now.
    #[schema(rename = "upToDate")]
    up_to_date: bool,
    /// Whether nothing will follow.
    closed: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AppendedEntries {
    /// The end of the thread's last entry.
    pub(super) next_offset: String,
    /// Whether all of them were there already.
    pub(super) duplicate: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MintToken {
    /// The run that will write. Without it, the server makes an id.
    pub(super) run: Option<String>,
    /// What it may do; everything if left out.
    pub(super) ops: Option<Vec<Operation>>,
    /// What `Producer-Id` has to be; the run's id if left out.
    pub(super) producer_id: Option<String>,
    /// At most, and if left out, two hours.
    pub(super) ttl_seconds: Option<u64>,
}

/// Shown once: the server does not keep it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MintedToken {
    pub(super) jwt: String,
    pub(super) expires_at: String,
    pub(super) run: String,
    pub(super) producer_id: String,
    /// Where it writes, below the address of this server.
    pub(super) stream_path: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadTicket {
    /// For `?ticket=` of the thread's stream, once.
    pub(super) ticket: String,
    pub(super) expires_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob {
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

/// How a request fails.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "errors are written by one layer for all routes: this is for the document only"
)]
pub(super) struct Failure {
    #[schema(rename = "statusCode")]
    status_code: u16,
    /// For machines: `token_expired`, `run_ended`, `NOT_FOUND`.
    code: String,
    /// For people: what is wrong and what to do.
    message: String,
    path: String,
    timestamp: String,
}
