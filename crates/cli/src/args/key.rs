//! `holm key`: who may use a server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use holm_server::keys::DEFAULT_ORGANIZATION;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key, and print it: it is shown this once
    Create(KeyCreateArgs),

    /// Show the keys that exist, without what is secret in them
    #[command(visible_alias = "ls")]
    List(KeyListArgs),

    /// Revoke a key: the next request with it is refused, and what it made stays
    #[command(visible_aliases = ["rm", "delete"])]
    Revoke(KeyRevokeArgs),
}

const CREATE_EXAMPLES: &str = "\
Sandboxes belong to the organisation of the key that made them, and no other sees them. The server
may be running: the key works at once.

Examples:
  holm key create ci
  DAYTONA_API_KEY=$(holm key create ci)
  holm key create alice --organization team-b";

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct KeyCreateArgs {
    /// What to call it
    pub(crate) name: String,

    /// Whose key it is; an organisation that is not there yet is made
    #[arg(long, value_name = "NAME", default_value = DEFAULT_ORGANIZATION)]
    pub(crate) organization: String,

    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print one JSON object instead of the key
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyListArgs {
    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  holm key revoke ci
  holm key revoke alice --organization team-b";

#[derive(Debug, Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(crate) struct KeyRevokeArgs {
    /// What it is called
    pub(crate) name: String,

    /// Whose key it is
    #[arg(long, value_name = "NAME", default_value = DEFAULT_ORGANIZATION)]
    pub(crate) organization: String,

    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which server is meant.
#[derive(Debug, Args)]
pub(crate) struct ServerFolder {
    /// The server's data folder [default: `server` in Holm's data folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}
