//! The commands whose sandbox is at Daytona: the same words as for a local one, another place.

mod copy;
mod create;
mod exec;
mod export;
mod list;
mod remove;
mod sandbox_exec;

pub(super) use copy::{Way, run as copy};
pub(super) use create::run as create;
pub(super) use exec::run as exec;
pub(super) use export::run as export;
pub(super) use list::run as list;
pub(super) use remove::run as remove;
pub(super) use sandbox_exec::run as sandbox_exec;

use std::ffi::OsStr;

use holm_sandbox::{
    Exec, ExecOutcome, OutputSink, RunId, Sandbox, SandboxError, Secret, TeardownReport,
    UncommittedWork,
};
use holm_sandbox_backends::daytona::{
    Creation, DEFAULT_SNAPSHOT, DaytonaOptions, DaytonaSandbox, Labels, Lifetime, SandboxOptions,
    attach_daytona_sandbox, create_daytona_sandbox_unless,
};
use holm_sandbox_backends::daytona_provider::{PortWatch, Preview};
use tokio::runtime::Runtime;

use super::Context;
use super::exec::quote_if_needed;
use super::run_command::{Ended, PreviewJson, SandboxJson, signal_code};
use super::serve::start_log;
use crate::args::{LogFormat, SandboxArgs};
use crate::configuration::Configuration;
use crate::error::{self, CliError};
use crate::output::{Tone, say, tell};
use crate::signals::Interruptions;

/// What all of them begin with.
#[derive(Debug)]
struct Remote {
    runtime: Runtime,
    options: DaytonaOptions,
    github_token: Option<Secret>,
}

impl Remote {
    fn new(context: &Context) -> Result<Self, CliError> {
        if context.environment.text("HOLM_LOG")?.is_some() {
            start_log(context, LogFormat::Text)?;
        }
        let configuration = Configuration::read(&context.environment)?;
        let mut options = configuration.daytona(&context.environment)?;
        options.bundles = Some(context.data_dir()?.join("kept"));
        let token = context.environment.text("GITHUB_TOKEN")?;
        let runtime = Runtime::new().map_err(|source| CliError::Io {
            doing: "start the threads that talk to the server",
            source,
        })?;
        Ok(Self {
            runtime,
            options,
            github_token: token.map(Secret::new),
        })
    }

    /// For one that exists already.
    fn plain(&self) -> SandboxOptions {
        SandboxOptions {
            repo: None,
            branch: String::new(),
            operation_timeout: None,
            daytona: self.options.clone(),
            github_token: self.github_token.clone(),
        }
    }

    /// For one to be made. The run's id is drawn here.
    fn new_sandbox(
        &self,
        args: &SandboxArgs,
        lifetime: Lifetime,
        name: Option<String>,
    ) -> Result<(RunId, SandboxOptions), CliError> {
        if let Some(flag) = args.local_only().first() {
            return Err(CliError::Refused {
                what: format!("{flag} means nothing with `--sandbox daytona`: the server decides"),
                hint: Some("leave it out, or use `--sandbox local`".to_owned()),
            });
        }
        let repo = args.repo.as_deref().map(|repo| text(repo.as_os_str()));
        let run_id = RunId::from_random(random());
        let mut options = self.plain();
        options.repo = repo.transpose()?;
        options.branch = args
            .branch
            .clone()
            .unwrap_or_else(|| format!("holm/{run_id}"));
        options.daytona.name = name;
        options.daytona.lifetime = lifetime;
        let snapshot = self.options.snapshot.as_deref().unwrap_or(DEFAULT_SNAPSHOT);
        options.daytona.labels = Labels {
            run: Some(run_id.to_string()),
            thread: None,
            environment: Some(snapshot.to_owned()),
        };
        Ok((run_id, options))
    }

    /// Deletes one that there is, whatever is in it.
    fn delete(&self, name: &str) -> Result<(), CliError> {
        let client = self.options.client()?;
        let deleting = async {
            let found = client.get(name).await?;
            client.delete(&found.id).await
        };
        let deleted = self.runtime.block_on(deleting);
        deleted.map(drop).map_err(|error| CliError::Refused {
            what: error.to_string(),
            hint: None,
        })
    }

    /// Makes one, unless a signal says that nobody wants it: then what there is of it is deleted, and the signal given.
    fn create(
        &self,
        options: SandboxOptions,
        interruptions: &Interruptions,
    ) -> Result<Result<DaytonaSandbox, i32>, CliError> {
        let creating = create_daytona_sandbox_unless(options, interruptions.called_off());
        match self.runtime.block_on(creating)? {
            Creation::Made(sandbox) => Ok(Ok(*sandbox)),
            Creation::CalledOff { why, left_behind } => {
                if let Some(name) = left_behind {
                    let text = format!("the server did not say whether sandbox `{name}` is gone");
                    tell(Tone::Warning, &text);
                    let command = format!("holm sandbox rm --sandbox daytona --discard {name}");
                    tell(Tone::Hint, &format!("see to it: {command}"));
                }
                Ok(Err(why))
            }
        }
    }

    /// The end of a sandbox, for which a server has as long as it needs, unless a signal has come.
    fn teardown(
        &self,
        sandbox: &DaytonaSandbox,
        work: UncommittedWork,
        interruptions: &Interruptions,
    ) -> TeardownReport {
        // A push before it may have used the time up.
        interruptions.cleaning_up();
        let name = quote_if_needed(sandbox.name());
        let report = self.while_patient(interruptions, sandbox.teardown(work));
        report.unwrap_or_else(|| TeardownReport {
            warnings: vec![format!(
                "the sandbox is still there, since its server did not answer in time; \
                 `holm sandbox rm --sandbox daytona {name}` brings its work home and removes it"
            )],
            ..TeardownReport::default()
        })
    }

    /// Does something to its end; `None` if a signal has come and the time that it leaves is over.
    fn while_patient<T>(
        &self,
        interruptions: &Interruptions,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.runtime.block_on(async {
            tokio::select! {
                done = work => Some(done),
                () = interruptions.patience_is_over() => None,
            }
        })
    }

    fn attach(&self, name: &str) -> Result<DaytonaSandbox, CliError> {
        let attached = attach_daytona_sandbox(name, self.plain());
        Ok(self.runtime.block_on(attached)?)
    }
}

/// A command in a sandbox.
#[derive(Debug)]
struct Running<'a> {
    remote: &'a Remote,
    sandbox: &'a DaytonaSandbox,
    interruptions: &'a Interruptions,
}

impl Running<'_> {
    /// Runs it, and shows where to look at what it serves.
    fn execute(
        &self,
        ports: PortWatch,
        previews: &mut Vec<PreviewJson>,
        exec: Exec,
        sink: Option<Box<dyn OutputSink>>,
    ) -> holm_sandbox::Result<ExecOutcome> {
        let running = async {
            match sink {
                Some(sink) => self.sandbox.exec_streamed(exec, sink).await,
                None => self.sandbox.exec(exec).await,
            }
        };
        let mut served = |preview: Preview| {
            let (port, url) = (preview.port, preview.link.expose());
            say(&format!("port {port} is served at {url}"));
            previews.push(PreviewJson {
                port,
                url: url.to_owned(),
            });
        };
        let watched = Box::pin(ports.during(running, &mut served));
        let outcome = self.remote.while_patient(self.interruptions, watched);
        outcome.unwrap_or_else(|| {
            Err(SandboxError::Backend {
                doing: "end the command".to_owned(),
                hint: None,
                source: "the server did not answer in time".into(),
            })
        })
    }
}

/// How a command ended. After a signal that killed it, a server that does not say how is a matter of telling only.
fn settled(
    ended: Result<Ended, CliError>,
    interruptions: &Interruptions,
) -> Result<Ended, CliError> {
    match (ended, interruptions.killed_by()) {
        (Err(error), Some(signal)) => {
            error::print(&error, None);
            let code = signal_code(signal);
            Ok(Ended::NotStarted { code })
        }
        (ended, _) => ended,
    }
}

impl SandboxJson {
    fn remote(sandbox: &DaytonaSandbox) -> Self {
        Self::new(
            sandbox.id().to_owned(),
            Some(sandbox.name().to_owned()),
            ("remote", "remote"),
            sandbox.work_dir(),
        )
    }
}

fn text(value: &OsStr) -> Result<String, CliError> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::Refused {
        what: format!("`{}` is no text", value.to_string_lossy()),
        hint: Some("write the repository as org/repo".to_owned()),
    })
}

fn random() -> u32 {
    let hex = holm_sandbox_linux::random_hex();
    u32::from_str_radix(hex.get(..8).unwrap_or_default(), 16).unwrap_or_default()
}
