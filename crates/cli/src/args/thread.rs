//! `holm thread`: threads of a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::duration;

const ENVIRONMENT: &str = "\
The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.";

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadCommand {
    /// Make a thread, and print its id
    Create(ThreadCreateArgs),

    /// Show threads, the latest first
    #[command(visible_alias = "ls")]
    List(ThreadListArgs),

    /// Show one thread: its status, its run, what it used
    Show(ThreadShowArgs),

    /// Add entries to a thread
    Append(ThreadAppendArgs),

    /// Show a thread's entries, and new ones as they come
    #[command(visible_alias = "tail")]
    Follow(ThreadFollowArgs),

    /// Write a thread to a file that holds all of it
    Export(ThreadExportArgs),

    /// Make a thread again from such a file
    Import(ThreadImportArgs),

    /// Check a thread, or a file that it was exported to
    Verify(ThreadVerifyArgs),
}

const CREATE_EXAMPLES: &str = "\
The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread create --tag web
  THREAD=$(holm thread create --parent $PARENT)";

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct ThreadCreateArgs {
    /// What to call it; asking twice with the same id makes one thread [default: made by the server]
    #[arg(long)]
    pub(crate) id: Option<String>,

    /// What to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,

    /// The thread that it is delegated from
    #[arg(long, value_name = "THREAD")]
    pub(crate) parent: Option<String>,

    /// The environment that it belongs to
    #[arg(long, value_name = "ID")]
    pub(crate) environment: Option<String>,

    /// The sandbox that works on it
    #[arg(long, value_name = "ID")]
    pub(crate) sandbox: Option<String>,

    /// It waits for a run: its status is `idle` and not `open`
    #[arg(long)]
    pub(crate) idle: bool,

    /// Print the thread as one JSON object instead of its id
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = ENVIRONMENT)]
pub(crate) struct ThreadListArgs {
    /// Only those with this status: open, idle, running, completed, failed or cancelled
    #[arg(long)]
    pub(crate) status: Option<String>,

    /// Only those with this tag; may be given several times, and all have to be there
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,

    /// Only those that were delegated from this thread
    #[arg(long, value_name = "THREAD")]
    pub(crate) parent: Option<String>,

    /// Only those of this environment
    #[arg(long, value_name = "ID")]
    pub(crate) environment: Option<String>,

    /// Only those of this sandbox
    #[arg(long, value_name = "ID")]
    pub(crate) sandbox: Option<String>,

    /// How many to show at most
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = super::values::at_least_one)]
    pub(crate) limit: usize,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = ENVIRONMENT)]
pub(crate) struct ThreadShowArgs {
    /// The thread's id
    pub(crate) thread: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const APPEND_EXAMPLES: &str = "\
An entry that is a text is a `chat`. With --ndjson each line of standard input is an entry
(`{\"id\":…,\"ts\":…,\"payload\":{…}}`, where id and time may be missing) or a payload alone
(`{\"type\":\"pi.assistant\",…}`). A second entry with an id that is there is not stored.

With --spool the entries are kept in that folder, on disk, before anything is sent, and until the
server has confirmed them: they outlive this command, an outage, and the server's restart, and are
stored once. The next append with the same folder sends what is left; so does --flush alone.

The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread append $THREAD 'please fix the build'
  git diff | holm thread append $THREAD
  my-agent | holm thread append $THREAD --ndjson --spool /var/spool/agent";

#[derive(Debug, Args)]
#[command(after_help = APPEND_EXAMPLES)]
pub(crate) struct ThreadAppendArgs {
    /// The thread's id
    pub(crate) thread: String,

    /// The text [default: all of standard input]
    #[arg(conflicts_with_all = ["ndjson", "flush"])]
    pub(crate) text: Option<String>,

    /// Read entries or payloads from standard input, one in each line, and send them as they come
    #[arg(long, conflicts_with_all = ["id", "flush"])]
    pub(crate) ndjson: bool,

    /// The id of the entry [default: a new one]
    #[arg(long, conflicts_with = "flush")]
    pub(crate) id: Option<String>,

    /// Who says it
    #[arg(long, value_name = "ID")]
    pub(crate) author: Option<String>,

    /// Keep entries in this folder until the server has confirmed them; one folder for each thread
    #[arg(long, value_name = "FOLDER")]
    pub(crate) spool: Option<PathBuf>,

    /// The id that the spool writes as, for tokens that are bound to one [default: made with the spool]
    #[arg(long, value_name = "ID", requires = "spool")]
    pub(crate) producer: Option<String>,

    /// Add nothing, and only send what is left in the spool
    #[arg(long, requires = "spool")]
    pub(crate) flush: bool,

    /// How long to wait for the server in the end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) patience: Duration,

    /// Print one JSON object instead of the ids of the entries
    #[arg(long)]
    pub(crate) json: bool,
}

const FOLLOW_EXAMPLES: &str = "\
Lost connections and restarts of the server are waited out, and no entry is shown twice or left out.
The command ends when the thread is closed. With --cursor it goes on where it was, also after it was
killed.

The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread follow $THREAD
  holm thread follow $THREAD --from now
  holm thread follow $THREAD --json --cursor seen.json | my-program";

#[derive(Debug, Args)]
#[command(after_help = FOLLOW_EXAMPLES)]
pub(crate) struct ThreadFollowArgs {
    /// The thread's id
    pub(crate) thread: String,

    /// Where to begin: `start`, `now`, or an offset
    #[arg(long, value_name = "PLACE", default_value = "start")]
    pub(crate) from: String,

    /// Keep in this file how far was shown, and begin there if it exists
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) cursor: Option<PathBuf>,

    /// Show what is there, and end
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Print the entries as they are, one JSON object in each line
    #[arg(long)]
    pub(crate) json: bool,
}

const EXPORT_EXAMPLES: &str = "\
The file has one JSON object in each line: what the thread is, its entries, and in the end their
number and a checksum. Blobs are not in it.

The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread export $THREAD --output thread.ndjson
  holm thread export $THREAD | zstd > thread.ndjson.zst";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ThreadExportArgs {
    /// The thread's id
    pub(crate) thread: String,

    /// The file to write, which must not exist [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print what was written as one JSON object
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

const IMPORT_EXAMPLES: &str = "\
The file is checked before anything is sent. Entries that are there already are not stored again:
an import that was cut off is simply repeated.

The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread import thread.ndjson
  holm thread import thread.ndjson --as copy-1";

#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ThreadImportArgs {
    /// What `holm thread export` wrote
    pub(crate) file: PathBuf,

    /// The id of the thread to make [default: the one in the file]
    #[arg(long = "as", value_name = "ID")]
    pub(crate) new_id: Option<String>,

    /// Print the thread as one JSON object instead of its id
    #[arg(long)]
    pub(crate) json: bool,
}

const VERIFY_EXAMPLES: &str = "\
Every entry has to be one, with an id of its own, behind the one before it; and what the server says
of the thread has to follow from its entries. Of a file, the checksum has to be right, too. The exit
code is 1 when something is wrong.

The server is the one at HOLM_API_URL, or on this machine; HOLM_API_KEY is the key for it.

Examples:
  holm thread verify $THREAD
  holm thread verify --file thread.ndjson";

#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct ThreadVerifyArgs {
    /// The thread's id
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) thread: Option<String>,

    /// Check this export instead; no server is asked
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,

    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
