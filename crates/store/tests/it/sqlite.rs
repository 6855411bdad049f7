//! Streams in SQLite.

mod contract;
mod disk;
mod growth;
mod kill;
mod model;
mod moving;
mod power_cut;
mod run_end;
mod use_and_misuse;
