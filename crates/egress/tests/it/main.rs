//! The gateway as boxes meet it: real sockets, real TLS, real programs, and those who try to get past.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy takes the helpers of tests for production code"
)]

mod attacks;
mod direct;
mod http;
mod kernel;
mod limits;
mod programs;
mod secrets;
mod tunnels;
mod world;
