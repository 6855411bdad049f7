//! What can be asked of `holm`. Doc comments are the help texts, the completions and the reference page.

mod exec;
mod key;
mod sandbox;
mod serve;
mod snapshot;
mod values;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use exec::{BackendArgs, CommandArgs, ExecArgs, SandboxArgs};
pub(crate) use key::{KeyCommand, KeyCreateArgs, KeyListArgs, KeyRevokeArgs};
pub(crate) use sandbox::{
    CopyArgs, CreateArgs, ExportArgs, ListArgs, RemoveArgs, SandboxCommand, SandboxExecArgs,
};
pub(crate) use serve::{BuildReach, LogFormat, ServeArgs};
pub(crate) use snapshot::{
    SnapshotCommand, SnapshotCreateArgs, SnapshotListArgs, SnapshotRemoveArgs, SnapshotSourceArgs,
};
pub(crate) use values::SandboxKind;

const EXAMPLES: &str = "\
Examples:
  holm exec -- python3 -c 'print(6 * 7)'        run a command in an empty sandbox
  holm exec --repo . -- cargo test              run it on an isolated checkout of this repository
  holm sandbox create --repo . --name fix-1     make a sandbox that stays
  holm serve                                    serve Daytona's API to its SDKs
  holm doctor                                   see what this machine gives";

/// Gives every coding agent an island: an isolated machine, a record, a branch
#[derive(Debug, Parser)]
#[command(name = "holm", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR, or see `holm doctor`]
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        help_heading = "Global options"
    )]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in a throwaway sandbox
    Exec(Box<ExecArgs>),

    /// Make, use and remove sandboxes that stay
    #[command(subcommand)]
    Sandbox(SandboxCommand),

    /// Serve Daytona's API: its SDKs make and use sandboxes on this machine
    Serve(Box<ServeArgs>),

    /// Make, show and revoke the API keys of a server
    #[command(subcommand)]
    Key(KeyCommand),

    /// Make, show and remove what the sandboxes of a server start from
    #[command(subcommand)]
    Snapshot(SnapshotCommand),

    /// Show what this machine gives and what is missing, and prove it with a real sandbox
    Doctor(DoctorArgs),

    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell to complete in
        shell: Shell,
    },

    /// Write the generated pages of the documentation
    #[command(name = "__generate", hide = true)]
    Generate {
        /// The folder to write to
        directory: PathBuf,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  holm completions bash > /etc/bash_completion.d/holm
  holm completions fish > ~/.config/fish/completions/holm.fish";

const DOCTOR_HELP: &str = "\
The exit code is 0 when sandboxes work here, and 1 when they do not.";

#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands that share their exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandFamily {
    /// Those that pass on the exit code of a command, and need codes of their own beside it.
    Exec,
    Other,
}

impl Command {
    pub(crate) fn family(&self) -> CommandFamily {
        match self {
            Self::Exec(_) | Self::Sandbox(SandboxCommand::Exec(_)) => CommandFamily::Exec,
            Self::Sandbox(_)
            | Self::Serve(_)
            | Self::Key(_)
            | Self::Snapshot(_)
            | Self::Doctor(_)
            | Self::Completions { .. }
            | Self::Generate { .. } => CommandFamily::Other,
        }
    }
}

impl CommandFamily {
    /// The family of a command line that could not be parsed.
    pub(crate) fn of_words(arguments: &[OsString]) -> Self {
        let mut words = Vec::new();
        let mut arguments = arguments.iter().skip(1);
        while let Some(argument) = arguments.next() {
            if argument == "--data-dir" {
                // Its value is no command.
                arguments.next();
            } else if !argument.as_encoded_bytes().starts_with(b"-") {
                words.push(argument.as_os_str());
            }
        }
        let word = |index: usize| words.get(index).and_then(|word: &&OsStr| word.to_str());
        match (word(0), word(1)) {
            (Some("exec"), _) | (Some("sandbox"), Some("exec")) => Self::Exec,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn family_is_known_without_parsing() {
        for (line, family) in [
            ("holm exec --nonsense", CommandFamily::Exec),
            ("holm --data-dir exec sandbox list", CommandFamily::Other),
            ("holm --data-dir=/x sandbox exec a", CommandFamily::Exec),
            ("holm sandbox create exec", CommandFamily::Other),
            ("holm", CommandFamily::Other),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(CommandFamily::of_words(&words), family, "{line}");
        }
    }
}
