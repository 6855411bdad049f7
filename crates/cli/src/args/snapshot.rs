//! `holm snapshot`: what the sandboxes of a server start from.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::key::ServerFolder;

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Make a snapshot from an archive, an image, a sandbox or a fresh Debian
    Create(Box<SnapshotCreateArgs>),

    /// Show the snapshots of a server
    #[command(visible_alias = "ls")]
    List(SnapshotListArgs),

    /// Remove a snapshot: sandboxes that were made from it stay
    #[command(visible_aliases = ["rm", "delete"])]
    Remove(SnapshotRemoveArgs),
}

const CREATE_HELP: &str = "\
The server may be running: the snapshot can be used at once, by all organisations. One that is made
from a sandbox is for the organisation of that sandbox, which has to be stopped, and the server
with it. Images need root.

Examples:
  holm snapshot create debian --debootstrap bookworm
  holm snapshot create tools --from-tar rootfs.tar.zst --cpu 2 --memory 4
  holm snapshot create node --from-image node:22
  holm snapshot create saved --from-sandbox 3f0c2a9e-…";

#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct SnapshotCreateArgs {
    /// What to call it
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) source: SnapshotSourceArgs,

    /// Processors of its sandboxes
    #[arg(long, value_name = "COUNT")]
    pub(crate) cpu: Option<u32>,

    /// Memory of its sandboxes, in GiB
    #[arg(long, value_name = "GIB")]
    pub(crate) memory: Option<u32>,

    /// Disk space of its sandboxes, in GiB
    #[arg(long, value_name = "GIB")]
    pub(crate) disk: Option<u32>,

    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print one JSON object instead of the id
    #[arg(long)]
    pub(crate) json: bool,
}

/// Exactly one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SnapshotSourceArgs {
    /// A root file system as an archive, perhaps compressed with gzip or zstd
    #[arg(long, value_name = "FILE")]
    pub(crate) from_tar: Option<PathBuf>,

    /// A folder with an OCI image layout
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from_oci: Option<PathBuf>,

    /// An image of a registry
    #[arg(long, value_name = "REFERENCE")]
    pub(crate) from_image: Option<String>,

    /// The files of a sandbox of this server
    #[arg(long, value_name = "ID")]
    pub(crate) from_sandbox: Option<String>,

    /// A minimal Debian, by debootstrap
    #[arg(long, value_name = "SUITE")]
    pub(crate) debootstrap: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotListArgs {
    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

const REMOVE_HELP: &str = "\
Its files go when no sandbox stands on them any more: at the next start of the server, or with the
next deletion there.

Examples:
  holm snapshot remove tools";

#[derive(Debug, Args)]
#[command(after_help = REMOVE_HELP)]
pub(crate) struct SnapshotRemoveArgs {
    /// What it is called, or its id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
