//! Carries a running command to its end: output, deadline, interruption, clean-up of its processes.
//!
//! ```text
//! Running ──deadline or kill──▶ Asked to end (SIGTERM) ──patience──▶ Killed (SIGKILL)
//!    │                               │                                 │
//!    └───────────── exit ────────────┴─────────────────────────────────┘
//!                     │
//!                 Draining ──end of output, or silence──▶ done
//! ```
//!
//! Output is handed on in pieces as it comes: nothing is collected here, so a command may write
//! 10 GiB. A background process that keeps the streams open does not hold the caller: when the command
//! itself has ended, only what is already written is waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::Result;
use crate::job::Job;
use crate::protocol::{Exit, Reach};

/// Between SIGTERM and SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_secs(2);
/// After SIGKILL, until the command is given up as lost.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// After the exit, until streams that somebody keeps open are left to them.
const DRAIN_PATIENCE: Duration = Duration::from_millis(100);
/// After the exit in all: somebody who keeps writing is not waited for.
const DRAIN_MAX: Duration = Duration::from_millis(500);
const PIECE_BYTES: usize = 64 * 1024;

/// Which stream a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Stdout,
    Stderr,
}

/// A command that can be watched and signalled: in a box or plain.
pub trait Running {
    /// Becomes readable when the command has ended.
    fn exit_descriptor(&self) -> BorrowedFd<'_>;
    fn signal(&self, signal: i32, reach: Reach) -> Result<()>;
    /// Takes the exit status; called once, when the descriptor is readable.
    fn take_exit(&self) -> Result<Exit>;
}

impl Running for Job {
    fn exit_descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
    fn signal(&self, signal: i32, reach: Reach) -> Result<()> {
        Self::signal(self, signal, reach)
    }
    fn take_exit(&self) -> Result<Exit> {
        self.wait()
    }
}

/// What a caller may send through the interruption pipe, as one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Interruption {
    /// Pass SIGINT on and let the command end by itself.
    Drain = b'd',
    /// End it now.
    Kill = b'k',
}

/// The host's ends of a command's streams, and what bounds it.
#[derive(Debug)]
pub struct Pump<'a> {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub deadline: Option<Instant>,
    /// A pipe on which [`Interruption`]s arrive.
    pub interruptions: Option<BorrowedFd<'a>>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub exit: Exit,
    pub cause: Cause,
}

/// Who ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Itself,
    Deadline,
    Interruption,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    Asked {
        until: Instant,
    },
    Killed {
        until: Instant,
    },
    Draining {
        exit: Exit,
        until: Instant,
        at_most_until: Instant,
    },
}

impl Pump<'_> {
    /// Runs until the command has ended and its output has been handed on.
    pub fn run(
        self,
        running: &dyn Running,
        output: &mut dyn FnMut(Source, &[u8]),
    ) -> Result<Ended> {
        let mut streams = [Some(self.stdout), Some(self.stderr)];
        let mut interruptions = self.interruptions;
        let mut piece = vec![0; PIECE_BYTES];
        let mut phase = Phase::Running;
        let mut cause = Cause::Itself;
        loop {
            if let Phase::Draining { exit, until, .. } = phase
                && (streams.iter().all(Option::is_none) || Instant::now() >= until)
            {
                return Ok(Ended { exit, cause });
            }
            let ready = wait(running, &streams, interruptions, phase, self.deadline)?;
            for (index, source) in [Source::Stdout, Source::Stderr].into_iter().enumerate() {
                let Some(slot) = streams.get_mut(index) else {
                    continue;
                };
                if !ready.streams.get(index).copied().unwrap_or_default() {
                    continue;
                }
                let Some(stream) = slot else { continue };
                match rustix::io::read(&*stream, &mut piece) {
                    Ok(0) => *slot = None,
                    Ok(count) => {
                        output(source, piece.get(..count).unwrap_or_default());
                        if let Phase::Draining {
                            exit,
                            at_most_until,
                            ..
                        } = phase
                        {
                            // Still talking: patience counts from the last word.
                            let until = at_most_until.min(Instant::now() + DRAIN_PATIENCE);
                            phase = Phase::Draining {
                                exit,
                                until,
                                at_most_until,
                            };
                        }
                    }
                    Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                    // A terminal reports its hang-up as an error.
                    Err(_) => *slot = None,
                }
            }
            if ready.interruption {
                match read_interruption(interruptions) {
                    Some(Interruption::Drain) => running.signal(libc::SIGINT, Reach::Group)?,
                    Some(Interruption::Kill) => {
                        cause = Cause::Interruption;
                        running.signal(libc::SIGKILL, Reach::Tree)?;
                        phase = killed(phase);
                    }
                    None => interruptions = None,
                }
            }
            if ready.exit && !matches!(phase, Phase::Draining { .. }) {
                if cause != Cause::Itself {
                    // Whatever the dying command left behind goes with it. Before its status is taken:
                    // a plain process's number is its own until then.
                    running.signal(libc::SIGKILL, Reach::Tree)?;
                }
                let exit = running.take_exit()?;
                let now = Instant::now();
                let (until, at_most_until) = (now + DRAIN_PATIENCE, now + DRAIN_MAX);
                phase = Phase::Draining {
                    exit,
                    until,
                    at_most_until,
                };
                continue;
            }
            let now = Instant::now();
            phase = match phase {
                Phase::Running if self.deadline.is_some_and(|deadline| now >= deadline) => {
                    cause = Cause::Deadline;
                    running.signal(libc::SIGTERM, Reach::Tree)?;
                    Phase::Asked {
                        until: now + TERM_PATIENCE,
                    }
                }
                Phase::Asked { until } if now >= until => {
                    running.signal(libc::SIGKILL, Reach::Tree)?;
                    killed(phase)
                }
                Phase::Killed { until } if now >= until => {
                    return Ok(Ended {
                        exit: Exit::Lost,
                        cause,
                    });
                }
                Phase::Running
                | Phase::Asked { .. }
                | Phase::Killed { .. }
                | Phase::Draining { .. } => phase,
            };
        }
    }
}

fn killed(phase: Phase) -> Phase {
    match phase {
        Phase::Draining { .. } => phase,
        Phase::Running | Phase::Asked { .. } | Phase::Killed { .. } => Phase::Killed {
            until: Instant::now() + KILL_PATIENCE,
        },
    }
}

fn read_interruption(pipe: Option<BorrowedFd<'_>>) -> Option<Interruption> {
    let mut byte = [0];
    match rustix::io::read(pipe?, &mut byte) {
        Ok(1) if byte == [b'd'] => Some(Interruption::Drain),
        Ok(1) => Some(Interruption::Kill),
        Ok(_) | Err(_) => None,
    }
}

#[derive(Debug, Default)]
struct Ready {
    streams: [bool; 2],
    exit: bool,
    interruption: bool,
}

fn wait(
    running: &dyn Running,
    streams: &[Option<OwnedFd>; 2],
    interruptions: Option<BorrowedFd<'_>>,
    phase: Phase,
    deadline: Option<Instant>,
) -> Result<Ready> {
    let exit = running.exit_descriptor();
    let exit = match phase {
        // Its end is known; the descriptor would be ready for ever.
        Phase::Draining { .. } => None,
        Phase::Running | Phase::Asked { .. } | Phase::Killed { .. } => Some(exit),
    };
    let watched = [
        streams[0].as_ref().map(AsFd::as_fd),
        streams[1].as_ref().map(AsFd::as_fd),
        exit,
        interruptions,
    ];
    let mut set: Vec<PollFd<'_>> = watched
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let until = match phase {
        Phase::Running => deadline,
        Phase::Asked { until } | Phase::Killed { until } | Phase::Draining { until, .. } => {
            Some(until)
        }
    };
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match rustix::event::poll(&mut set, left.as_ref()) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
        Err(error) => {
            return Err(crate::EngineError::Control {
                doing: "watch a command in",
                id: String::new(),
                source: io::Error::from(error),
            });
        }
    }
    let mut results = set.iter().map(|fd| !fd.revents().is_empty());
    let mut next =
        |slot: &Option<BorrowedFd<'_>>| slot.is_some() && results.next().unwrap_or_default();
    Ok(Ready {
        streams: [next(&watched[0]), next(&watched[1])],
        exit: next(&watched[2]),
        interruption: next(&watched[3]),
    })
}
