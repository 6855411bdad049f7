//! The server as its clients see it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail and wait like tests"
)]

mod kernel;
mod routes;
mod serving;
mod streams;
mod support;
mod threads;
mod tokens;
