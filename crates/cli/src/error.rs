//! What a failure looks like, and which exit code it has: here and nowhere else.
//!
//! ```text
//! error: could not make folder `/var/lib/holm`
//!   caused by: Permission denied (os error 13)
//!
//! hint: Holm keeps its data in `/var/lib/holm`; …
//! ```
//!
//! **Invariant:** no text of an error reaches the terminal with a control character in it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use holm_sandbox::{ErrorKind, SandboxError};
use holm_sandbox_linux::files::FilesError;
use holm_server::ServeError;
use holm_server::keys::KeyError;
use holm_server::operator::OperatorError;
use holm_stream_proxy::ProxyError;
use holm_thread_client::{ClientError, ExportError, ProducerError};

use crate::args::CommandFamily;
use crate::output::{self, Tone, printable};

/// The command ran into its timeout.
pub(crate) const EXIT_TIMED_OUT: u8 = 124;
/// Holm itself failed, or was asked for nonsense, in a command that passes exit codes on.
const EXIT_HOLM_FAILED: u8 = 125;
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;
/// As shells say it of a program that SIGPIPE ended.
pub(crate) const EXIT_OUTPUT_CLOSED: u8 = 141;
const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;

/// Rows of the page `exit-codes.md`: for `holm exec` and `holm sandbox exec`.
pub(crate) const EXEC_EXIT_CODES: [(&str, &str); 9] = [
    ("0 to 255", "The command's own exit code."),
    (
        "124",
        "The timeout ended the command. What it wrote until then has been passed on.",
    ),
    (
        "125",
        "Holm itself failed, or the command line was wrong. The command may not have run.",
    ),
    ("126", "The command is there and cannot be executed."),
    ("127", "The command is not there."),
    (
        "128+N",
        "Signal N ended the command: 137 is SIGKILL, which is also what a memory limit sends.",
    ),
    (
        "130",
        "Ctrl-C: it ended the command, or a second one made Holm kill it.",
    ),
    (
        "129, 143",
        "Holm was sent SIGHUP or SIGTERM and has killed the command.",
    ),
    (
        "141",
        "Whoever read the output has gone, and Holm has killed the command.",
    ),
];

/// Rows of the page `exit-codes.md`: for all other commands.
pub(crate) const OTHER_EXIT_CODES: [(&str, &str); 4] = [
    ("0", "All went well; for `holm doctor`: sandboxes work."),
    (
        "1",
        "Something failed, and standard error says what; for `holm doctor`: sandboxes do not work.",
    ),
    ("2", "The command line was wrong."),
    ("141", "Whoever read the output has gone."),
];

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),

    #[error(transparent)]
    Serve(#[from] ServeError),

    #[error(transparent)]
    Key(#[from] KeyError),

    #[error(transparent)]
    Operator(#[from] OperatorError),

    /// What a server says of its threads, or why it does not.
    #[error(transparent)]
    Thread(#[from] ClientError),

    #[error(transparent)]
    Producer(Box<ProducerError>),

    #[error("could not use `{}`", path.display())]
    Export {
        path: PathBuf,
        #[source]
        source: ExportError,
    },

    #[error(transparent)]
    Proxy(#[from] ProxyError),

    /// A file operation that the contract has no name for, such as a streamed copy.
    #[error(transparent)]
    Files(#[from] FilesError),

    /// A file or folder of the host.
    #[error("could not {doing} `{}`", path.display())]
    HostFile {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    /// The request cannot be fulfilled as it is.
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },

    /// Whoever read our output is gone; there is nobody to tell.
    #[error("standard output was closed")]
    OutputClosed,

    #[error("could not {doing}")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },

    /// Several subjects were worked on, and what failed was told at once.
    #[error("{failed} of {all} failed")]
    Told { failed: usize, all: usize },
}

impl From<ProducerError> for CliError {
    fn from(error: ProducerError) -> Self {
        Self::Producer(Box::new(error))
    }
}

impl CliError {
    pub(crate) fn exit_code(&self, family: CommandFamily) -> u8 {
        match (self, family) {
            (Self::OutputClosed, _) => EXIT_OUTPUT_CLOSED,
            (_, CommandFamily::Other) => EXIT_FAILED,
            (Self::Sandbox(error), CommandFamily::Exec) => match error.kind() {
                ErrorKind::CommandNotFound => EXIT_NOT_FOUND,
                ErrorKind::CommandNotExecutable => EXIT_NOT_EXECUTABLE,
                ErrorKind::InvalidInput
                | ErrorKind::Confinement
                | ErrorKind::NotFound
                | ErrorKind::WrongFileKind
                | ErrorKind::TooLarge
                | ErrorKind::Unsupported
                | ErrorKind::TornDown
                | ErrorKind::Failed => EXIT_HOLM_FAILED,
            },
            (
                Self::Serve(_)
                | Self::Key(_)
                | Self::Operator(_)
                | Self::Thread(_)
                | Self::Producer(_)
                | Self::Export { .. }
                | Self::Proxy(_)
                | Self::Files(_)
                | Self::HostFile { .. }
                | Self::Refused { .. }
                | Self::Io { .. }
                | Self::Told { .. },
                CommandFamily::Exec,
            ) => EXIT_HOLM_FAILED,
        }
    }

    fn hint(&self, data_dir: Option<&Path>) -> Option<String> {
        let own = match self {
            Self::Sandbox(error) => error.hint(),
            Self::Serve(error) => error.hint(),
            Self::Key(error) => error.hint().map(str::to_owned),
            Self::Operator(error) => error.hint(),
            Self::Thread(error) => thread_hint(error).map(str::to_owned),
            Self::Producer(error) => producer_hint(error),
            Self::Export { source, .. } => export_hint(source).map(str::to_owned),
            Self::Proxy(error) => error.hint().map(str::to_owned),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Files(FilesError::Escapes { .. }) => {
                Some("use a path in the sandbox's work folder, or a relative one".to_owned())
            }
            Self::Files(FilesError::DestinationNotEmpty { .. }) => {
                Some("choose a folder that does not exist yet".to_owned())
            }
            Self::Files(_)
            | Self::HostFile { .. }
            | Self::OutputClosed
            | Self::Io { .. }
            | Self::Told { .. } => None,
        };
        own.or_else(|| hint_from_causes(self, data_dir))
    }
}

/// As the library has it, by the names of this command line.
fn thread_hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => Some(
            "see whether the server runs, and whether HOLM_API_URL names it; on this machine `holm serve` starts one",
        ),
        ClientError::Api(refused) if refused.status == 401 => {
            Some("HOLM_API_KEY has to be a key of this server; `holm key create` makes one")
        }
        ClientError::Api(_)
        | ClientError::Untrusted { .. }
        | ClientError::Invalid { .. }
        | ClientError::Protocol { .. }
        | ClientError::TooLarge { .. }
        | ClientError::Credentials { .. }
        | ClientError::CursorFile { .. } => error.hint(),
    }
}

fn producer_hint(error: &ProducerError) -> Option<String> {
    match error {
        ProducerError::Spool(error) => error.hint(),
        ProducerError::Stopped(stopped) => stopped.hint(),
        ProducerError::Unconfirmed { trouble, .. } => {
            let next = "send them later with `holm thread append THREAD --spool FOLDER --flush`";
            Some(match trouble {
                Some(trouble) => format!("{trouble}; {next}"),
                None => next.to_owned(),
            })
        }
        ProducerError::Thread(_) => None,
    }
}

fn export_hint(error: &ExportError) -> Option<&'static str> {
    match error {
        ExportError::CutOff | ExportError::Checksum { .. } | ExportError::Count { .. } => {
            Some("the file is not what was exported: export the thread again")
        }
        ExportError::Version { .. } => Some("a newer version of Holm wrote it: use that one"),
        ExportError::NoExport | ExportError::LineTooLong { .. } => {
            Some("give a file that `holm thread export` wrote")
        }
        ExportError::Read(_) | ExportError::Write(_) => None,
    }
}

/// What can be done about the system's refusals, wherever in the chain they are.
fn hint_from_causes(error: &(dyn Error + 'static), data_dir: Option<&Path>) -> Option<String> {
    let elsewhere = data_dir.map(|path| {
        format!(
            "Holm keeps its data in `{}`; choose another folder with --data-dir or HOLM_DATA_DIR",
            path.display()
        )
    });
    chain(error).find_map(|cause| {
        let kind = cause.downcast_ref::<io::Error>()?.kind();
        if is_full(kind) {
            Some(match &elsewhere {
                Some(elsewhere) => format!("the disk is full: free some space. {elsewhere}"),
                None => "the disk is full: free some space".to_owned(),
            })
        } else if is_refusal(kind) && concerns(error, data_dir?) {
            elsewhere.clone()
        } else {
            None
        }
    })
}

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn is_refusal(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
    )
}

/// Whether the failure was about something in the data folder, or on the way to it.
fn concerns(error: &(dyn Error + 'static), data_dir: &Path) -> bool {
    chain(error).any(|cause| {
        let path = match cause.downcast_ref::<SandboxError>() {
            Some(SandboxError::Io { path, .. }) => Some(path),
            _ => match cause.downcast_ref::<CliError>() {
                Some(
                    CliError::Sandbox(SandboxError::Io { path, .. })
                    | CliError::HostFile { path, .. },
                ) => Some(path),
                _ => None,
            },
        };
        path.is_some_and(|path| path.starts_with(data_dir) || data_dir.starts_with(path))
    })
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        (*error).source()
    })
}

/// The exit code of a command line that clap refused, or answered itself (`--help`).
pub(crate) fn usage_exit_code(error: &clap::Error, family: CommandFamily) -> u8 {
    match (error.use_stderr(), family) {
        (false, _) => 0,
        (true, CommandFamily::Exec) => EXIT_HOLM_FAILED,
        (true, CommandFamily::Other) => EXIT_USAGE,
    }
}

/// Tells the user.
pub(crate) fn print(error: &CliError, data_dir: Option<&Path>) {
    match error {
        CliError::OutputClosed | CliError::Told { .. } => return,
        CliError::Sandbox(_)
        | CliError::Serve(_)
        | CliError::Key(_)
        | CliError::Operator(_)
        | CliError::Thread(_)
        | CliError::Producer(_)
        | CliError::Export { .. }
        | CliError::Proxy(_)
        | CliError::Files(_)
        | CliError::HostFile { .. }
        | CliError::Refused { .. }
        | CliError::Io { .. } => {}
    }
    output::tell(Tone::Error, &error.to_string());
    for cause in causes(error) {
        output::tell(Tone::Cause, &cause);
    }
    if let Some(hint) = error.hint(data_dir) {
        output::say("");
        output::tell(Tone::Hint, &hint);
    }
}

/// The error and its causes in one line, for reports that have no room for more.
pub(crate) fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut texts = vec![printable(&error.to_string())];
    texts.extend(causes(error));
    texts.join(": ")
}

/// The texts of the causes; one that only repeats what was said is left out.
fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts: Vec<String> = vec![error.to_string()];
    for cause in chain(error).skip(1) {
        let text = cause.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
    }
    texts
        .into_iter()
        .skip(1)
        .map(|text| printable(&text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_disk() -> CliError {
        CliError::Sandbox(SandboxError::Io {
            doing: "write".into(),
            path: "/data/boxes/1/record.json".into(),
            source: io::ErrorKind::StorageFull.into(),
        })
    }

    #[test]
    fn each_failure_has_its_exit_code() {
        let missing = || {
            CliError::Sandbox(SandboxError::CommandNotFound {
                program: "x".into(),
            })
        };
        let refused = CliError::Sandbox(SandboxError::CommandNotExecutable {
            program: "x".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        });
        assert_eq!(missing().exit_code(CommandFamily::Exec), 127);
        assert_eq!(missing().exit_code(CommandFamily::Other), 1);
        assert_eq!(refused.exit_code(CommandFamily::Exec), 126);
        assert_eq!(full_disk().exit_code(CommandFamily::Exec), 125);
        assert_eq!(CliError::OutputClosed.exit_code(CommandFamily::Other), 141);
    }

    #[test]
    fn the_data_folder_is_named_when_it_is_the_matter() {
        let data = Path::new("/data");
        assert!(full_disk().hint(Some(data)).unwrap().contains("`/data`"));
        let denied = |path: &str| {
            CliError::Sandbox(SandboxError::Io {
                doing: "make folder".into(),
                path: path.into(),
                source: io::ErrorKind::PermissionDenied.into(),
            })
        };
        assert!(denied("/data/boxes").hint(Some(data)).is_some());
        assert!(denied("/elsewhere").hint(Some(data)).is_none());
    }

    #[test]
    fn causes_are_told_once() {
        let error = CliError::HostFile {
            doing: "open",
            path: "/x".into(),
            source: io::Error::from_raw_os_error(2),
        };
        assert_eq!(
            one_line(&error),
            "could not open `/x`: No such file or directory (os error 2)"
        );
    }
}
