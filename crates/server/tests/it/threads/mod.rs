//! Threads, as clients see them.

mod blobs;
mod client;
mod entries;
mod lists;
mod making;
mod restarts;
mod runs;
mod shared;

pub(crate) use client::{Content, ThreadsClient, chat, entry, status};
