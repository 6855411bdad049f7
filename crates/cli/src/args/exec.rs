//! `holm exec`, and the flags that it shares with `holm sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use holm_sandbox_backends::local::{CreateOptions, Source, Stay};
use holm_sandbox_linux::{Limits, Network};

use super::values::{self, Isolation, NetworkPolicy, Profile, SandboxKind};

/// Enough for a parallel build on a large machine, and far from what a fork bomb needs.
pub(crate) const PIDS_DEFAULT: u32 = 2048;

const EXAMPLES: &str = "\
Without --repo and --dir the sandbox begins with an empty folder. What the command reads is what
`holm` reads, unless that is a terminal: a terminal is not passed through yet, so the command reads
nothing then.

The exit code is the command's own, or 128+N when signal N ended it; 124 when the timeout did; 125
when Holm itself failed; 126 when the command cannot be executed; 127 when it is not there. Ctrl-C
passes the interrupt on and waits; a second one kills.

Examples:
  holm exec -- python3 -c 'print(6 * 7)'
  holm exec --repo . --branch fix/login -- claude -p 'fix the login test'
  holm exec --repo . --memory 4g --cpus 2 --timeout 10m -- cargo test
  holm exec --env GITHUB_TOKEN --network host -- gh issue list
  holm exec --sandbox daytona --repo org/repo --push -- claude -p 'fix the login test'";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]..."
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    /// Throw uncommitted changes away at the end; commits stay on the branch
    #[arg(long, requires = "repo")]
    pub(crate) discard: bool,

    /// Push the branch at the end and open a pull request, with the token in GITHUB_TOKEN
    #[arg(long, requires = "repo")]
    pub(crate) push: bool,

    /// What the pull request is about [default: the command]
    #[arg(long, value_name = "TEXT", requires = "push")]
    pub(crate) intent: Option<String>,
}

/// Which backend a sandbox is in.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct BackendArgs {
    /// Where the sandbox is [default: `sandboxType` of the configuration file, else local]
    #[arg(long = "sandbox", value_name = "KIND")]
    pub(crate) kind: Option<SandboxKind>,
}

/// What a sandbox is made of.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,

    /// Work on an isolated checkout of this git repository, on a branch of its own; with `--sandbox daytona` a
    /// repository of GitHub, as org/repo
    #[arg(long, value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,

    /// The name of the new branch [default: holm/<id>]
    #[arg(long, value_name = "NAME", requires = "repo")]
    pub(crate) branch: Option<String>,

    /// Work in this folder of the machine itself: changes are made in place
    #[arg(long, value_name = "PATH", conflicts_with = "repo")]
    pub(crate) dir: Option<PathBuf>,

    /// How the sandbox is kept apart from the machine
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(crate) isolation: Isolation,

    /// What can be reached over the network [default: none]
    #[arg(long, value_name = "POLICY")]
    pub(crate) network: Option<NetworkPolicy>,

    /// Which system calls are allowed
    #[arg(long, value_name = "NAME", default_value = "strict")]
    pub(crate) profile: Profile,

    /// The most memory that may be used, such as 512m or 4g [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = values::memory_bytes)]
    pub(crate) memory: Option<u64>,

    /// How many processors may be used, such as 2 or 0.5 [default: no limit]
    #[arg(long, value_name = "NUMBER", value_parser = values::cpu_millis)]
    pub(crate) cpus: Option<u32>,

    /// How many processes and threads may exist at once [default: 2048]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pids: Option<u32>,
}

impl SandboxArgs {
    pub(crate) fn to_options(&self, stay: Stay, name: Option<String>) -> CreateOptions {
        let source = match (&self.repo, &self.dir) {
            (Some(path), _) => Source::Repository {
                path: path.clone(),
                branch: self.branch.clone(),
            },
            (None, Some(path)) => Source::Directory(path.clone()),
            (None, None) => Source::Empty,
        };
        CreateOptions {
            source,
            isolation: self.isolation.into(),
            network: self.network.map_or(Network::None, Network::from),
            nesting: self.profile.into(),
            limits: Limits {
                memory_bytes: self.memory,
                cpu_millis: self.cpus,
                pids: Some(self.pids.unwrap_or(PIDS_DEFAULT)),
            },
            stay,
            name,
        }
    }

    /// The flags that mean nothing where the server decides, of those that the user gave.
    pub(crate) fn local_only(&self) -> Vec<&'static str> {
        let given = [
            ("--dir", self.dir.is_some()),
            ("--isolation", self.isolation != Isolation::Auto),
            ("--network", self.network.is_some()),
            ("--profile", self.profile != Profile::Strict),
            ("--memory", self.memory.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--pids", self.pids.is_some()),
        ];
        given
            .into_iter()
            .filter_map(|(flag, is_given)| is_given.then_some(flag))
            .collect()
    }

    /// The flags that only isolation can keep, of those that the user gave.
    pub(crate) fn need_isolation(&self) -> Vec<&'static str> {
        let given = [
            ("--memory", self.memory.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--pids", self.pids.is_some()),
            ("--network none", self.network == Some(NetworkPolicy::None)),
        ];
        given
            .into_iter()
            .filter_map(|(flag, is_given)| is_given.then_some(flag))
            .collect()
    }
}

/// A command, and what bounds it.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// End the command after this time, such as 90s, 5m or 1h30m [default: never]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,

    /// Set a variable, or pass on one of yours by giving its name alone
    ///
    /// A value of 8 bytes or more whose name holds KEY, TOKEN, SECRET, PASSWORD or CREDENTIAL is
    /// shown as [REDACTED:NAME] in the command's output.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,

    /// Print one JSON object at the end instead of the output, of which 1 MiB per stream is kept
    #[arg(long)]
    pub(crate) json: bool,

    /// The command and its arguments, taken as they are: use `sh -c` for pipes
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) argv: Vec<OsString>,
}
