//! The client against servers that behave, and against one that does not.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod create;
mod encryption;
mod hostile;
mod kernel;
mod lists;
mod requests;
mod retries;
mod scripted;
mod sockets;
mod transfers;
mod waiting;
