//! Room on the disk behind the entries, for the records that send them: a disk that is full of entries could not be emptied otherwise.

use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::{Spool, SpoolError};

/// What entries leave free: enough for the limits and confirmations of a thousand batches.
const ROOM_BYTES: u64 = 64 << 10;

impl Spool {
    /// Has the disk give room to so many bytes, and to what follows them. If it has none, what is confirmed makes some.
    pub(super) fn make_room(&mut self, added: u64) -> Result<(), SpoolError> {
        match self.ask_for_room(added) {
            Err(full) if self.contents.acknowledged_here > 0 => {
                // The rest is written anew in the room that there is.
                if self.file.set_len(self.end).is_err() {
                    return Err(full);
                }
                self.room_end = self.end;
                if self.compact().is_err() {
                    // What was let go is wanted back.
                    drop(self.ask_for_room(0));
                    return Err(full);
                }
                self.ask_for_room(added)
            }
            asked => asked,
        }
    }

    fn ask_for_room(&mut self, added: u64) -> Result<(), SpoolError> {
        let needed = self.end.saturating_add(added).saturating_add(ROOM_BYTES);
        if needed <= self.room_end {
            return Ok(());
        }
        // More than needed if it can be had, so that not every entry asks.
        for room_end in [needed.saturating_add(ROOM_BYTES), needed] {
            let length = room_end - self.end;
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.end, length) {
                Ok(()) => {
                    self.room_end = room_end;
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                // A file system that cannot do it: then it is not asked again.
                Err(_) => {
                    self.room_end = u64::MAX;
                    return Ok(());
                }
            }
        }
        Err(SpoolError::Io {
            doing: "make room in",
            path: self.log_path(),
            source: io::ErrorKind::StorageFull.into(),
        })
    }
}
