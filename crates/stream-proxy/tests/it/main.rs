//! The proxy between a client and a server, both made of bytes: honest ones, and those that try to get around it.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of tests for production code"
)]

mod attacks;
mod encryption;
mod forwarding;
mod limits;
mod support;
