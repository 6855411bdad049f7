//! Writing the write-ahead log back into the database.
//!
//! ```text
//!     log is long ─▶ a thread writes it back, while commits go on ─▶ the committer writes back what came meanwhile ─▶ log begins anew
//! ```
//!
//! SQLite's own checkpoints hold up the commit that they follow, and keep their errors to themselves. A log begins anew only when all
//! of it is written back and nobody adds to it: the thread goes over it until little is left, and the committer takes that.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::failure::Failure;

/// How many pages the log has when it is written back: 8 MiB of them.
const PAGES: i32 = 2048;

/// What the committer takes upon itself, and how often the thread tries to leave no more.
const LEFT_PAGES_MAX: i32 = 128;
const PASSES_MAX: usize = 6;

/// A log that was longer, for a big entry or a slow reader, gives the space back.
const LENGTH_BYTES_MAX: i64 = 64 << 20;

/// The log, as the committer sees it.
#[derive(Debug)]
pub(super) struct Log {
    /// How long it is, as the last commit has told.
    pages: Arc<AtomicI32>,
    /// Where it is written back next.
    due_pages: i32,
    /// `None` while it is dropped.
    begin: Option<Sender<()>>,
    ended: Receiver<Result<(), Failure>>,
    is_being_written_back: bool,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// `beside` is a connection to the same database, for the thread.
    pub(super) fn follow(
        connection: &mut Connection,
        beside: Connection,
    ) -> Result<Self, crate::StoreError> {
        let pages = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&pages);
        let hooked = connection.wal_hook(Some(move |_: &mut Wal, pages| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        }));
        let limited = |()| connection.pragma_update(None, "journal_size_limit", LENGTH_BYTES_MAX);
        hooked
            .and_then(limited)
            .map_err(|source| crate::StoreError::Sql {
                doing: "follow the log of the database",
                source,
            })?;
        let length = Arc::clone(&pages);
        let (begin, begun) = channel();
        let (end, ended) = channel();
        let thread = std::thread::Builder::new()
            .name("stream-checkpoint".to_owned())
            .spawn(move || {
                while let Ok(()) = begun.recv() {
                    if end.send(write_most_back(&beside, &length)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|source| crate::StoreError::Thread { source })?;
        Ok(Self {
            pages,
            due_pages: PAGES,
            begin: Some(begin),
            ended,
            is_being_written_back: false,
            thread: Some(thread),
        })
    }

    /// An error of a sync is the end, as it is for a commit; no space is none: everything is in the log, which grows.
    pub(super) fn write_back_when_due(&mut self, connection: &Connection) -> Result<(), Failure> {
        if self.is_being_written_back {
            match self.ended.try_recv() {
                Err(TryRecvError::Empty) => return Ok(()),
                // Without the thread, the committer does it all.
                Err(TryRecvError::Disconnected) | Ok(Ok(())) => {}
                Ok(Err(failure)) => return Err(failure),
            }
            self.is_being_written_back = false;
            // Not tried again with each commit when a reader still needs the old pages.
            self.due_pages = self.pages.load(Ordering::Relaxed).saturating_add(PAGES);
            return write_back(connection).map(drop);
        }
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.due_pages {
            // The log has begun anew.
            self.due_pages = self.due_pages.min(pages + PAGES);
            return Ok(());
        }
        let begun = self.begin.as_ref().map(|begin| begin.send(()));
        self.is_being_written_back = begun.is_some();
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say any more.
            drop(thread.join());
        }
    }
}

/// While commits go on: what they add meanwhile is what the next pass finds.
fn write_most_back(connection: &Connection, length: &AtomicI32) -> Result<(), Failure> {
    for _ in 0..PASSES_MAX {
        let written = write_back(connection)?;
        if length.load(Ordering::Relaxed).saturating_sub(written) <= LEFT_PAGES_MAX {
            break;
        }
    }
    Ok(())
}

/// Says how much of the log is in the database; nothing that one can rely on if somebody else is at it.
fn write_back(connection: &Connection) -> Result<i32, Failure> {
    let checkpoint = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2));
    match checkpoint.map_err(|source| Failure::before_commit("write the log back", source)) {
        Ok(pages) => Ok(i32::max(pages, 0)),
        Err(Failure::Full(_) | Failure::Busy) => Ok(0),
        Err(failure) => Err(failure.made_unknown()),
    }
}
