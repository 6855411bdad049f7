//! One terminal: a shell on it, what it printed last, and everybody who looks at it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use holm_daytona_wire::StringMap;
use holm_daytona_wire::pty::{PtyExit, PtySessionInfo};
use holm_sandbox_linux::{
    EngineError, Exit, OnDisconnect, TerminalSize, make_nonblocking, resize_terminal,
};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe;
use tokio::sync::{broadcast, watch};

use crate::clock::{self, Millis};
use crate::machines::{CommandSpec, Input, Machine, Output, Running, exit_code, write_all};
use crate::toolbox::execute::SHELLS;

/// What somebody sees who comes later.
const SCROLLBACK_BYTES: usize = 64 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;
/// How far behind a client may fall.
const CHUNKS_BEHIND_MAX: usize = 1_024;
/// How long output is awaited after the shell has ended.
const DRAIN: Duration = Duration::from_millis(100);

/// What is known of a terminal, and written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) id: String,
    /// Absolute, as seen inside.
    pub(super) cwd: String,
    pub(super) envs: StringMap,
    pub(super) columns: u16,
    pub(super) rows: u16,
    pub(super) created_at: Millis,
    pub(super) is_lazy: bool,
}

impl Description {
    pub(super) fn size(&self) -> TerminalSize {
        TerminalSize {
            rows: self.rows,
            columns: self.columns,
        }
    }

    pub(super) fn shown(&self, is_active: bool) -> PtySessionInfo {
        PtySessionInfo {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            envs: self.envs.clone(),
            cols: self.columns.into(),
            rows: self.rows.into(),
            created_at: clock::rfc3339(self.created_at),
            active: is_active,
            lazy_start: self.is_lazy,
        }
    }
}

/// A shell on a terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    running: Running,
    master: OwnedFd,
    typing: pipe::Sender,
    screen: Mutex<Screen>,
    ended: watch::Sender<Option<PtyExit>>,
}

#[derive(Debug)]
struct Screen {
    scrollback: VecDeque<u8>,
    watchers: broadcast::Sender<Bytes>,
}

/// What a client sees from now on.
#[derive(Debug)]
pub(super) struct View {
    pub(super) scrollback: Vec<u8>,
    pub(super) output: broadcast::Receiver<Bytes>,
    pub(super) ended: watch::Receiver<Option<PtyExit>>,
}

impl Terminal {
    /// Starts the first shell that the box has.
    pub(super) async fn start(
        machine: &Arc<Machine>,
        description: &Description,
    ) -> Result<(Arc<Self>, pipe::Receiver), EngineError> {
        let mut envs = StringMap::from([("TERM".to_owned(), "xterm-256color".to_owned())]);
        envs.extend(description.envs.clone());
        let mut spec = CommandSpec {
            argv: Vec::new(),
            env: machine.environment(&envs),
            cwd: description.cwd.clone().into(),
            input: Input::Empty,
            output: Output::Merged,
            disconnect: OnDisconnect::Keep,
        };
        let mut shells = SHELLS.into_iter();
        loop {
            spec.argv = vec![shells.next().unwrap_or("sh").into()];
            let started = machine.start_on_terminal(spec.clone(), description.size());
            match started.await {
                Err(EngineError::CommandNotFound { .. }) if shells.len() > 0 => {}
                Ok((running, master)) => {
                    return Self::new(running, master).map_err(|source| EngineError::Control {
                        doing: "use a terminal of",
                        id: machine.id.clone(),
                        source,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A terminal with a shell on it, and what [`Terminal::carry`] reads.
    pub(super) fn new(
        running: Running,
        master: OwnedFd,
    ) -> io::Result<(Arc<Self>, pipe::Receiver)> {
        make_nonblocking(master.as_fd())?;
        // Pipes in name only, as for `Readiness`: readable and writable mean the same for a terminal.
        let reading = pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?;
        let typing = pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?;
        let terminal = Self {
            running,
            master,
            typing,
            screen: Mutex::new(Screen {
                scrollback: VecDeque::new(),
                watchers: broadcast::Sender::new(CHUNKS_BEHIND_MAX),
            }),
            ended: watch::Sender::new(None),
        };
        Ok((Arc::new(terminal), reading))
    }

    /// Leaves it with the box's init. Blocks.
    pub(super) fn park(&self, machine: &Machine, name: &str) -> Result<(), EngineError> {
        let job = self.running.job();
        job.park(machine.inner(), name, &[self.master.as_fd()])
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at it from now on, and at what it showed last.
    pub(super) fn view(&self) -> View {
        let screen = self.screen();
        View {
            scrollback: screen.scrollback.iter().copied().collect(),
            output: screen.watchers.subscribe(),
            ended: self.ended.subscribe(),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        resize_terminal(self.master.as_fd(), size)
    }

    pub(super) async fn write(&self, input: &[u8]) -> io::Result<()> {
        write_all(&self.typing, input).await
    }

    /// Ends everything that was started on it.
    pub(super) fn kill(&self) {
        // One that has ended needs no signal.
        drop(self.running.kill());
    }

    /// Shows what is printed until the shell has ended, and tells everybody how.
    pub(super) async fn carry(&self, reading: pipe::Receiver) {
        let exit = {
            let show = self.show(&reading);
            tokio::pin!(show);
            let mut is_shown = false;
            let exit = loop {
                tokio::select! {
                    () = &mut show, if !is_shown => is_shown = true,
                    exit = self.running.wait() => break exit,
                }
            };
            if !is_shown {
                drop(tokio::time::timeout(DRAIN, show).await);
            }
            exit.unwrap_or(Exit::Lost)
        };
        let exit_reason = match exit {
            Exit::Code(_) => None,
            Exit::Signal(signal) => Some(format!("ended by signal {signal}")),
            Exit::Lost => Some("the sandbox has ended".to_owned()),
        };
        self.ended.send_replace(Some(PtyExit {
            exit_code: exit_code(exit),
            exit_reason,
        }));
    }

    async fn show(&self, reading: &pipe::Receiver) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // A terminal that nobody has open any more answers with an error.
        while reading.readable().await.is_ok() {
            // Not `read`, which takes half a buffer for the end of what is there: a terminal gives a page at a time.
            let count = match reading.try_read(&mut chunk) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Ok(0) | Err(_) => break,
            };
            let shown = Bytes::copy_from_slice(chunk.get(..count).unwrap_or_default());
            let mut screen = self.screen();
            screen.scrollback.extend(&shown);
            let surplus = screen.scrollback.len().saturating_sub(SCROLLBACK_BYTES);
            screen.scrollback.drain(..surplus);
            // Nobody may be looking.
            let _watching = screen.watchers.send(shown);
        }
    }
}
