//! What the tests of several crates share: real repositories, a real Postgres, pictures of folders, a root file
//! system, TLS, and the one suite that every backend must pass.
//!
//! Only tests depend on this crate. It panics where a test would fail, because that is what it is for.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a fixture that cannot be made fails its test"
)]

pub mod conformance;
mod fingerprint;
mod git_server;
mod loopback;
mod postgres;
mod repository;
mod repository_kinds;
mod tiny_root;
mod tls;

pub use fingerprint::Fingerprint;
pub use git_server::{GitServer, Push, Served};
pub use loopback::own_loopback;
pub use postgres::{PostgresServer, Stop};
pub use repository::{TestRepository, TestRepositoryBuilder};
pub use tiny_root::{tiny_root, tiny_root_archive};
pub use tls::{TlsDoor, Vouched};
