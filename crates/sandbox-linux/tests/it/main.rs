//! Real boxes on the real kernel, as root and as an ordinary user.
//!
//! Tests below `kernel::unprivileged` run twice in CI, once as either. Those below `kernel::privileged`
//! plant things on the host that only root can plant.

#![expect(
    unsafe_code,
    reason = "the probes make system calls that no library offers"
)]
#![expect(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "clippy takes the helpers of tests for production code"
)]

mod image;
mod kernel;
mod plain;
mod probe;
mod support;
