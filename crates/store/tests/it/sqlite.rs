//! Streams in SQLite.

mod disk;
mod kill;
mod model;
mod power_cut;
mod use_and_misuse;
