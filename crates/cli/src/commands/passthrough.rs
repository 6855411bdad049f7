//! Hands a command's output on, byte by byte as it comes.
//!
//! A reader that is slow slows the command down, as in any pipe. It must not be able to hold up the end of
//! the command, though: the thread that writes here is the one that watches the timeout and Ctrl-C.
//! So nothing here blocks for longer than [`LOOK_AROUND`] without asking whether the command is still
//! wanted, and once it is not, a reader that has stopped reading gets [`STALL_PATIENCE`] to go on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holm_sandbox::{Interrupt, OutputSink, OutputStream};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FileType;

use crate::signals::Interruptions;

/// A pipe that is ready takes this much without blocking (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;
const LOOK_AROUND: Duration = Duration::from_millis(100);
const STALL_PATIENCE: Duration = Duration::from_secs(1);

/// Writes to this process's own standard output and standard error.
#[derive(Debug)]
pub(crate) struct PassThrough {
    stdout: Way,
    stderr: Way,
    end: End,
    failure: SharedFailure,
}

/// Why output could not be handed on, if so.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedFailure(Arc<Mutex<Option<io::Error>>>);

/// How to learn that the command is over, and how to bring that about.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) interruptions: Interruptions,
    pub(crate) requests: SyncSender<Interrupt>,
    pub(crate) deadline: Option<Instant>,
}

/// One of the two streams.
#[derive(Debug)]
struct Way {
    piece_bytes: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The reader is gone or has stopped reading; what comes is dropped.
    Closed,
}

enum Written {
    All,
    /// Nobody took it, and the command is not wanted any more.
    Stalled,
}

impl SharedFailure {
    pub(crate) fn take(&self) -> Option<io::Error> {
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<io::Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PassThrough {
    pub(crate) fn new(end: End, failure: SharedFailure) -> Self {
        Self {
            stdout: Way::to(io::stdout().as_fd()),
            stderr: Way::to(io::stderr().as_fd()),
            end,
            failure,
        }
    }
}

impl OutputSink for PassThrough {
    fn output(&mut self, stream: OutputStream, chunk: &[u8]) {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (way, descriptor) = match stream {
            OutputStream::Stdout => (&mut self.stdout, stdout.as_fd()),
            OutputStream::Stderr => (&mut self.stderr, stderr.as_fd()),
        };
        if way.state == State::Closed {
            return;
        }
        match way.write(descriptor, chunk, &self.end) {
            Ok(Written::All) => {}
            Ok(Written::Stalled) => way.state = State::Closed,
            Err(error) => {
                way.state = State::Closed;
                self.failure.slot().get_or_insert(error);
                // What nobody can read is not worth running for. A full queue holds a request already.
                let _ = self.end.requests.try_send(Interrupt::Kill);
            }
        }
    }
}

impl Way {
    fn to(descriptor: BorrowedFd<'_>) -> Self {
        let is_file = rustix::fs::fstat(descriptor)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
        Self {
            // A file never keeps us waiting.
            piece_bytes: if is_file { usize::MAX } else { PIPE_BYTES },
            state: State::Open,
        }
    }

    fn write(&self, descriptor: BorrowedFd<'_>, chunk: &[u8], end: &End) -> io::Result<Written> {
        let mut rest = chunk;
        while !rest.is_empty() {
            match wait_until_ready(descriptor, end)? {
                Written::All => {}
                Written::Stalled => return Ok(Written::Stalled),
            }
            let piece = rest.get(..self.piece_bytes).unwrap_or(rest);
            match rustix::io::write(descriptor, piece) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                // Interrupted, or another process of the same pipe was quicker.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Written::All)
    }
}

fn wait_until_ready(descriptor: BorrowedFd<'_>, end: &End) -> io::Result<Written> {
    let started = Instant::now();
    let pause = Timespec::try_from(LOOK_AROUND).map_err(io::Error::other)?;
    loop {
        let mut set = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
        match rustix::event::poll(&mut set, Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(Written::All),
            Err(error) => return Err(error.into()),
        }
        if end.is_near() && started.elapsed() >= STALL_PATIENCE {
            return Ok(Written::Stalled);
        }
    }
}

impl End {
    fn is_near(&self) -> bool {
        self.interruptions.killed_by().is_some()
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }
}
