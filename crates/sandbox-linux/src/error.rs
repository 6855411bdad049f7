//! What can go wrong while a box is made or used, said as step and subject.

use std::io;
use std::path::PathBuf;

use crate::step::Step;

/// An error of the engine. The cause is always the `source`, never part of the text.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The spawner could not be started or is gone.
    #[error("could not {doing} the spawner process")]
    Spawner {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    /// One step of making the box failed; the box was not started.
    #[error("could not {}", step.describe())]
    Step {
        step: Box<Step>,
        #[source]
        source: io::Error,
    },
    /// The box's init is gone.
    #[error("box `{id}` is not running")]
    NotRunning { id: String },
    /// The conversation with init broke.
    #[error("could not {doing} box `{id}`")]
    Control {
        doing: &'static str,
        id: String,
        #[source]
        source: io::Error,
    },
    /// No program in the box accepts connections there.
    #[error("nothing listens on port {port} in box `{id}`")]
    NothingListens { id: String, port: u16 },
    /// Init keeps descriptors within bounds.
    #[error("could not park `{name}` in box `{id}`: {reason}")]
    CannotPark {
        id: String,
        name: String,
        reason: String,
    },
    /// The program does not exist inside the box.
    #[error("command `{program}` was not found in the box")]
    CommandNotFound { program: String },
    /// The program exists and cannot be executed.
    #[error("command `{program}` could not be executed in the box")]
    CommandNotExecutable {
        program: String,
        #[source]
        source: io::Error,
    },
    /// The command's process could not be set up (working directory, ids, session).
    #[error("could not {stage} for command `{program}`")]
    Launch {
        stage: String,
        program: String,
        #[source]
        source: io::Error,
    },
    /// A file or folder of the engine on the host.
    #[error("could not {doing} `{}`", path.display())]
    HostFile {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The host does not give what a box needs.
    #[error("this host cannot run isolated boxes: {reason}")]
    HostLacks { reason: String, hint: String },
    /// What the caller asks for cannot be, on any host.
    #[error("{what}")]
    Invalid { what: String, hint: String },
    /// A command may not run as that user.
    #[error("commands in box `{id}` cannot run as {user}")]
    CommandUser {
        id: String,
        user: String,
        hint: String,
    },
    /// The seccomp filter could not be built.
    #[error("could not build the system call filter")]
    Seccomp {
        #[source]
        source: crate::seccomp::SeccompError,
    },
    /// The resource limits could not be set up.
    #[error("could not set up the resource limits")]
    Cgroup {
        #[source]
        source: crate::cgroup::CgroupError,
    },
}

pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Attaches step and path to an I/O error.
pub(crate) trait HostFileContext<T> {
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> HostFileContext<T> for std::result::Result<T, E> {
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| EngineError::HostFile {
            doing,
            path: path.into(),
            source: source.into(),
        })
    }
}
