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

use holm_sandbox::{RunId, Sandbox, Secret};
use holm_sandbox_backends::daytona::{
    DEFAULT_SNAPSHOT, DaytonaOptions, DaytonaSandbox, Labels, Lifetime, SandboxOptions,
    attach_daytona_sandbox,
};
use tokio::runtime::Runtime;

use super::Context;
use super::run_command::SandboxJson;
use crate::args::SandboxArgs;
use crate::configuration::Configuration;
use crate::error::CliError;

/// What all of them begin with.
#[derive(Debug)]
struct Remote {
    runtime: Runtime,
    options: DaytonaOptions,
    github_token: Option<Secret>,
}

impl Remote {
    fn new(context: &Context) -> Result<Self, CliError> {
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

    fn attach(&self, name: &str) -> Result<DaytonaSandbox, CliError> {
        let attached = attach_daytona_sandbox(name, self.plain());
        Ok(self.runtime.block_on(attached)?)
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
