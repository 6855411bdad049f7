//! What host and init say to each other.
//!
//! A *control connection* carries [`Order`]s; each command has a *job socket* of its own, which init
//! gets with the order and on which it reports ([`JobEvent`]) and is told ([`JobOrder`]) about it.
//! A job socket that closes is the host's way to say that it no longer cares, or that it is dead.

use serde::{Deserialize, Serialize};

use crate::step::Step;

/// What the host asks of init, on a control connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Perform these steps in order. Descriptors: those that the steps refer to.
    Perform { steps: Vec<Step>, then: Then },
    /// Keep these descriptors until the end: locks that live as long as the box.
    Hold,
    /// Accept further control connections on this listening socket.
    Listen,
    /// Start a command. Descriptors: job socket, then stdin, stdout and stderr unless it has a terminal.
    Start(Launch),
    /// Answer a question. Descriptors: the socket on which the one [`Reply`] goes out, then those that
    /// the question brings. An answer that comes too late is thus nobody else's.
    Ask(Question),
    /// End every process of the box, and init with them.
    Stop,
}

/// Whether more steps follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Then {
    MoreSteps,
    Serve,
}

/// Init's answer to `Perform`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    StepFailed { index: usize, errno: i32 },
}

/// Names that one box keeps.
pub(crate) const PARKED_NAMES_MAX: usize = 1024;
pub(crate) const PARKED_NAME_BYTES_MAX: usize = 128;
pub(crate) const PARKED_NOTE_BYTES_MAX: usize = 4096;
/// Descriptors under one name.
pub(crate) const PARKED_DESCRIPTORS_MAX: usize = 8;

/// What the host wants to have or to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// A descriptor of the box's root.
    Root,
    /// Keep the descriptors under a name, in place of what has it.
    Park { name: String, note: Vec<u8> },
    /// Copies of the descriptors that are kept under a name.
    Fetch { name: String },
    /// Forget a name; one that is not there is forgotten already.
    Unpark { name: String },
    /// The names in use that come after this one, as many as fit.
    ParkedNames { after: Option<String> },
    /// A socket that is being connected to this port of the box's loopback.
    Connect { port: u16, loopback: Loopback },
    /// A socket that listens on this port of the box's loopback.
    Listen { port: u16 },
    /// How many processes there are beside init.
    CountProcesses,
}

/// Which of the two loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Loopback {
    V4,
    V6,
}

/// Init's answer to a [`Question`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// Descriptor: what was asked for.
    Descriptor,
    /// Descriptors: those that are kept, in their order.
    Parked {
        note: Vec<u8>,
    },
    NotParked,
    /// None are left when the list is empty.
    Names(Vec<String>),
    Count(u64),
    Failed {
        errno: i32,
    },
}

/// A command to start in the box. Bytes, not text: nothing here must be UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) argv: Vec<Vec<u8>>,
    pub(crate) env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) cwd: Vec<u8>,
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) disconnect: OnDisconnect,
    /// Stands in the command's environment, so that its descendants are found again.
    pub(crate) marker: String,
}

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// What happens to a command when the host's end of its job socket closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDisconnect {
    Kill,
    Keep,
}

/// Whom a signal reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// The command's process group, as a terminal would.
    Group,
    /// The command and everything that it started, wherever it hides in the box.
    Tree,
    /// Of a shell, the children that started at this moment ([`ticks_now`](crate::ticks_now)) or later, each with
    /// everything that it started. Neither the shell itself nor its older children.
    StartedSince { ticks: u64 },
}

/// What the host asks about one command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum JobOrder {
    Signal { signal: i32, reach: Reach },
}

/// What init tells about one command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum JobEvent {
    /// The program runs. Descriptor: the terminal's master side, if it has one.
    Started {
        pid: i32,
    },
    NotStarted {
        stage: LaunchStage,
        errno: i32,
    },
    Exited(Exit),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The box ended and took the command with it.
    Lost,
}

/// Where the start of a command can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchStage {
    Fork,
    Terminal,
    Session,
    Streams,
    Identity,
    WorkingDirectory,
    Execute,
}

impl LaunchStage {
    /// The stage as the end of a sentence that begins with "could not".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Fork => "make a process",
            Self::Terminal => "open a terminal",
            Self::Session => "make a session",
            Self::Streams => "connect the standard streams",
            Self::Identity => "change the user",
            Self::WorkingDirectory => "enter the working directory",
            Self::Execute => "execute the program",
        }
    }
}
