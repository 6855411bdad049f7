//! A session: one shell that lives on between commands, and the task that gives it one command after the other.
//!
//! The shell outlives the server: its job, its input and the pipes of its commands are parked with the box's init, and a
//! journal beside the logs says what was going on. See [`super::resume`].

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_daytona_wire::log::Stream;
use holm_daytona_wire::session::SessionExecuteRequest;
use holm_sandbox_linux::{LinuxBox, Reach, ticks_now};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::command::{Command, How, Pump, State, weight};
use super::control::{Apart, Control, ControlError, Ends, Held, preparation};
use super::journal::{Entry, Journal};
use super::log::{Budget, Log, Phase};
use crate::clock::{self, Millis};
use crate::error::{ApiError, Result, chain};
use crate::machines::{CROWD, Machine, Running, SIGKILL, exit_code, write_all};

/// Commands that wait for their turn.
pub(super) const QUEUE_MAX: usize = 256;
/// Commands that a session remembers; half of them are forgotten when there are more.
const COMMANDS_MAX: usize = 1_000;
/// What these commands are, in bytes.
const TEXTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The last ones are not forgotten.
const COMMANDS_SPARED: usize = 8;
/// How long a shell may go on after everything that its command started was killed.
const LATE_PATIENCE: Duration = Duration::from_secs(1);
/// Between the first kill and the second; the next one comes after twice as long, since each means work for init.
const LATE_INTERVAL: Duration = Duration::from_millis(20);
/// The exit code of a command that took too long, as `timeout` has it.
const TIMED_OUT_CODE: i32 = 124;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// Names its folder on the host and what is parked for it.
    pub(super) key: String,
    pub(super) home: Arc<LinuxBox>,
    pub(super) control: Control,
    pub(super) folder: PathBuf,
    pub(super) journal: Journal,
    pub(super) budget: Arc<Budget>,
    pub(super) shell: Running,
    pub(super) commands: Mutex<Vec<Arc<Command>>>,
    pub(super) queue: mpsc::Sender<Arc<Command>>,
    /// The shell's exit code, when it has ended.
    pub(super) ended: watch::Sender<Option<i32>>,
}

/// Whether a session can take one more command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    None,
}

/// A command that the shell has been given.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) command: Arc<Command>,
    pub(super) pump: Pump,
    pub(super) held: Held,
    pub(super) started_at: Millis,
    pub(super) ticks: u64,
}

impl Session {
    pub(super) fn commands(&self) -> MutexGuard<'_, Vec<Arc<Command>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn command(&self, id: &str) -> Option<Arc<Command>> {
        let commands = self.commands();
        commands.iter().find(|command| command.id == id).cloned()
    }

    /// Whether its shell only waits for orders.
    pub(super) fn is_idle(&self) -> bool {
        let is_over = |command: &Arc<Command>| command.exit_code().is_some();
        self.ended.borrow().is_none() && self.commands().iter().all(is_over)
    }

    /// Puts a command at the end of the queue.
    pub(super) async fn enqueue(
        self: &Arc<Self>,
        request: SessionExecuteRequest,
    ) -> Result<Arc<Command>> {
        let session = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || {
            let id = uuid::Uuid::new_v4().to_string();
            if session.forget_old(weight(&request)) == Room::None {
                return Ok(None);
            }
            let budget = Arc::clone(&session.budget);
            let log = Log::open(session.log_path(&id), budget, Phase::Open)?;
            let command = Arc::new(Command::new(id, request, log, State::Queued));
            // First in the list, so that a journal that is written anew has it.
            session.commands().push(Arc::clone(&command));
            for entry in command.entries() {
                session.journal.append(&entry)?;
            }
            Ok::<_, io::Error>(Some(command))
        });
        let command = made.await?.map_err(|error| {
            ApiError::internal("the server could not write down the command", error)
        })?;
        let Some(command) = command else {
            return Err(ApiError::new(
                holm_daytona_wire::error::ErrorCode::TooManyRequests,
                format!(
                    "commands of more than {TEXTS_BYTES_MAX} bytes wait in this session already"
                ),
            ));
        };
        if self.queue.try_send(Arc::clone(&command)).is_err() {
            let is_gone = self.ended.borrow().is_some();
            command.end(-1, How::NeverRan);
            if !is_gone {
                return Err(ApiError::new(
                    holm_daytona_wire::error::ErrorCode::TooManyRequests,
                    format!("{QUEUE_MAX} commands wait in this session already"),
                ));
            }
        }
        Ok(command)
    }

    pub(super) fn log_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.log"))
    }

    /// Bounds what a session remembers, before `more` bytes come. Blocks.
    fn forget_old(&self, more: usize) -> Room {
        let mut commands = self.commands();
        let all = commands.iter().map(|command| weight(&command.request));
        let mut bytes = all.sum::<usize>() + more;
        if commands.len() < COMMANDS_MAX && bytes <= TEXTS_BYTES_MAX {
            return Room::Enough;
        }
        // Whoever ran one of the last commands may still be about to read its output.
        let mut old = commands.len().saturating_sub(COMMANDS_SPARED);
        let mut surplus = commands.len().saturating_sub(COMMANDS_MAX / 2);
        commands.retain(|command| {
            let is_wanted = surplus > 0 || bytes > TEXTS_BYTES_MAX / 2;
            let is_over = command.exit_code().is_some() && !command.is_logging();
            let is_old = old > 0 && is_wanted && is_over;
            old = old.saturating_sub(1);
            if is_old {
                surplus = surplus.saturating_sub(1);
                bytes -= weight(&command.request);
                self.budget.give_back(command.log.bytes());
                drop(fs::remove_file(command.log.path()));
            }
            !is_old
        });
        let entries = || {
            let entries = commands.iter().flat_map(|command| command.entries());
            std::iter::once(self.opened()).chain(entries).collect()
        };
        if let Err(error) = self.journal.rewrite(entries) {
            tracing::error!(session = self.id, %error, "a journal cannot be written anew");
        }
        if bytes > TEXTS_BYTES_MAX {
            return Room::None;
        }
        Room::Enough
    }

    pub(super) fn opened(&self) -> Entry {
        Entry::Opened {
            version: super::journal::VERSION,
            id: self.id.clone(),
            control: self.control.path().to_path_buf(),
        }
    }

    /// Gives the shell its commands, one after the other, until it ends.
    pub(super) async fn drive(
        self: Arc<Self>,
        machine: Arc<Machine>,
        stdin: pipe::Sender,
        mut queue: mpsc::Receiver<Arc<Command>>,
        in_flight: Option<InFlight>,
    ) {
        if let Some(in_flight) = in_flight {
            self.carry(&stdin, in_flight).await;
        }
        while self.ended.borrow().is_none() {
            tokio::select! {
                next = queue.recv() => match next {
                    Some(command) => self.run(&machine, &stdin, command).await,
                    None => break,
                },
                exit = self.shell.wait() => self.shell_ended(exit.map_or(-1, exit_code)),
            }
        }
        queue.close();
        while let Some(command) = queue.recv().await {
            command.end(-1, How::NeverRan);
        }
    }

    fn shell_ended(&self, code: i32) {
        self.ended.send_replace(Some(code));
    }

    async fn run(
        self: &Arc<Self>,
        machine: &Arc<Machine>,
        stdin: &pipe::Sender,
        command: Arc<Command>,
    ) {
        let cwd = command.request.cwd.as_deref();
        let cwd = cwd.map(|cwd| machine.absolute(cwd));
        let before = preparation(cwd.as_deref(), &command.request);
        let (session, preparing) = (Arc::clone(self), Arc::clone(&command));
        let prepared =
            tokio::task::spawn_blocking(move || session.prepare(&preparing, before.as_deref()));
        let prepared = match prepared.await {
            Ok(Ok(prepared)) => Ok(prepared),
            Ok(Err(error)) => Err(chain(&error)),
            Err(error) => Err(error.to_string()),
        };
        match prepared {
            Ok((ends, started_at, ticks)) => {
                let pump = self.pump(&command, ends.output);
                let in_flight = InFlight {
                    command,
                    pump,
                    held: ends.held,
                    started_at,
                    ticks,
                };
                self.carry(stdin, in_flight).await;
            }
            Err(error) => {
                tracing::error!(session = self.id, error, "a command cannot be started");
                let note = format!("the command could not be started: {error}\n");
                command.log.append(Stream::Stderr, note.as_bytes()).await;
                command.end(-1, How::Exited);
            }
        }
    }

    /// Blocks.
    fn prepare(
        &self,
        command: &Command,
        before: Option<&str>,
    ) -> Result<(Ends, Millis, u64), ControlError> {
        let ends = self
            .control
            .prepare(&command.id, &command.request, before)?;
        let (outputs, held) = (output_name(&command.id), held_name(&command.id));
        self.home.park(&outputs, b"", &ends.output.parked())?;
        self.home.park(&held, b"", &ends.held.parked())?;
        let (at, ticks) = *command.started.get_or_init(|| (clock::now(), ticks_now()));
        let id = command.id.clone();
        self.journal.append(&Entry::Started { id, at, ticks })?;
        Ok((ends, at, ticks))
    }

    pub(super) fn pump(&self, command: &Arc<Command>, outputs: super::control::Outputs) -> Pump {
        let (home, name) = (Arc::clone(&self.home), output_name(&command.id));
        Pump::start(Arc::clone(command), outputs, move || {
            // Blocks a little, and nobody waits for it.
            drop(tokio::task::spawn_blocking(move || home.unpark(&name)));
        })
    }

    /// Has the shell run a command, and waits for its end.
    async fn carry(self: &Arc<Self>, stdin: &pipe::Sender, in_flight: InFlight) {
        let InFlight {
            command,
            pump,
            mut held,
            started_at,
            ticks,
        } = in_flight;
        command.set_input(held.input.take());
        command.state.send_replace(State::Running);
        let request = &command.request;
        let apart = if request.cwd.is_some() || !request.envs.is_empty() {
            Apart::Yes
        } else {
            Apart::No
        };
        let line = self.control.line(&command.id, request, apart);
        // A shell that does not listen has ended, which is noticed below.
        drop(write_all(stdin, line.as_bytes()).await);
        let late = async {
            match request.timeout.filter(|seconds| *seconds > 0) {
                Some(seconds) => tokio::time::sleep(time_left(seconds, started_at)).await,
                None => std::future::pending().await,
            }
        };
        let (code, how) = tokio::select! {
            code = read_status(&mut held.status) => (code, How::Exited),
            code = self.shell_end() => (code, How::Exited),
            () = late => {
                self.end_late(ticks, &mut held.status).await;
                (TIMED_OUT_CODE, How::TimedOut)
            }
        };
        pump.drain().await;
        if how == How::TimedOut {
            let seconds = request.timeout.unwrap_or_default();
            let note = format!("\n[killed after {seconds} seconds]\n");
            command.log.append(Stream::Stderr, note.as_bytes()).await;
        }
        command.set_input(None);
        let code = *command.code.get_or_init(|| code);
        let (session, id) = (Arc::clone(self), command.id.clone());
        let noted = tokio::task::spawn_blocking(move || {
            // The names first: a shell that opens one afterwards fails, instead of waiting for us.
            session.control.remove(&id);
            drop(session.home.unpark(&held_name(&id)));
            drop(held);
            session.journal.append(&Entry::Ended { id, code })
        });
        if let Ok(Err(error)) = noted.await {
            tracing::error!(session = self.id, %error, "the end of a command was not written down");
        }
        command.end(code, how);
    }

    async fn shell_end(&self) -> i32 {
        let code = self.shell.wait().await.map_or(-1, exit_code);
        self.shell_ended(code);
        code
    }

    /// Kills what a command started, and if its shell itself is busy, the whole session.
    async fn end_late(&self, ticks: u64, status: &mut pipe::Receiver) {
        let mut interval = LATE_INTERVAL;
        let kill = async {
            loop {
                let since = Reach::StartedSince { ticks };
                // What cannot be told has ended.
                drop(self.shell.job().signal(SIGKILL, since));
                tokio::time::sleep(interval).await;
                interval *= 2;
            }
        };
        let over = async {
            tokio::select! {
                _ = read_status(status) => {}
                _ = self.shell_end() => {}
                () = kill => {}
            }
        };
        let home = Arc::clone(&self.home);
        let count = tokio::task::spawn_blocking(move || home.process_count()).await;
        let is_crowd = matches!(count, Ok(Ok(count)) if count > CROWD);
        if is_crowd || tokio::time::timeout(LATE_PATIENCE, over).await.is_err() {
            let exit = self.shell.kill_all(&self.home).await;
            self.shell_ended(exit.map_or(-1, exit_code));
        }
    }
}

/// The exit code that the shell tells; the box may tell anything.
async fn read_status(status: &mut pipe::Receiver) -> i32 {
    let mut text = Vec::new();
    let mut chunk = [0; 16];
    while text.len() < 64 {
        match status.read(&mut chunk).await {
            Ok(count @ 1..) => text.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Ok(0) | Err(_) => break,
        }
        if text.contains(&b'\n') {
            break;
        }
    }
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default();
    line.parse().unwrap_or(-1)
}

fn time_left(seconds: u64, started_at: Millis) -> Duration {
    let gone = u64::try_from(clock::now().saturating_sub(started_at)).unwrap_or_default();
    Duration::from_secs(seconds).saturating_sub(Duration::from_millis(gone))
}

pub(super) fn shell_name(key: &str) -> String {
    format!("session-shell:{key}")
}

pub(super) fn output_name(command: &str) -> String {
    format!("session-output:{command}")
}

pub(super) fn held_name(command: &str) -> String {
    format!("session-command:{command}")
}
