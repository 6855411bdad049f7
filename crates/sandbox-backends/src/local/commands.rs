//! The commands that run in a sandbox now, so that they can be ended from outside: by the teardown, and
//! when nobody waits for them any longer.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_sandbox_linux::pump::Interruption;

/// A killed command is gone in milliseconds; one that hangs in the kernel is not waited for.
const END_PATIENCE: Duration = Duration::from_secs(12);

/// The pipe through which a command is told to end. Both ends live as long as any copy, so writing to
/// it never meets a closed pipe.
#[derive(Debug, Clone)]
pub(crate) struct Cancel(Arc<(PipeReader, PipeWriter)>);

impl Cancel {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(io::pipe()?)))
    }

    pub(crate) fn reader(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }

    pub(crate) fn send(&self, interruption: Interruption) -> io::Result<()> {
        (&self.0.1).write_all(&[interruption as u8])
    }
}

/// Kills its command when it is dropped, unless the command ended before.
#[derive(Debug)]
pub(crate) struct KillOnDrop(pub(crate) Option<Cancel>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            // A command whose pipe is full has been told often enough.
            drop(cancel.send(Interruption::Kill));
        }
    }
}

/// Every command that runs.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    running: BTreeMap<u64, Cancel>,
}

/// A command that runs as long as this value lives.
#[derive(Debug)]
pub(crate) struct RunningCommand<'a> {
    commands: &'a Commands,
    number: u64,
}

impl Commands {
    pub(crate) fn begin(&self, cancel: Cancel) -> RunningCommand<'_> {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.running.insert(number, cancel);
        RunningCommand {
            commands: self,
            number,
        }
    }

    /// Kills all and waits until they are gone.
    pub(crate) fn end_all(&self) {
        let table = self.table();
        for cancel in table.running.values() {
            drop(cancel.send(Interruption::Kill));
        }
        let waited = self
            .ended
            .wait_timeout_while(table, END_PATIENCE, |table| !table.running.is_empty());
        drop(waited);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        self.commands.table().running.remove(&self.number);
        self.commands.ended.notify_all();
    }
}
