//! The folder inside a box through which the server and the shell of one session meet.
//!
//! Each command is a file that the shell reads, and named pipes for its outputs, its input and its exit code. Nobody in
//! the box may list or change the folder: it belongs to the host, and has an unguessable name. The pipes can be used by
//! every process of the box's user, which is where the commands come from anyway.
//!
//! The shell is told one line per command. The line may be told twice, since a server that dies does not know whether
//! its last word was heard: a command runs once, and every line answers with its exit code.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use holm_daytona_wire::session::SessionExecuteRequest;
use holm_sandbox_linux::files::{ConfinedDir, FilesError, Permissions, Resolve, WriteOptions};
use holm_sandbox_linux::{EngineError, LinuxBox};
use tokio::net::unix::pipe;

/// The shell only runs through the folder; names in it are known to the server alone.
const FOLDER_MODE: u32 = 0o711;
const PIPE_MODE: u32 = 0o666;
const FILE_MODE: u32 = 0o644;

#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("could not use the session's folder in the sandbox")]
    Files {
        #[from]
        source: FilesError,
    },
    #[error("could not use the sandbox")]
    Engine {
        #[from]
        source: EngineError,
    },
    #[error("could not open a pipe of the session")]
    Pipe {
        #[from]
        source: io::Error,
    },
}

#[derive(Debug)]
pub(super) struct Control {
    folder: ConfinedDir,
    /// Absolute, as seen inside.
    path: PathBuf,
}

/// The server's ends of one command's pipes.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) output: Outputs,
    pub(super) held: Held,
}

/// They end with the last writer.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// Needed while the command runs.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) status: pipe::Receiver,
    /// Writing ends, so that nothing ends before the shell has begun.
    writers: [OwnedFd; 2],
    pub(super) input: Option<pipe::Sender>,
}

impl Control {
    /// Makes a folder for a new session. Blocks.
    pub(super) fn make(home: &LinuxBox) -> Result<Self, ControlError> {
        let path = PathBuf::from(format!("/run/holm-{}", holm_sandbox_linux::random_hex()));
        let root = root(home)?;
        root.create_dir(below_root(&path), FOLDER_MODE)?;
        Ok(Self {
            folder: root.subdir(below_root(&path))?,
            path,
        })
    }

    /// The folder of a session that exists. Blocks.
    pub(super) fn open(home: &LinuxBox, path: PathBuf) -> Result<Self, ControlError> {
        Ok(Self {
            folder: root(home)?.subdir(below_root(&path))?,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a command's files and pipes and opens our ends. Blocks.
    pub(super) fn prepare(
        &self,
        id: &str,
        request: &SessionExecuteRequest,
        before: Option<&str>,
    ) -> Result<Ends, ControlError> {
        // From a server that died while it did this.
        self.remove(id);
        self.write(&name('c', id), &format!("{}\n", request.command))?;
        if let Some(before) = before {
            self.write(&name('p', id), before)?;
        }
        let make = |kind| {
            let name = name(kind, id);
            self.folder.make_fifo(&name, PIPE_MODE)?;
            self.folder.open_fifo(&name)
        };
        let (stdout, stderr, status) = (make('o')?, make('e')?, make('s')?);
        let input = if request.is_async() {
            Some(make('i')?)
        } else {
            None
        };
        Ok(Ends {
            output: Outputs {
                stdout: reading_end(&stdout)?,
                stderr: reading_end(&stderr)?,
            },
            held: Held::new(status, [stdout, stderr], input)?,
        })
    }

    fn write(&self, name: &Path, text: &str) -> Result<(), FilesError> {
        let options = WriteOptions {
            permissions: Permissions::Exactly(FILE_MODE),
            ..WriteOptions::default()
        };
        self.folder.write_atomic(name, text.as_bytes(), options)
    }

    /// Removes the names of a command; pipes that are open stay so. Blocks.
    pub(super) fn remove(&self, id: &str) {
        for kind in ['c', 'p', 'o', 'e', 's', 'i'] {
            // What is not there need not be removed.
            drop(self.folder.delete_file(&name(kind, id)));
        }
    }

    /// Removes the whole folder. Blocks.
    pub(super) fn remove_all(&self, home: &LinuxBox) -> Result<(), ControlError> {
        Ok(root(home)?.remove_tree(below_root(&self.path))?)
    }

    /// The line that has the shell run a command, at most once, and tell its exit code.
    pub(super) fn line(&self, id: &str, request: &SessionExecuteRequest, apart: Apart) -> String {
        let at = |kind| self.path.join(name(kind, id)).display().to_string();
        let run = match apart {
            // `command` keeps a syntax error from ending the shell, which POSIX asks of a plain `.`.
            Apart::No => format!("command . {}", at('c')),
            Apart::Yes => format!("(command . {} && command . {})", at('p'), at('c')),
        };
        let input = if request.is_async() {
            at('i')
        } else {
            "/dev/null".to_owned()
        };
        let (stdout, stderr, status) = (at('o'), at('e'), at('s'));
        format!(
            "[ \"${{__holm-}}\" = {id} ] || {{ __holm={id}; {{ {run}; }} <{input} >{stdout} 2>{stderr}; \
             __holm_code=$?; }}; printf '%s\\n' \"$__holm_code\" >{status}\n"
        )
    }
}

/// Whether a command gets a shell of its own, which forgets its folder and its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    No,
    Yes,
}

impl Outputs {
    pub(super) fn parked(&self) -> [BorrowedFd<'_>; 2] {
        [self.stdout.as_fd(), self.stderr.as_fd()]
    }

    /// What [`Self::parked`] gave.
    pub(super) fn found_again(parked: Vec<OwnedFd>) -> Option<Self> {
        let [stdout, stderr] = <[OwnedFd; 2]>::try_from(parked).ok()?;
        Some(Self {
            stdout: pipe::Receiver::from_owned_fd(stdout).ok()?,
            stderr: pipe::Receiver::from_owned_fd(stderr).ok()?,
        })
    }
}

impl Held {
    fn new(status: OwnedFd, writers: [OwnedFd; 2], input: Option<OwnedFd>) -> io::Result<Self> {
        Ok(Self {
            status: pipe::Receiver::from_owned_fd(status)?,
            writers,
            input: input.map(pipe::Sender::from_owned_fd).transpose()?,
        })
    }

    pub(super) fn parked(&self) -> Vec<BorrowedFd<'_>> {
        let [stdout, stderr] = &self.writers;
        let mut all = vec![self.status.as_fd(), stdout.as_fd(), stderr.as_fd()];
        all.extend(self.input.as_ref().map(AsFd::as_fd));
        all
    }

    /// What [`Self::parked`] gave.
    pub(super) fn found_again(parked: Vec<OwnedFd>) -> Option<Self> {
        let mut parked = parked.into_iter();
        let (status, stdout, stderr) = (parked.next()?, parked.next()?, parked.next()?);
        Self::new(status, [stdout, stderr], parked.next()).ok()
    }
}

/// What is run before a command that has a folder or an environment of its own.
pub(super) fn preparation(cwd: Option<&Path>, request: &SessionExecuteRequest) -> Option<String> {
    if cwd.is_none() && request.envs.is_empty() {
        return None;
    }
    let mut text = String::new();
    if let Some(cwd) = cwd {
        text.push_str(&format!(
            "cd -- {} || return\n",
            quote(&cwd.display().to_string())
        ));
    }
    for (name, value) in &request.envs {
        text.push_str(&format!("export {name}={}\n", quote(value)));
    }
    Some(text)
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn name(kind: char, id: &str) -> PathBuf {
    format!("{kind}-{id}").into()
}

fn root(home: &LinuxBox) -> Result<ConfinedDir, ControlError> {
    Ok(ConfinedDir::new(home.root()?)?.resolving(Resolve::InRoot))
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// A second end of a pipe that can only be read, and therefore ends with its last writer.
fn reading_end(pipe: &OwnedFd) -> io::Result<pipe::Receiver> {
    let own_name = Path::new("/proc/self/fd").join(pipe.as_raw_fd().to_string());
    pipe::OpenOptions::new().open_receiver(own_name)
}
