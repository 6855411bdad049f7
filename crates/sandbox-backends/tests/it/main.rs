//! The local backend on a real host, with boxes and without.
//!
//! Tests below `kernel::` make boxes. Those in a module `unprivileged` run twice in CI, as root and as
//! an ordinary user; those in `kernel::privileged` need root.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail and speak like tests"
)]

mod criteria;
mod daytona;
mod seed_004;

mod kernel;
mod plain;
mod support;
