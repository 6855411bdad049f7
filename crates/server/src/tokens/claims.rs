//! What a token says.

use holm_thread_log::StreamId;
use holm_thread_log::threads::{RunId, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who signs.
pub(super) const ISSUER: &str = "holm";
/// What for.
pub(super) const AUDIENCE: &str = "threads";
/// A token lives at most so long.
pub(crate) const TTL_SECONDS_MAX: u64 = 2 * 60 * 60;
/// How far two clocks may differ: a token is good so long before and after its time.
pub(crate) const SKEW_SECONDS_MAX: u64 = 60;

/// Names as in RFC 7519, where it has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) aud: String,
    /// Seconds since 1970, as `exp`.
    pub(crate) iat: u64,
    pub(crate) exp: u64,
    /// Tells tokens apart in logs.
    pub(crate) jti: String,
    /// The organisation: the house, as others call it.
    pub(crate) org: String,
    /// The one thread.
    pub(crate) thr: ThreadId,
    /// Which one of that id: after it is deleted, another may have it.
    pub(crate) sid: StreamId,
    /// The run that writes.
    pub(crate) sub: RunId,
    pub(crate) ops: Vec<Operation>,
    /// What `Producer-Id` has to be.
    pub(crate) pid: String,
}

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Entries and blobs.
    Append,
    Heartbeat,
    Read,
}

impl Operation {
    /// What a run needs.
    pub(crate) const OF_A_RUN: [Self; 3] = [Self::Append, Self::Heartbeat, Self::Read];
}
