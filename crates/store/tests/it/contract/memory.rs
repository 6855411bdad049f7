//! The store in memory, which others are compared with, holds the contract itself.

use std::sync::Arc;

use holm_thread_log::MemoryStore;

use super::contract;
use super::tally::Tally;

contract!(Some((MemoryStore::new(Arc::new(Tally)), ())));
