//! Commands in a box, without a thread per command: streams and exits are awaited.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holm_sandbox_linux::{
    Command, CommandUser, EngineError, Exit, Job, LinuxBox, OnDisconnect, Reach, Streams,
    TerminalSize,
};
use tokio::net::unix::pipe;

use super::machine::Machine;
use super::readiness::Readiness;
use crate::error::{ApiError, Result};

/// What stands at a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The end of a file.
    Empty,
    /// What [`Running::stdin`] is given.
    Piped,
}

/// Where a command's two outputs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Into one pipe, in the order in which they were written.
    Merged,
    Separate,
}

/// A command to start.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    pub argv: Vec<OsString>,
    /// The whole environment: see [`Machine::environment`].
    pub env: Vec<(OsString, OsString)>,
    /// Absolute, as seen inside.
    pub cwd: PathBuf,
    pub input: Input,
    pub output: Output,
    /// What happens to it when the server dies.
    pub disconnect: OnDisconnect,
}

/// A command that was started. Dropping it ends the command, unless it was started to be kept.
#[derive(Debug)]
pub struct Running {
    job: Arc<Job>,
    ended: Readiness,
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    /// None if the outputs are merged.
    pub stderr: Option<pipe::Receiver>,
}

impl Machine {
    /// Starts a command.
    pub async fn start(self: &Arc<Self>, spec: CommandSpec) -> Result<Running, EngineError> {
        let machine = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || machine.start_blocking(&spec)).await;
        match started {
            Ok(result) => {
                let (job, pipes) = result?;
                Running::new(job, pipes).map_err(|source| self.lost(source))
            }
            Err(error) => Err(self.lost(io::Error::other(error))),
        }
    }

    /// Starts the first of these commands whose program the box has.
    pub async fn start_first(
        self: &Arc<Self>,
        spec: CommandSpec,
        argvs: &[Vec<OsString>],
    ) -> Result<Running, EngineError> {
        let mut failed = self.lost(io::ErrorKind::InvalidInput.into());
        for argv in argvs {
            let spec = CommandSpec {
                argv: argv.clone(),
                ..spec.clone()
            };
            match self.start(spec).await {
                Err(error @ EngineError::CommandNotFound { .. }) => failed = error,
                started => return started,
            }
        }
        Err(failed)
    }

    /// Starts a command on a terminal of its own. The descriptor is the terminal's other side.
    pub async fn start_on_terminal(
        self: &Arc<Self>,
        spec: CommandSpec,
        size: TerminalSize,
    ) -> Result<(Running, OwnedFd), EngineError> {
        let machine = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || {
            let mut job = machine.inner.start(
                &command(&spec, machine.account.command_user()),
                &Streams::Terminal(size),
            )?;
            let terminal = job
                .take_terminal()
                .ok_or_else(|| machine.lost(io::ErrorKind::InvalidData.into()))?;
            Ok((job, terminal))
        })
        .await;
        let (job, terminal) = match started {
            Ok(result) => result?,
            Err(error) => return Err(self.lost(io::Error::other(error))),
        };
        let running = Running::new(job, Pipes::default()).map_err(|source| self.lost(source))?;
        Ok((running, terminal))
    }

    fn start_blocking(&self, spec: &CommandSpec) -> Result<(Job, Pipes), EngineError> {
        let pipe = || io::pipe().map_err(|source| self.lost(source));
        let (stdin_read, stdin_write) = pipe()?;
        let (stdout_read, stdout_write) = pipe()?;
        let separate = match spec.output {
            Output::Merged => None,
            Output::Separate => Some(pipe()?),
        };
        let stderr_write = separate.as_ref().map_or(&stdout_write, |(_, write)| write);
        let streams = [
            stdin_read.as_fd(),
            stdout_write.as_fd(),
            stderr_write.as_fd(),
        ];
        let job = self.inner.start(
            &command(spec, self.account.command_user()),
            &Streams::Descriptors(streams),
        )?;
        Ok((
            job,
            Pipes {
                stdin: match spec.input {
                    Input::Empty => None,
                    Input::Piped => Some(stdin_write.into()),
                },
                stdout: Some(stdout_read.into()),
                stderr: separate.map(|(read, _)| read.into()),
            },
        ))
    }

    /// An error between the box and us that is not the command's.
    fn lost(&self, source: io::Error) -> EngineError {
        EngineError::Control {
            doing: "start a command in",
            id: self.id.clone(),
            source,
        }
    }
}

fn command(spec: &CommandSpec, user: CommandUser) -> Command {
    Command {
        argv: spec.argv.clone(),
        env: spec.env.clone(),
        cwd: spec.cwd.clone(),
        disconnect: spec.disconnect,
        user,
    }
}

#[derive(Debug, Default)]
struct Pipes {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl Running {
    fn new(job: Job, pipes: Pipes) -> io::Result<Self> {
        let receiver = |pipe: Option<OwnedFd>| pipe.map(pipe::Receiver::from_owned_fd).transpose();
        Ok(Self {
            ended: Readiness::of(&job)?,
            job: Arc::new(job),
            stdin: pipes.stdin.map(pipe::Sender::from_owned_fd).transpose()?,
            stdout: receiver(pipes.stdout)?,
            stderr: receiver(pipes.stderr)?,
        })
    }

    /// A command of an earlier life of the server.
    pub fn resumed(job: Job) -> io::Result<Self> {
        Self::new(job, Pipes::default())
    }

    /// The engine's side of it.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Waits until the command has ended. May be called again, and be cancelled.
    pub async fn wait(&self) -> Result<Exit> {
        self.ended.readable().await.map_err(|source| {
            ApiError::internal("could not wait for the end of a command", source)
        })?;
        // Readable: the answer is there, and does not block.
        Ok(self.job().wait()?)
    }

    /// Kills the command and everything that it started.
    pub fn kill(&self) -> Result<()> {
        Ok(self.job().signal(SIGKILL, Reach::Tree)?)
    }
}

/// With more processes than this, a box is taken to have something in it that multiplies.
pub(crate) const CROWD: u64 = 512;
const KILLS_MAX: u32 = 40;
const KILL_INTERVAL: Duration = Duration::from_millis(250);

impl Running {
    /// Kills the command and everything that it started, and goes on while the box is crowded: what multiplies quickly
    /// enough to use numbers of processes again outlives a single kill.
    pub(crate) async fn kill_all(&self, home: &Arc<LinuxBox>) -> Result<Exit> {
        let mut exit = Exit::Lost;
        for _ in 0..KILLS_MAX {
            self.kill()?;
            exit = self.wait().await?;
            let counting = Arc::clone(home);
            let count = tokio::task::spawn_blocking(move || counting.process_count()).await?;
            if count.is_ok_and(|count| count <= CROWD) {
                break;
            }
            tokio::time::sleep(KILL_INTERVAL).await;
        }
        Ok(exit)
    }
}

/// Writes all of it, through an end that others may use too.
pub(crate) async fn write_all(pipe: &pipe::Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        pipe.writable().await?;
        match pipe.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends a process without asking.
pub(crate) const SIGKILL: i32 = 9;

/// How a shell would number an end: 128 and the signal, or the code.
pub fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
        Exit::Lost => 137,
    }
}
