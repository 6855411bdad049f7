//! The server as its clients see it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "helpers of tests fail, wait and say what they skip like tests"
)]

mod kernel;
mod routes;
mod serving;
mod streams;
mod support;
mod threads;
mod tokens;
