//! Writing the write-ahead log back into the database.
//!
//! SQLite's own checkpoints hold up the commit that they follow, and keep their errors to themselves; the committer does it instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::failure::Failure;

/// How many pages the log has when it is written back: 8 MiB of them.
const PAGES: i32 = 2048;

/// A log that was longer, for a big entry or a slow reader, gives the space back.
const LENGTH_BYTES_MAX: i64 = 64 << 20;

/// How long the log is, as the last commit has told.
#[derive(Debug)]
pub(super) struct LogSize {
    pages: Arc<AtomicI32>,
    /// Where it is written back next.
    due_pages: i32,
}

impl LogSize {
    pub(super) fn follow(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        connection.pragma_update(None, "journal_size_limit", LENGTH_BYTES_MAX)?;
        Ok(Self {
            pages,
            due_pages: PAGES,
        })
    }

    /// An error of a sync is the end, as it is for a commit; no space is none: everything is in the log, which grows.
    pub(super) fn write_back_when_due(&mut self, connection: &Connection) -> Result<(), Failure> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.due_pages {
            // The log has begun anew.
            self.due_pages = self.due_pages.min(pages + PAGES);
            return Ok(());
        }
        // Not tried again with each commit when a reader still needs the old pages.
        self.due_pages = pages.saturating_add(PAGES);
        let checkpoint = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        match checkpoint.map_err(|source| Failure::before_commit("write the log back", source)) {
            Ok(()) | Err(Failure::Full(_) | Failure::Busy) => Ok(()),
            Err(failure) => Err(failure.made_unknown()),
        }
    }
}
