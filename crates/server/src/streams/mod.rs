//! Durable streams over HTTP, at `/v1/stream/{name}` and its alias `/api/stream/{name}`.
//!
//! ```text
//! request ──▶ access (who asks, what may they) ──▶ one file for each operation ──▶ StreamStore
//! ```
//!
//! - `access` finds out who asks. The name of a stream is stored below its organisation's id, so nobody can name another's.
//! - What streams mean is decided in `thread-log`; here requests become commands, and decisions become answers.

pub(crate) mod access;
