//! Sandboxes on this machine (seed 001, and seed 004's directory sandboxes).
//!
//! - [`LocalRuntime`] is the backend of one process: it makes, finds, lists and cleans up sandboxes.
//! - [`LocalSandbox`] is one of them and implements the contract.
//! - `create` makes it, `harvest` ends it and brings its work home; `record` is what is written down.
//! - `checkout` keeps one immutable tree per commit; `worktree` is what git knows of.
//! - `pool` prepares boxes ahead of time.
//! - `place` runs commands in a box or plainly; `inside` is git in the sandbox, trusted with nothing.

mod checkout;
mod commands;
mod config;
mod create;
mod environment;
mod errors;
mod git;
mod harvest;
mod import;
mod index;
mod inside;
mod options;
mod place;
mod pool;
mod private_git;
mod record;
mod remote;
mod repository;
mod runtime;
mod sandbox;
mod start;
mod worktree;

pub use config::{CacheLimits, LocalConfig};
pub use options::{CreateOptions, IsolationChoice, Nesting, Source};
pub use record::{IsolationKind, Record, RecordedLimits, SourceRecord, Stay};
pub use runtime::{Listed, LocalRuntime, Reaped, State};
pub use sandbox::LocalSandbox;
