//! `holm sandbox`: sandboxes that stay until they are removed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exec::{BackendArgs, CommandArgs, SandboxArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Make a sandbox that stays, and print its name
    Create(Box<CreateArgs>),

    /// Show the sandboxes that exist
    #[command(visible_alias = "ls")]
    List(ListArgs),

    /// Run a command in a sandbox
    Exec(Box<SandboxExecArgs>),

    /// Copy files or folders into a sandbox, or out of it
    #[command(name = "cp", visible_alias = "copy")]
    Copy(CopyArgs),

    /// Copy a folder of a sandbox to a new folder of the machine
    Export(ExportArgs),

    /// Remove sandboxes; work on a repository is kept on its branch
    #[command(name = "rm", visible_aliases = ["remove", "delete"])]
    Remove(RemoveArgs),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  holm sandbox create
  holm sandbox create --repo . --name fix-1 --memory 4g
  name=$(holm sandbox create --repo .) && holm sandbox exec $name -- cargo test";

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    /// What to call it [default: its id]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print one JSON object instead of the name
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

const EXEC_EXAMPLES: &str = "\
The box of a sandbox starts again by itself if it has ended, for example after a restart of the
machine. Exit codes, input and Ctrl-C are as for `holm exec`.

Examples:
  holm sandbox exec fix-1 -- cargo test
  holm sandbox exec fix-1 --cwd crates/cli --timeout 5m -- cargo build
  holm sandbox exec fix-1 -- sh -c 'git add -A && git commit -m wip'";

#[derive(Debug, Args)]
#[command(
    after_help = EXEC_EXAMPLES,
    override_usage = "holm sandbox exec [OPTIONS] <NAME> [--] <COMMAND> [ARGUMENT]..."
)]
pub(crate) struct SandboxExecArgs {
    /// The sandbox's name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    /// The folder to start in, from the sandbox's work folder on
    #[arg(long, value_name = "PATH")]
    pub(crate) cwd: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

const COPY_EXAMPLES: &str = "\
One of the two is a path in a sandbox, written NAME:PATH, where PATH is relative to the work folder.
A folder is copied with all that is in it, into a folder of that name if the destination exists.
Write a local path with a colon in it as ./a:b.

Examples:
  holm sandbox cp notes.txt fix-1:docs/
  holm sandbox cp fix-1:target/report.html .
  holm sandbox cp ./fixtures fix-1:tests";

#[derive(Debug, Args)]
#[command(after_help = COPY_EXAMPLES)]
pub(crate) struct CopyArgs {
    /// What to copy: PATH or NAME:PATH
    pub(crate) source: OsString,

    /// Where to copy it: PATH or NAME:PATH
    pub(crate) destination: OsString,

    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  holm sandbox export fix-1 ./everything
  holm sandbox export fix-1 target/doc ./doc";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES, allow_missing_positional = true)]
pub(crate) struct ExportArgs {
    /// The sandbox's name or id
    pub(crate) name: String,

    /// The folder in the sandbox [default: the whole work folder]
    pub(crate) path: Option<PathBuf>,

    /// The folder to make; it must not exist yet, or be empty
    pub(crate) destination: PathBuf,

    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  holm sandbox rm fix-1
  holm sandbox rm fix-1 fix-2 --discard";

#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// The sandboxes' names or ids
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Throw uncommitted changes away; commits stay on the branch
    #[arg(long)]
    pub(crate) discard: bool,

    /// Print a JSON array of what was removed and kept
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}
