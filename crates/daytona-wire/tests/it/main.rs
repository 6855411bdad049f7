//! The types against what the official SDKs really send and require.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of tests for production code"
)]

mod requests;
mod responses;
mod round_trip;
