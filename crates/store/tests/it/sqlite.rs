//! Streams in SQLite.

mod contract;
mod disk;
mod kill;
mod model;
mod power_cut;
mod use_and_misuse;
