//! What a Holm sandbox is: the trait that every backend fulfils, and the pure rules that all of them share.
//!
//! This crate decides and describes; it does no I/O. There is no file, process, clock or environment in it, so every
//! rule here (confinement, quoting, redaction, truncation, limits) is a function of plain data.
//!
//! **Invariants:** redaction comes before truncation; a path is confined by its components; a secret cannot print
//! itself; a command is an argv.

mod backend;
mod capture;
mod error;
mod exec;
mod github;
mod limits;
mod path;
mod quote;
mod redact;
mod run_id;
mod sandbox;
mod secret;
mod truncate;

pub use backend::BackendKind;
pub use capture::{Capture, Captured, StreamRedactor};
pub use error::{ErrorKind, Result, SandboxError};
pub use exec::{
    DEFAULT_OPERATION_TIMEOUT, DEFAULT_RUN_TIMEOUT, EnvKey, Exec, ExecOutcome, Interrupt,
    MAX_OUTPUT_BYTES, OutputSink, OutputStream, Stdin, exit_code_for_signal,
};
pub use github::{GitHubRepo, is_local_path, parse_github_repo};
pub use limits::{parse_bytes, parse_cpus, parse_duration};
pub use path::{confine, confine_from};
pub use quote::shell_quote;
pub use redact::{REDACTED_BYTES_MIN, Redactor};
pub use run_id::RunId;
pub use sandbox::{
    BranchOrigin, Capabilities, DirEntry, FileKind, FileUpload, Isolation, KeptBranch, PushOutcome,
    Sandbox, SnapshotId, TeardownReport, UncommittedWork,
};
pub use secret::Secret;
pub use truncate::{TRUNCATION_MARKER, truncate, truncate_bytes};
