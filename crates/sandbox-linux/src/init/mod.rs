//! PID 1 of a box: performs the steps that make the box, then starts, watches and ends its commands.
//!
//! ```text
//! Waiting ──steps──▶ Locked down ──Stop, or all control connections gone──▶ exit
//! ```
//!
//! - `Waiting`: namespaces exist, nothing untrusted has run, init still has its creator's power.
//! - `Locked down`: the last step dropped that power for good. From here on init only forks commands.
//! - What the host parks here (`store`) is the memory of a server that may be restarted: the sockets of its
//!   commands stay open, and so the commands stay alive.
//! - When init exits the kernel kills every process of the box: there is no other way to clean up,
//!   and none is needed.
//!
//! **Invariants:** one thread, no lock, no allocation that depends on what a command does. Init trusts
//! its control connections and nothing else; commands cannot reach its descriptors or its memory.

mod launch;
mod oom_score;
mod questions;
mod store;

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Resource, Rlimit, WaitOptions, WaitStatus};

use crate::job::resize_terminal;
use crate::kernel::RealKernel;
use crate::process_tree;
use crate::protocol::{
    Answer, Exit, JobEvent, JobOrder, Launch, LaunchStage, OnDisconnect, Order, Reach, Then,
};
use crate::spec::BOX_USER;
use crate::{sys, wire};
use launch::{CommandLimits, LaunchError, Streams, launch};
use oom_score::OomScore;
use store::Store;

pub(crate) use launch::display_name;

/// Control connections served at once; one more is refused by closing it.
const CONNECTIONS_MAX: usize = 256;

/// A command that runs.
#[derive(Debug)]
struct Job {
    pid: i32,
    marker: String,
    socket: Option<OwnedFd>,
    disconnect: OnDisconnect,
    life: Life,
}

/// An ended command stays known while the host holds on to it: the host may still want to end what the
/// command left behind, and closing the socket first could cost the host the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Ended,
}

/// Whether init goes on.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    GoOn,
    Stop,
}

#[derive(Debug)]
struct Init {
    kernel: RealKernel,
    /// Whether a step has failed.
    broken: bool,
    controls: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
    held: Vec<OwnedFd>,
    signals: OwnedFd,
    jobs: Vec<Job>,
    store: Store,
    command_limits: CommandLimits,
    oom_score: Option<OomScore>,
}

/// Runs as PID 1 of the new namespaces until the box ends. `niceness` is what its commands get.
pub(crate) fn run(control: OwnedFd, niceness: i32) -> ! {
    sys::reset_signals();
    let Ok(signals) = sys::signal_descriptor(&[
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ]) else {
        sys::exit_now(1)
    };
    // The only effect of a failure is a less telling process list.
    let _unnamed = rustix::thread::set_name(c"holm-init");
    let (files, descriptors_max) = raise_descriptor_limit();
    let mut init = Init {
        kernel: RealKernel::default(),
        broken: false,
        controls: vec![control],
        listener: None,
        held: Vec::new(),
        signals,
        jobs: Vec::new(),
        store: Store::new(descriptors_max),
        command_limits: CommandLimits { files, niceness },
        oom_score: OomScore::open(),
    };
    while init.turn() == Flow::GoOn {}
    sys::exit_now(0)
}

/// What woke init up.
#[derive(Debug, Clone, Copy)]
enum Wake {
    Signal,
    Listener,
    Control(usize),
    Job(usize),
}

impl Init {
    /// One turn of the loop: wait, then handle everything that is ready.
    fn turn(&mut self) -> Flow {
        if self.controls.is_empty() && self.listener.is_none() {
            // Nobody can reach this box any more.
            return Flow::Stop;
        }
        let mut wakes = vec![Wake::Signal];
        let mut waited = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            wakes.push(Wake::Listener);
            waited.push(PollFd::new(listener, PollFlags::IN));
        }
        for (index, control) in self.controls.iter().enumerate() {
            wakes.push(Wake::Control(index));
            waited.push(PollFd::new(control, PollFlags::IN));
        }
        for (index, job) in self.jobs.iter().enumerate() {
            if let Some(socket) = &job.socket {
                wakes.push(Wake::Job(index));
                waited.push(PollFd::new(socket, PollFlags::IN));
            }
        }
        match rustix::event::poll(&mut waited, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Flow::GoOn,
            Err(_) => return Flow::Stop,
        }
        let ready = waited.iter().map(|fd| !fd.revents().is_empty());
        // From the back, so that removing an entry does not move those still to be handled.
        let ready: Vec<Wake> = wakes
            .into_iter()
            .zip(ready)
            .filter_map(|(wake, ready)| ready.then_some(wake))
            .collect();
        for wake in ready.into_iter().rev() {
            let flow = match wake {
                Wake::Signal => {
                    self.on_signals();
                    Flow::GoOn
                }
                Wake::Listener => {
                    self.on_connection();
                    Flow::GoOn
                }
                Wake::Control(index) => self.on_order(index),
                Wake::Job(index) => {
                    self.on_job_order(index);
                    Flow::GoOn
                }
            };
            if flow == Flow::Stop {
                return flow;
            }
        }
        Flow::GoOn
    }

    fn on_signals(&mut self) {
        while let Some(signal) = sys::read_signal(self.signals.as_fd()) {
            if signal == libc::SIGCHLD {
                self.reap();
            } else {
                // Whoever signals the box means what runs in it.
                for job in self.jobs.iter().filter(|job| job.life == Life::Running) {
                    drop(sys::kill(-job.pid, signal));
                }
            }
        }
        self.reap();
    }

    /// Takes the exit status of every ended process, ours or an orphan.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            let is_it = |job: &Job| job.pid == pid && job.life == Life::Running;
            let Some(index) = self.jobs.iter().position(is_it) else {
                continue;
            };
            let Some(job) = self.jobs.get_mut(index) else {
                continue;
            };
            job.life = Life::Ended;
            match &job.socket {
                // A host that is gone does not want to know, and closes the socket.
                Some(socket) => {
                    drop(wire::send(socket, &JobEvent::Exited(exit_of(status)), &[]));
                }
                None => drop(self.jobs.swap_remove(index)),
            }
        }
    }

    fn on_connection(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        let flags = rustix::net::SocketFlags::CLOEXEC;
        if let Ok(connection) = rustix::net::accept_with(listener, flags)
            && self.controls.len() < CONNECTIONS_MAX
        {
            self.controls.push(connection);
        }
    }

    fn on_order(&mut self, index: usize) -> Flow {
        let Some(control) = self.controls.get(index) else {
            return Flow::GoOn;
        };
        let Ok(Some((order, descriptors))) = wire::receive::<Order>(control) else {
            drop(self.controls.remove(index));
            return Flow::GoOn;
        };
        let answer = match order {
            Order::Perform { steps, then } => {
                self.kernel.hold(descriptors);
                // More steps may be on their way; a box that lacks one must not come to be.
                let first = self.broken.then_some(Answer::StepFailed {
                    index: 0,
                    errno: libc::ECANCELED,
                });
                let failure = first.or_else(|| {
                    steps.iter().enumerate().find_map(|(index, step)| {
                        let error = step.perform(&mut self.kernel).err()?;
                        Some(Answer::StepFailed {
                            index,
                            errno: error.raw_os_error().unwrap_or(libc::EIO),
                        })
                    })
                });
                self.broken |= failure.is_some();
                if failure.is_some() || then == Then::Serve {
                    self.kernel.release();
                }
                Some(failure.unwrap_or(Answer::Done))
            }
            Order::Hold => {
                self.held.extend(descriptors);
                None
            }
            Order::Listen => {
                self.listener = descriptors.into_iter().next();
                None
            }
            Order::Start(order) => {
                self.start(&order, descriptors);
                None
            }
            Order::Ask(question) => {
                self.answer(question, descriptors);
                None
            }
            Order::Stop => return Flow::Stop,
        };
        if let (Some(answer), Some(control)) = (answer, self.controls.get(index)) {
            // A host that does not listen to the answer will close the connection too.
            drop(wire::send(control, &answer, &[]));
        }
        Flow::GoOn
    }

    fn start(&mut self, order: &Launch, descriptors: Vec<OwnedFd>) {
        // The dead count against the box's limit until they are reaped. The jobs that woke us in this
        // turn have been handled before any order, so their places in the list may change.
        self.reap();
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            return;
        };
        let mut master = None;
        let streams = match order.terminal {
            Some(size) => open_terminal(size, order.user).map(|(opened, path)| {
                master = Some(opened);
                Streams::Terminal(path)
            }),
            None => match (descriptors.next(), descriptors.next(), descriptors.next()) {
                (Some(stdin), Some(stdout), Some(stderr)) => {
                    Ok(Streams::Three([stdin, stdout, stderr]))
                }
                _ => Err(LaunchError {
                    stage: LaunchStage::Streams,
                    errno: libc::EINVAL,
                }),
            },
        };
        if let Some(score) = &self.oom_score {
            score.become_commands();
        }
        let event = match streams.and_then(|streams| launch(order, &streams, &self.command_limits))
        {
            Ok(pid) => {
                let copy = rustix::io::fcntl_dupfd_cloexec(&socket, 0).ok();
                self.jobs.push(Job {
                    pid,
                    marker: order.marker.clone(),
                    socket: copy,
                    disconnect: order.disconnect,
                    life: Life::Running,
                });
                JobEvent::Started { pid }
            }
            Err(error) => JobEvent::NotStarted {
                stage: error.stage,
                errno: error.errno,
            },
        };
        let descriptors: Vec<_> = master.iter().map(AsFd::as_fd).collect();
        // A host that is gone is noticed by its closed job socket.
        drop(wire::send(&socket, &event, &descriptors));
        // Last of all: a new program borrows our memory for a moment longer, and with it our score.
        if let Some(score) = &self.oom_score {
            score.become_inits();
        }
    }

    fn on_job_order(&mut self, index: usize) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let Some(socket) = &job.socket else { return };
        match wire::receive::<JobOrder>(socket) {
            Ok(Some((JobOrder::Signal { signal, reach }, _))) => match (job.life, reach) {
                (Life::Running, Reach::Group) => drop(sys::kill(-job.pid, signal)),
                (Life::Running, Reach::Tree) => {
                    process_tree::signal(job.pid, &job.marker, signal);
                }
                (Life::Running, Reach::StartedSince { ticks }) => {
                    process_tree::signal_started_since(job.pid, ticks, signal);
                }
                // The group's number may be another's by now, and its children are nobody's.
                (Life::Ended, Reach::Group | Reach::StartedSince { .. }) => {}
                (Life::Ended, Reach::Tree) => process_tree::signal_leftovers(&job.marker, signal),
            },
            Ok(None) | Err(_) => match (job.life, job.disconnect) {
                (Life::Ended, _) => drop(self.jobs.remove(index)),
                (Life::Running, OnDisconnect::Kill) => {
                    job.socket = None;
                    process_tree::signal(job.pid, &job.marker, libc::SIGKILL);
                }
                (Life::Running, OnDisconnect::Keep) => job.socket = None,
            },
        }
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Stops and continuations are not asked for; a missing status is a failure.
        (None, None) => Exit::Lost,
    }
}

/// Lets init hold as many descriptors as it may. Returns the limit as it was, which commands get back (programs
/// that use `select` do not stand a higher one), and how many may be parked.
fn raise_descriptor_limit() -> (Option<Rlimit>, usize) {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    let restore = rustix::process::setrlimit(Resource::Nofile, raised).is_ok();
    let limit = if restore {
        before.maximum
    } else {
        before.current
    };
    // The other half is for connections and commands.
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok());
    (restore.then_some(before), half.unwrap_or(usize::MAX))
}

fn open_terminal(
    size: crate::protocol::TerminalSize,
    user: Option<(u32, u32)>,
) -> Result<(OwnedFd, CString), LaunchError> {
    use rustix::pty::OpenptFlags;
    let failed = |error: rustix::io::Errno| LaunchError {
        stage: LaunchStage::Terminal,
        errno: error.raw_os_error(),
    };
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).map_err(failed)?;
    rustix::pty::unlockpt(&master).map_err(failed)?;
    let path = rustix::pty::ptsname(&master, Vec::new()).map_err(failed)?;
    // The box's own user has them anyhow.
    if let Some((uid, gid)) = user.filter(|(uid, _)| *uid != BOX_USER) {
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(uid),
            rustix::fs::Gid::from_raw(gid),
        );
        rustix::fs::chown(path.as_c_str(), Some(uid), Some(gid)).map_err(failed)?;
    }
    resize_terminal(master.as_fd(), size).map_err(LaunchError::at(LaunchStage::Terminal))?;
    Ok((master, path))
}
