//! Daytona's protocol as data: what `holm serve` and a client of it agree on.
//!
//! The crate does no I/O and has no clock. It holds the bodies of requests and answers, the error envelopes, the session
//! log with its markers, signed file addresses, the switches on the client's version, and a table of all operations.
//!
//! - **Reading is tolerant.** Unknown fields are ignored, a missing or null field has its default, an unknown word of an
//!   enum is kept as it came. Whether a request makes sense is for the server to say, with a message of its own.
//! - **Writing is complete.** All keys that the strictest client requires are always there; integers are written as
//!   integers, maps are never null.
//! - Times are RFC 3339 with milliseconds and `Z`, as text.

#[macro_use]
mod macros;

pub mod api_key;
pub mod config;
pub mod error;
pub mod events;
pub mod files;
pub mod git;
mod hidden;
pub mod interpreter;
pub mod log;
pub mod lsp;
pub mod multipart;
pub mod organization;
pub mod preview;
pub mod process;
pub mod pty;
pub mod routes;
pub mod sandbox;
pub mod secret;
pub mod session;
pub mod signature;
pub mod snapshot;
pub mod ssh;
pub mod storage;
pub mod subprotocol;
pub mod system;
mod tolerant;
pub mod version;
pub mod volume;
pub mod warm_pool;

pub use hidden::Hidden;
pub use tolerant::StringMap;
