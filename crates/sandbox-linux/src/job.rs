//! One command in a box, as the host holds it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::error::{EngineError, Result};
use crate::init::display_name;
use crate::process_tree::MARKER_VARIABLE;
use crate::protocol::{
    Exit, JobEvent, JobOrder, Launch, LaunchStage, OnDisconnect, Reach, TerminalSize,
};
use crate::spec::CommandUser;
use crate::wire;

/// A command to run in a box.
#[derive(Debug, Clone)]
pub struct Command {
    pub argv: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute, as seen inside.
    pub cwd: PathBuf,
    pub user: CommandUser,
    pub disconnect: OnDisconnect,
}

/// Where a command's standard streams go.
#[derive(Debug)]
pub enum Streams<'a> {
    /// Descriptors for stdin, stdout and stderr. They enter the box: never pass one of a folder.
    Descriptors([BorrowedFd<'a>; 3]),
    /// A terminal of the box's own; the host gets the other side.
    Terminal(TerminalSize),
}

/// A command that was started. Dropping it ends the command, unless it was started to be kept.
#[derive(Debug)]
pub struct Job {
    socket: OwnedFd,
    pid: i32,
    terminal: Option<OwnedFd>,
    box_id: String,
    /// Init tells it once.
    exit: OnceLock<Exit>,
}

impl Command {
    pub(crate) fn launch(
        &self,
        user: Option<(u32, u32)>,
        terminal: Option<TerminalSize>,
    ) -> Launch {
        let marker = crate::random_hex();
        let mut env = vec![(
            MARKER_VARIABLE.as_bytes().to_vec(),
            marker.as_bytes().to_vec(),
        )];
        env.extend(
            self.env
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())),
        );
        Launch {
            argv: self
                .argv
                .iter()
                .map(|argument| argument.as_bytes().to_vec())
                .collect(),
            env,
            cwd: self.cwd.as_os_str().as_bytes().to_vec(),
            user,
            terminal,
            disconnect: self.disconnect,
            marker,
        }
    }
}

impl Job {
    /// Waits until init has started the command.
    pub(crate) fn started(socket: OwnedFd, launch: &Launch, box_id: &str) -> Result<Self> {
        let program = || display_name(&launch.argv);
        let control = |source| EngineError::Control {
            doing: "start a command in",
            id: box_id.to_owned(),
            source,
        };
        match wire::receive_answer::<JobEvent>(&socket).map_err(control)? {
            Some((JobEvent::Started { pid }, descriptors)) => Ok(Self {
                socket,
                pid,
                terminal: descriptors.into_iter().next(),
                box_id: box_id.to_owned(),
                exit: OnceLock::new(),
            }),
            Some((JobEvent::NotStarted { stage, errno }, _)) => {
                let source = io::Error::from_raw_os_error(errno);
                Err(match (stage, errno) {
                    (LaunchStage::Execute, libc::ENOENT | libc::ENOTDIR) => {
                        EngineError::CommandNotFound { program: program() }
                    }
                    (LaunchStage::Execute, _) => EngineError::CommandNotExecutable {
                        program: program(),
                        source,
                    },
                    (stage, _) => EngineError::Launch {
                        stage: stage.describe().into(),
                        program: program(),
                        source,
                    },
                })
            }
            Some((JobEvent::Exited(_), _)) => Err(control(io::ErrorKind::InvalidData.into())),
            None => Err(EngineError::NotRunning {
                id: box_id.to_owned(),
            }),
        }
    }

    /// A command that was started earlier, by whoever left its socket behind.
    pub(crate) fn found_again(socket: OwnedFd, pid: i32, box_id: &str) -> Self {
        Self {
            socket,
            pid,
            terminal: None,
            box_id: box_id.to_owned(),
            exit: OnceLock::new(),
        }
    }

    /// The command's process id inside the box.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The host's side of the command's terminal, once.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Waits for the end. A box that ends takes its commands along: [`Exit::Lost`].
    ///
    /// The word of the end stays in the socket, for every other copy of it: one that was parked too.
    pub fn wait(&self) -> Result<Exit> {
        if let Some(exit) = self.exit.get() {
            return Ok(*exit);
        }
        let failed = |source| EngineError::Control {
            doing: "wait for a command in",
            id: self.box_id.clone(),
            source,
        };
        match wire::peek::<JobEvent>(&self.socket).map_err(failed)? {
            Some(JobEvent::Exited(exit)) => Ok(*self.exit.get_or_init(|| exit)),
            Some(JobEvent::Started { .. } | JobEvent::NotStarted { .. }) => {
                Err(failed(io::ErrorKind::InvalidData.into()))
            }
            None => Ok(Exit::Lost),
        }
    }

    /// Sends a signal. A command that has already ended is not an error.
    pub fn signal(&self, signal: i32, reach: Reach) -> Result<()> {
        match wire::send(&self.socket, &JobOrder::Signal { signal, reach }, &[]) {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            Err(source) => Err(EngineError::Control {
                doing: "signal a command in",
                id: self.box_id.clone(),
                source,
            }),
        }
    }
}

/// Gives a terminal another size, and tells the programs on it (SIGWINCH). `master` is the host's side.
pub fn resize_terminal(master: BorrowedFd<'_>, size: TerminalSize) -> io::Result<()> {
    let size = rustix::termios::Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

/// Has reads and writes through a descriptor, and through all its copies, return instead of waiting. For the host's side of
/// a terminal, which no event loop could use otherwise.
pub fn make_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(descriptor, true)?)
}

/// Becomes readable when the command has ended.
impl AsFd for Job {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Job {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
