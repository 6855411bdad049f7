//! A producer and a reader against a server that fails in every way that a network and a machine can.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes the helpers of tests for production code"
)]

mod crash;
mod encryption;
mod faulty;
mod producer;
mod reader;
mod server;
