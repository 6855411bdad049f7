//! The content of one file: by sharing its blocks, else by copying what is not a hole.

use std::os::fd::OwnedFd;

use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;

const BUFFER_BYTES: usize = 128 * 1024;

/// Copies contents, and remembers what the file system cannot do.
#[derive(Debug, Default)]
pub(super) struct Data {
    reflink: Reflink,
    in_kernel: InKernel,
    buffer: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reflink {
    #[default]
    Possible,
    Impossible,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum InKernel {
    #[default]
    Possible,
    Impossible,
}

impl Data {
    /// Copies a file and says how many files (one or none) share blocks now.
    pub(super) fn copy(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        found: &Stat,
    ) -> Result<u64, Errno> {
        let size = u64::try_from(found.st_size).unwrap_or(0);
        if size == 0 {
            return Ok(0);
        }
        if self.reflink == Reflink::Possible {
            match rustix::fs::ioctl_ficlone(target, source) {
                Ok(()) => return Ok(1),
                // Another file system, or one that shares nothing.
                Err(
                    Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL | Errno::NOSYS,
                ) => {
                    self.reflink = Reflink::Impossible;
                }
                Err(errno) => return Err(errno),
            }
        }
        let mut at = 0;
        while at < size {
            let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
                Ok(start) => start.min(size),
                // Nothing but a hole is left.
                Err(Errno::NXIO) => break,
                Err(errno) => return Err(errno),
            };
            let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(size);
            if end <= start {
                break;
            }
            self.copy_range(source, target, start, end)?;
            at = end;
        }
        rustix::fs::ftruncate(target, size)?;
        Ok(0)
    }

    fn copy_range(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        start: u64,
        end: u64,
    ) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let count = match self.in_kernel {
                InKernel::Possible => {
                    let (mut from, mut to) = (at, at);
                    let copied = rustix::fs::copy_file_range(
                        source,
                        Some(&mut from),
                        target,
                        Some(&mut to),
                        left,
                    );
                    match copied {
                        Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
                            self.in_kernel = InKernel::Impossible;
                            continue;
                        }
                        copied => copied?,
                    }
                }
                InKernel::Impossible => self.read_and_write(source, target, at, left)?,
            };
            if count == 0 {
                // Shorter than it was: somebody writes to a layer that should be at rest.
                return Err(Errno::STALE);
            }
            at += u64::try_from(count).unwrap_or(0);
        }
        Ok(())
    }

    fn read_and_write(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        at: u64,
        left: usize,
    ) -> Result<usize, Errno> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let wanted = self
            .buffer
            .get_mut(..left.min(BUFFER_BYTES))
            .unwrap_or_default();
        let count = rustix::io::pread(source, &mut *wanted, at)?;
        let mut rest = wanted.get(..count).unwrap_or_default();
        let mut to = at;
        while !rest.is_empty() {
            let written = rustix::io::pwrite(target, rest, to)?;
            rest = rest.get(written..).unwrap_or_default();
            to += u64::try_from(written).unwrap_or(0);
        }
        Ok(count)
    }
}
