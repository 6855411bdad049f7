//! One file per command. Each takes its arguments and returns an exit code or an error.

mod completions;
mod daytona;
mod doctor;
mod exec;
mod generate;
mod key_create;
mod key_list;
mod key_revoke;
mod passthrough;
mod run_command;
mod sandbox_copy;
mod sandbox_create;
mod sandbox_exec;
mod sandbox_export;
mod sandbox_list;
mod sandbox_remove;
mod serve;
mod snapshot_create;
mod snapshot_list;
mod snapshot_remove;
mod stream_proxy;
mod thread;
mod thread_append;
mod thread_create;
mod thread_entry;
mod thread_export;
mod thread_follow;
mod thread_import;
mod thread_list;
mod thread_show;
mod thread_verify;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holm_sandbox::BackendKind;
use holm_sandbox_backends::local::{IsolationKind, LocalRuntime, Reaped, Record};
use holm_sandbox_linux::Network;
use holm_server::ServerConfig;
use holm_server::operator::remove_abandoned;
use holm_store::Store;

use crate::args::{
    BackendArgs, Command, KeyCommand, SandboxCommand, SandboxKind, SnapshotCommand, ThreadCommand,
};
use crate::configuration::Configuration;
use crate::environment::{Environment, absolute};
use crate::error::{CliError, one_line};
use crate::output::{Tone, describe_branch, printable, teardown_warnings, tell};

/// What every command begins with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) data_dir_flag: Option<PathBuf>,
}

impl Context {
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        self.environment.data_dir(self.data_dir_flag.as_deref())
    }

    /// Where the sandbox of a command is: as the flag says, or the configuration file.
    fn backend(&self, args: BackendArgs) -> Result<SandboxKind, CliError> {
        let kind = match args.kind {
            Some(kind) => return Ok(kind),
            None => Configuration::read(&self.environment)?.sandbox_type()?,
        };
        match (kind, kind.not_yet_built()) {
            (_, Some(error)) => Err(error.into()),
            (BackendKind::Daytona, None) => Ok(SandboxKind::Daytona),
            (BackendKind::Local | BackendKind::Docker | BackendKind::Dagger, None) => {
                Ok(SandboxKind::Local)
            }
        }
    }

    /// Where a server keeps its data: a folder of its own.
    pub(crate) fn server_data(&self, flag: Option<&Path>) -> Result<PathBuf, CliError> {
        match flag {
            Some(path) => absolute(path),
            None => Ok(self.data_dir()?.join("server")),
        }
    }

    /// The store of a server, which may be running.
    fn server_store(&self, flag: Option<&Path>) -> Result<Store, CliError> {
        self.server_snapshots(flag).map(|(_, store)| store)
    }

    /// The folders and the store of a server, which may be running.
    fn server_snapshots(&self, flag: Option<&Path>) -> Result<(ServerConfig, Store), CliError> {
        let config = ServerConfig::new((Ipv4Addr::LOCALHOST, 0).into(), self.server_data(flag)?);
        let database = config.database();
        if !database.exists() {
            return Err(CliError::Refused {
                what: format!("there is no server's data in `{}`", config.data.display()),
                hint: Some(
                    "start the server once with `holm serve`, or name its folder with --data"
                        .into(),
                ),
            });
        }
        let store = Store::open(&database).map_err(|source| CliError::Key(source.into()))?;
        for snapshot in remove_abandoned(&config, &store)? {
            let name = printable(&snapshot.name);
            let note =
                format!("snapshot {name} was never finished: who made it was killed; removed");
            tell(Tone::Note, &note);
        }
        Ok((config, store))
    }

    /// Starts the backend and cleans up after calls that were killed. Forks: call it before anything
    /// starts a thread.
    fn start(&self) -> Result<Arc<LocalRuntime>, CliError> {
        let config = self.environment.local_config(self.data_dir()?);
        let runtime = LocalRuntime::start(config)?;
        match runtime.reap() {
            Ok(reaped) => reaped.iter().for_each(tell_reaped),
            // What this call is for may work all the same; if not, it says so itself.
            Err(error) => tell(
                Tone::Warning,
                &format!(
                    "could not look for interrupted sandboxes: {}",
                    one_line(&error)
                ),
            ),
        }
        Ok(runtime)
    }
}

fn tell_reaped(reaped: &Reaped) {
    let mut text = format!(
        "cleaned up sandbox {} whose creator was killed",
        reaped.record.run_id
    );
    let branches: Vec<String> = reaped.report.branches.iter().map(describe_branch).collect();
    if !branches.is_empty() {
        text.push_str("; its work is on branch ");
        text.push_str(&branches.join(" and "));
    }
    tell(Tone::Note, &text);
    for warning in teardown_warnings(&reaped.report) {
        tell(Tone::Warning, &warning);
    }
}

pub(crate) fn run(context: &Context, command: Command) -> Result<u8, CliError> {
    match command {
        Command::Exec(args) => exec::run(context, *args),
        Command::Sandbox(command) => match command {
            SandboxCommand::Create(args) => sandbox_create::run(context, *args),
            SandboxCommand::List(args) => sandbox_list::run(context, &args),
            SandboxCommand::Exec(args) => sandbox_exec::run(context, *args),
            SandboxCommand::Copy(args) => sandbox_copy::run(context, &args),
            SandboxCommand::Export(args) => sandbox_export::run(context, &args),
            SandboxCommand::Remove(args) => sandbox_remove::run(context, &args),
        },
        Command::Serve(args) => serve::run(context, *args),
        Command::Key(command) => match command {
            KeyCommand::Create(args) => key_create::run(context, &args),
            KeyCommand::List(args) => key_list::run(context, &args),
            KeyCommand::Revoke(args) => key_revoke::run(context, &args),
        },
        Command::Snapshot(command) => match command {
            SnapshotCommand::Create(args) => snapshot_create::run(context, &args),
            SnapshotCommand::List(args) => snapshot_list::run(context, &args),
            SnapshotCommand::Remove(args) => snapshot_remove::run(context, &args),
        },
        Command::Thread(command) => match *command {
            ThreadCommand::Create(args) => thread_create::run(context, args),
            ThreadCommand::List(args) => thread_list::run(context, args),
            ThreadCommand::Show(args) => thread_show::run(context, &args),
            ThreadCommand::Append(args) => thread_append::run(context, args),
            ThreadCommand::Follow(args) => thread_follow::run(context, &args),
            ThreadCommand::Export(args) => thread_export::run(context, &args),
            ThreadCommand::Import(args) => thread_import::run(context, &args),
            ThreadCommand::Verify(args) => thread_verify::run(context, &args),
        },
        Command::StreamProxy(args) => stream_proxy::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Completions { shell } => completions::run(shell),
        Command::Generate { directory } => generate::run(&directory),
    }
}

/// How a sandbox is kept apart, as users write it.
fn isolation_name(record: &Record) -> &'static str {
    match record.isolation {
        IsolationKind::Namespaces => "namespaces",
        IsolationKind::None => "none",
    }
}

/// What its commands can really reach.
fn network_name(record: &Record) -> &'static str {
    match (record.isolation, record.network) {
        (IsolationKind::Namespaces, Network::None) => "none",
        (IsolationKind::Namespaces, Network::Host) | (IsolationKind::None, _) => "host",
    }
}
