//! The gateway with real clients.
