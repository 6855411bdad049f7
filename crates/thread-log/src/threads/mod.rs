//! Threads: streams whose entries say what a coding agent did, and the row that follows from them.
//!
//! - [`ThreadId`] and the name of its stream.
//! - [`ThreadEntry`] is one entry; [`Signal`] is an entry that changes the thread's [`Row`].
//! - [`Row::apply`] is the fold; [`ThreadRules`] runs it while an append is decided, so a row is always what the entries say.
//! - [`admit`] checks what a client sends, before it waits for the store.
//!
//! ```text
//!     open, idle ──status_changed: running──▶ running ──completed, failed, cancelled, *_failed, *_session_orphaned──▶ ended
//!         ▲                                                                                                            │
//!         └──────────────────────────── another run, or any status from whoever has an API key ◀───────────────────────┘
//! ```
//!
//! **Invariants:** folding a stream's entries gives its row. A run that has ended, or that another has followed, cannot write. The end of a
//! run does not close its thread. What tells the time in a row comes from entries, whose writers may lie: nothing is decided by it.

mod admit;
mod entry;
mod id;
mod rebuild;
mod row;
mod rules;
mod signal;

pub use admit::{Admitted, NotAdmitted, admit};
pub use entry::{Agent, ENTRY_BYTES_MAX, EntryError, Group, ThreadEntry};
pub use id::{STREAM_PREFIX, ThreadId, ThreadIdError};
pub use rebuild::Rebuilding;
pub use row::{Row, Run, RunState, Status, Usage};
pub use rules::{COLLECTION, Refused, Term, ThreadRules, code, row_key};
pub use signal::{Details, Failure, Parent, RunId, RunIdError, Signal, Update};

#[cfg(test)]
mod tests;
