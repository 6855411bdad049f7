//! One command of a session, from the queue to its end.
//!
//! ```text
//! Queued ──▶ Running ──▶ Ended
//!    └────────────────────▲    (the session ended before its turn)
//! ```
//!
//! **Invariant:** only the session's driver changes the state.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::log::Stream;
use holm_daytona_wire::session::SessionExecuteRequest;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};

use super::control::Outputs;
use super::journal::Entry;
use super::log::Log;
use crate::clock::Millis;
use crate::error::{ApiError, Result};
use crate::machines::write_all;

/// How long input may wait for a command that does not read it.
const INPUT_PATIENCE: Duration = Duration::from_secs(10);
const CHUNK_BYTES: usize = 64 * 1024;
/// What is read at the end of a command of each output, at most: more than fits into a pipe.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Running,
    Ended { code: i32, how: How },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exited,
    TimedOut,
    /// The session ended before its turn.
    NeverRan,
}

/// What a session remembers of a request, in bytes.
pub(super) fn weight(request: &SessionExecuteRequest) -> usize {
    let envs = request.envs.iter();
    let envs: usize = envs.map(|(name, value)| name.len() + value.len()).sum();
    request.command.len() + request.cwd.as_ref().map_or(0, String::len) + envs
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) id: String,
    pub(super) request: SessionExecuteRequest,
    pub(super) log: Arc<Log>,
    pub(super) state: watch::Sender<State>,
    /// Of a command that runs and takes input.
    input: Mutex<Option<Arc<pipe::Sender>>>,
    /// When it was given to the shell, and the moment in the kernel's count.
    pub(super) started: OnceLock<(Millis, u64)>,
    /// Known before it is told: it goes into the journal first.
    pub(super) code: OnceLock<i32>,
    /// Whether something still holds its outputs.
    is_logging: AtomicBool,
}

impl Command {
    pub(super) fn new(id: String, request: SessionExecuteRequest, log: Log, state: State) -> Self {
        Self {
            id,
            request,
            log: Arc::new(log),
            state: watch::Sender::new(state),
            input: Mutex::new(None),
            started: OnceLock::new(),
            code: OnceLock::new(),
            is_logging: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    pub(super) fn exit_code(&self) -> Option<i32> {
        match self.state() {
            State::Ended { code, .. } => Some(code),
            State::Queued | State::Running => None,
        }
    }

    /// What the journal says about it.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let id = || self.id.clone();
        let queued = Entry::Queued {
            id: id(),
            request: self.request.clone(),
        };
        let started = |&(at, ticks): &(Millis, u64)| Entry::Started {
            id: id(),
            at,
            ticks,
        };
        let ended = |&code: &i32| Entry::Ended { id: id(), code };
        [
            Some(queued),
            self.started.get().map(started),
            self.code.get().map(ended),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    pub(super) fn is_logging(&self) -> bool {
        self.is_logging.load(Ordering::Acquire)
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> (i32, How) {
        let mut states = self.state.subscribe();
        loop {
            if let State::Ended { code, how } = *states.borrow_and_update() {
                return (code, how);
            }
            if states.changed().await.is_err() {
                return (-1, How::NeverRan);
            }
        }
    }

    pub(super) fn end(&self, code: i32, how: How) {
        let code = *self.code.get_or_init(|| code);
        self.state.send_replace(State::Ended { code, how });
        self.log.end();
    }

    fn input(&self) -> MutexGuard<'_, Option<Arc<pipe::Sender>>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_input(&self, pipe: Option<pipe::Sender>) {
        *self.input() = pipe.map(Arc::new);
    }

    /// Types a line.
    pub(super) async fn send_input(&self, data: &str) -> Result<()> {
        let refused = match self.state() {
            State::Ended { .. } => Some(ApiError::new(
                ErrorCode::CommandAlreadyCompleted,
                "the command has already completed",
            )),
            _ if !self.request.is_async() => Some(ApiError::bad_request(
                "the command takes no input: only those that were started with `runAsync` do",
            )),
            State::Queued => Some(ApiError::conflict(
                "the command waits for the one before it in its session",
            )),
            State::Running => None,
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        let line = format!("{data}\n");
        let Some(pipe) = self.input().clone() else {
            return Err(ApiError::new(
                ErrorCode::CommandAlreadyCompleted,
                "the command has already completed",
            ));
        };
        match tokio::time::timeout(INPUT_PATIENCE, write_all(&pipe, line.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(ApiError::internal(
                    "could not write to the command's input",
                    error,
                ));
            }
            Err(_elapsed) => {
                return Err(ApiError::conflict("the command does not read its input"));
            }
        }
        if self.request.suppress_input_echo != Some(true) {
            self.log.append(Stream::Stdout, line.as_bytes()).await;
        }
        Ok(())
    }
}

/// Carries a command's outputs into its log until their last writer is gone.
#[derive(Debug)]
pub(super) struct Pump {
    drains: mpsc::Sender<oneshot::Sender<()>>,
}

impl Pump {
    /// `finished` is run when nothing can be written any more.
    pub(super) fn start(
        command: Arc<Command>,
        outputs: Outputs,
        finished: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (drains, asked) = mpsc::channel(1);
        command.is_logging.store(true, Ordering::Release);
        tokio::spawn(async move {
            pump(&command.log, outputs, asked).await;
            command.is_logging.store(false, Ordering::Release);
            finished();
        });
        Self { drains }
    }

    /// Waits until all that was written so far is in the log.
    pub(super) async fn drain(&self) {
        let (done, drained) = oneshot::channel();
        if self.drains.send(done).await.is_ok() {
            // A pump that has ended has drained all.
            drop(drained.await);
        }
    }
}

async fn pump(log: &Arc<Log>, outputs: Outputs, mut drains: mpsc::Receiver<oneshot::Sender<()>>) {
    let mut stdout = Some(outputs.stdout);
    let mut stderr = Some(outputs.stderr);
    let (mut chunk, mut other) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut is_asked = true;
    while stdout.is_some() || stderr.is_some() {
        tokio::select! {
            asked = drains.recv(), if is_asked => match asked {
                None => is_asked = false,
                Some(done) => {
                    drain(log, Stream::Stdout, &mut stdout, &mut chunk).await;
                    drain(log, Stream::Stderr, &mut stderr, &mut chunk).await;
                    // Nobody waits for it any more.
                    let _nobody = done.send(());
                }
            },
            count = read(&mut stdout, &mut chunk) => {
                keep(log, Stream::Stdout, &mut stdout, count, &chunk).await;
            }
            count = read(&mut stderr, &mut other) => {
                keep(log, Stream::Stderr, &mut stderr, count, &other).await;
            }
        }
    }
}

async fn read(pipe: &mut Option<pipe::Receiver>, chunk: &mut [u8]) -> usize {
    match pipe {
        // A pipe that cannot be read has ended.
        Some(pipe) => pipe.read(chunk).await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

async fn keep(
    log: &Arc<Log>,
    stream: Stream,
    pipe: &mut Option<pipe::Receiver>,
    count: usize,
    chunk: &[u8],
) {
    if count == 0 {
        *pipe = None;
    }
    log.append(stream, chunk.get(..count).unwrap_or_default())
        .await;
}

async fn drain(
    log: &Arc<Log>,
    stream: Stream,
    pipe: &mut Option<pipe::Receiver>,
    chunk: &mut [u8],
) {
    let mut total = 0;
    while total < DRAIN_BYTES_MAX {
        let count = match pipe.as_ref().map(|pipe| pipe.try_read(chunk)) {
            Some(Ok(count)) => count,
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
            Some(Err(_)) => 0,
            None => return,
        };
        keep(log, stream, pipe, count, chunk).await;
        total += count;
    }
}
