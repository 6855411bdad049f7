//! Daytona's API over boxes on one's own machine.
//!
//! ```text
//! HTTP ──▶ app ──▶ api      (control plane: sandboxes, snapshots, volumes, keys)   ──▶ sandboxes ──▶ machines ──▶ engine
//!            └───▶ toolbox  (inside one sandbox: processes, files, git, terminals) ──▶ machine ────▶ init of its box
//! ```
//!
//! - [`sandboxes`] owns what exists: the registry, the transitions between states, the clocks that stop and delete.
//! - [`machines`] turns a sandbox's record into a running box and finds it again after a restart.
//! - [`operator`] changes snapshots from beside a server.
//! - [`api`] and [`toolbox`] translate between Daytona's protocol and the two above; they decide nothing.
//!
//! **Invariants:** a change is written to the store before it is made or answered. Another organisation's sandbox does
//! not exist. This crate makes no system call of its own: the engine does, and blocking calls leave the workers.

mod accept;
pub mod api;
mod app;
mod auth;
mod buffers;
mod builds;
mod builtin;
mod clock;
mod config;
mod error;
mod events;
pub mod keys;
mod known_keys;
pub mod machines;
mod metrics;
mod missing;
pub mod operator;
mod preview;
pub mod records;
mod request;
pub mod sandboxes;
mod serve;
mod snapshots;
mod ssh;
mod state;
mod streams;
pub mod threads;
mod tls;
mod tokens;
pub mod toolbox;

pub use config::{
    LONG_POLL_TIMEOUT, LocalCalls, ServerConfig, ServerLimits, StreamsPlace, TlsFiles,
};
pub use error::{ApiError, ServeError};
pub use holm_images::BuildNetwork;
pub use serve::{Server, ServerHandle};
