//! The contract of all stores.

use std::sync::Arc;

use holm_store::{SqliteOptions, SqliteStreams};

use crate::contract::contract;
use crate::contract::tally::Tally;

fn start() -> Option<(SqliteStreams, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        rules: Arc::new(Tally),
        ..SqliteOptions::default()
    };
    let store = SqliteStreams::open(&folder.path().join("holm.db"), options).unwrap();
    Some((store, folder))
}

contract!(start());
