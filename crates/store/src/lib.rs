//! What a Holm server must not forget.
//!
//! - [`Store`] opens the database, brings it to this version, and hands out transactions.
//! - [`Document`] is a thing with an id, an owner and a name; each kind has a table of its own.
//! - [`SqliteStreams`] keeps streams in the same database.
//! - [`PostgresStreams`] keeps streams in Postgres, for several servers over the same threads.
//! - [`sweep()`] removes streams whose time is over.
//!
//! This crate alone speaks SQL. It knows no HTTP, no boxes and no clock: times are given by the caller.
//! Calls of [`Store`] block for as long as the disk takes; a caller with an async runtime moves them off its workers.

mod document;
mod error;
mod postgres;
mod schema;
mod sqlite;
mod store;
mod sweep;

pub use document::{Document, Kind};
pub use error::{Result, StoreError};
pub use postgres::{PostgresError, PostgresOptions, PostgresStreams};
pub use schema::SCHEMA_VERSION;
pub use sqlite::{FailStop, SqliteOptions, SqliteStreams};
#[cfg(any(test, feature = "testing"))]
pub use sqlite::{Fault, FaultPoint, Faults};
pub use store::{Store, Transaction};
pub use sweep::{expire_overdue, sweep};
