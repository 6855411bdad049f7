//! What exists: the sandboxes of all organisations, and every change of their state.
//!
//! ```text
//!            create                      stop                    archive
//!  (nothing) ──────▶ started ◀─────────────────────▶ stopped ◀──────────▶ archived
//!                     │   ▲           start              │        start
//!               pause ▼   │ start                        │
//!                    paused         any ──delete──▶ (nothing)
//! ```
//!
//! - A change of state holds the sandbox's gate; a second one is refused meanwhile, a deletion waits.
//! - A change is done to its end, even if the client has gone that asked for it.
//! - What is answered is in the store. Memory is a copy of it, so that reading costs nothing.
//!
//! **Invariant:** only this module changes a record, starts a box or ends one.

mod clocks;
mod create;
mod departed;
mod ending;
mod gate;
mod lifecycle;
mod pending;
mod phase;
mod registry;
mod restore;
mod sandbox;
mod saving;
mod settings;

pub(crate) use clocks::run as run_clocks;
pub(crate) use create::NewSandbox;
pub(crate) use phase::Phase;
pub use registry::{Sandboxes, StateChange};
pub(crate) use restore::restore;
pub use sandbox::Sandbox;
