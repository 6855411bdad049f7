//! One Daytona sandbox for a whole process: commands, files and patches of an agent go there instead of to this machine (seed 002).
//!
//! ```text
//! Provider::shared(config) ──first use──▶ Starting ──▶ Ready ──shutdown──▶ Closed
//!                              ▲              │ fails: nothing is left behind
//!                              └──────────────┘
//! paths ──PathMapper──▶ paths in the workspace ──▶ Files, Process, Ports of the toolbox
//! ```
//!
//! - Whoever asks first starts the sandbox; all others wait for the same one. A caller that goes away changes nothing.
//! - A sandbox that the server stopped for being idle is started again by the next call.
//! - What is written is compared afterwards, by length and SHA-256, and written in another way if it is not there.
//! - [`Provider::shutdown`] deletes the sandbox within a deadline; [`clean_up_on_exit`] does that at the end of the process and on signals.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use holm_sandbox_backends::daytona_provider::{Provider, ProviderConfig, clean_up_on_exit};
//!
//! let _sandboxes_are_deleted = clean_up_on_exit(Duration::from_secs(10))?;
//! let settings = holm_daytona_client::Settings::new("https://holm.example.org/api", "key");
//! let provider = Provider::shared(ProviderConfig::new(settings))?;
//! let outcome = provider.exec(holm_sandbox::Exec::new(["make", "test"])).await?;
//! # Ok(()) }
//! ```
//!
//! **Invariants:** no operation touches what is outside of the workspace, by name or over links; a patch is carried out as a whole or
//! not at all; a process that is killed leaves a sandbox that stops and deletes itself.

mod config;
mod error;
mod exec;
mod exit;
mod files;
mod live;
mod patching;
mod paths;
mod preview;
mod provider;
mod registry;
mod remote;
mod start;

pub use config::{AUTO_STOP_MINUTES_DEFAULT, ProviderConfig};
pub use error::{ProviderError, Result, StartError};
pub use exit::{ExitGuard, clean_up_on_exit};
pub use patching::PatchReport;
pub use paths::{LocalRoot, PathMapper, Rule};
pub use preview::{PortWatch, Preview};
pub use provider::{Provider, ShutdownReport};
pub use registry::shutdown_all;
