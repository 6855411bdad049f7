//! Streams in SQLite.

mod model;
