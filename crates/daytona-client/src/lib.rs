//! A client of Daytona's API: sandboxes, and what can be done inside of them.
//!
//! ```text
//! Client ──▶ create, get, list, start, stop, delete, …      control plane, at the address of the settings
//!    └─────▶ Toolbox ──▶ process, sessions, terminals, files, git      at the sandbox's own `toolboxProxyUrl`
//! ```
//!
//! It works against Daytona's cloud and against `holm serve` alike and uses nothing that only one of them has.
//!
//! - **Every call ends.** [`Deadlines`] bound a call with all its tries; streams are bounded by the longest silence.
//! - **Nothing happens twice.** A call is tried again if no connection came about, if the server was too busy (429), or
//!   if doing it twice is the same as doing it once. [`Client::create`] is: it gives each sandbox a name of its own.
//! - **Memory is bounded.** Answers have a limit, files and logs are streams.
//! - **Keys do not print.** Neither `Debug` nor an error shows the key, or an address that may hold a token.

mod answer;
mod client;
mod create;
mod download;
mod error;
mod files;
mod git;
mod list;
mod process;
mod request;
mod retry;
mod sandboxes;
mod sessions;
mod settings;
mod snapshots;
mod socket;
mod terminals;
mod text;
mod toolbox;
mod upload;
mod wait;

pub use holm_daytona_wire as wire;
pub use holm_sandbox::Secret;

pub use client::Client;
pub use create::PreparedCreate;
pub use download::{Download, DownloadPart, Downloads};
pub use error::{ApiError, Cause, ClientError, Result};
pub use files::{Files, Permissions, Recurse};
pub use git::{Credentials, Git};
pub use list::{ListQuery, Sandboxes};
pub use process::Process;
pub use retry::RetryPolicy;
pub use sandboxes::{Deletion, StopManner};
pub use sessions::{FollowedLog, InputEcho, Sessions};
pub use settings::{DEFAULT_API_URL, Deadlines, Settings};
pub use terminals::{NewTerminal, Terminal, TerminalEvent, TerminalInput, Terminals};
pub use text::TextDecoder;
pub use toolbox::Toolbox;
pub use upload::Upload;
