//! Stores of streams, from outside.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "clippy takes the helpers of tests for production code"
)]

mod contract;
mod model;
mod postgres;
mod sqlite;
mod support;
