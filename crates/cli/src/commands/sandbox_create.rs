//! `holm sandbox create`.

use holm_sandbox_backends::local::{Record, SourceRecord, Stay};
use serde::Serialize;

use super::exec::creation_warnings;
use super::run_command::SandboxJson;
use super::{Context, daytona};
use crate::args::{CreateArgs, SandboxKind};
use crate::error::CliError;
use crate::output::{self, Tone, tell};

#[derive(Debug, Serialize)]
pub(super) struct CreatedJson {
    #[serde(flatten)]
    pub(super) sandbox: SandboxJson,
    pub(super) branch: Option<String>,
    pub(super) warnings: Vec<String>,
}

pub(crate) fn run(context: &Context, args: CreateArgs) -> Result<u8, CliError> {
    match context.backend(args.sandbox.backend)? {
        SandboxKind::Local => {}
        SandboxKind::Daytona => return daytona::create(context, args),
    }
    let runtime = context.start()?;
    let options = args.sandbox.to_options(Stay::UntilRemoved, args.name);
    let sandbox = runtime.create(&options)?;
    let warnings = creation_warnings(&sandbox, &args.sandbox);
    for warning in &warnings {
        tell(Tone::Warning, warning);
    }
    let record = sandbox.record();
    if args.json {
        output::json(&CreatedJson {
            sandbox: SandboxJson::of(&sandbox),
            branch: branch_of(record).map(str::to_owned),
            warnings,
        })?;
        return Ok(0);
    }
    let title = record.title();
    output::data(&title)?;
    tell(
        Tone::Hint,
        &format!("run a command in it: holm sandbox exec {title} -- COMMAND"),
    );
    Ok(0)
}

/// The branch that a sandbox works on.
pub(super) fn branch_of(record: &Record) -> Option<&str> {
    match &record.source {
        SourceRecord::Repository { branch, .. } => Some(branch),
        SourceRecord::Empty | SourceRecord::Directory { .. } => None,
    }
}
