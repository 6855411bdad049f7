//! The real binary, as a user sees it: whole outputs, real boxes.
//!
//! Tests below `kernel` make boxes and run one at a time. Those below `kernel::unprivileged` run twice in
//! CI, as root and as an ordinary user; those below `kernel::privileged` need root and say so.

#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "clippy takes the helpers of tests for production code"
)]

mod disks;
mod help;
mod help_sandbox;
mod hostile_server;
mod kernel;
mod readers;
mod serve;
mod serve_data;
mod server;
mod snapshot;
mod support;
mod thread;
mod thread_tls;
mod usage;
