//! Commands without isolation: plain processes of the host, ended as thoroughly as boxed ones.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, PidfdFlags};

use crate::error::{EngineError, Result};
use crate::process_tree::{self, MARKER_VARIABLE};
use crate::protocol::{Exit, Reach};
use crate::pump::Running;
use crate::step::Owner;
use crate::sys;

/// A command to run on the host.
#[derive(Debug, Clone)]
pub struct PlainCommand {
    pub argv: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// Ids to run as; only root can ask for others than its own.
    pub user: Option<Owner>,
}

/// A plain process in a session of its own. Dropping it kills its tree.
///
/// It ends with the *thread* that started it, as the kernel counts parents: run its pump there.
#[derive(Debug)]
pub struct PlainProcess {
    child: Mutex<Watched>,
    pid: i32,
    pidfd: OwnedFd,
    marker: String,
}

#[derive(Debug)]
struct Watched {
    child: Child,
    status: Status,
}

/// Once its status was taken, a process's number may be another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    NotTaken,
    Taken,
}

impl PlainCommand {
    /// Starts it with the given standard streams.
    pub fn start(&self, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<PlainProcess> {
        let program = self.argv.first().cloned().unwrap_or_default();
        let name = program.to_string_lossy().into_owned();
        let marker = crate::random_hex();
        let mut command = std::process::Command::new(&program);
        command
            .args(self.argv.get(1..).unwrap_or_default())
            .env_clear()
            .env(MARKER_VARIABLE, &marker)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&self.cwd)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        let parent = rustix::process::getpid();
        let own_session = move || {
            rustix::process::setsid()?;
            // The caller's death must not leave the command behind.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // A parent that died before the line above would never be noticed.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        };
        // SAFETY: the closure makes three system calls and touches no memory of the parent.
        unsafe { command.pre_exec(own_session) };
        let child = command.spawn().map_err(|source| {
            let program = name.clone();
            if source.kind() != io::ErrorKind::NotFound {
                return EngineError::CommandNotExecutable { program, source };
            }
            if self.cwd.is_dir() {
                return EngineError::CommandNotFound { program };
            }
            EngineError::Launch {
                stage: "enter the working directory".into(),
                program,
                source,
            }
        })?;
        let failed = |source: io::Error| EngineError::Launch {
            stage: "watch the process".into(),
            program: name.clone(),
            source,
        };
        let pid = i32::try_from(child.id()).map_err(|error| failed(io::Error::other(error)))?;
        let pidfd = Pid::from_raw(pid)
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))
            .and_then(|pid| {
                rustix::process::pidfd_open(pid, PidfdFlags::empty())
                    .map_err(|error| failed(error.into()))
            })?;
        Ok(PlainProcess {
            child: Mutex::new(Watched {
                child,
                status: Status::NotTaken,
            }),
            pid,
            pidfd,
            marker,
        })
    }
}

impl PlainProcess {
    /// Its number on the host, for as long as its exit was not taken.
    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

impl Running for PlainProcess {
    fn exit_descriptor(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn signal(&self, signal: i32, reach: Reach) -> Result<()> {
        let watched = self
            .child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match (watched.status, reach) {
            (Status::Taken, Reach::Group | Reach::StartedSince { .. }) => Ok(()),
            (Status::Taken, Reach::Tree) => {
                process_tree::signal_leftovers(&self.marker, signal);
                Ok(())
            }
            (Status::NotTaken, Reach::Group) => {
                sys::kill(-self.pid, signal).map_err(|source| EngineError::Control {
                    doing: "signal a process of",
                    id: self.pid.to_string(),
                    source,
                })
            }
            (Status::NotTaken, Reach::StartedSince { ticks }) => {
                process_tree::signal_started_since(self.pid, ticks, signal);
                Ok(())
            }
            (Status::NotTaken, Reach::Tree) => {
                process_tree::signal(self.pid, &self.marker, signal);
                Ok(())
            }
        }
    }

    fn take_exit(&self) -> Result<Exit> {
        use std::os::unix::process::ExitStatusExt;
        let mut watched = self
            .child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let status = watched
            .child
            .wait()
            .map_err(|source| EngineError::Control {
                doing: "wait for a process of",
                id: self.pid.to_string(),
                source,
            })?;
        watched.status = Status::Taken;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Lost,
        })
    }
}

impl Drop for PlainProcess {
    fn drop(&mut self) {
        let Watched { child, .. } = self
            .child
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Ok(None) = child.try_wait() {
            process_tree::signal(self.pid, &self.marker, libc::SIGKILL);
            // Killed, so this ends; a failure would mean that it was reaped already.
            drop(child.wait());
        }
    }
}
