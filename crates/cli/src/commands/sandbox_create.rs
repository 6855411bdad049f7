//! `holm sandbox create`.

use holm_sandbox_backends::local::{Record, SourceRecord, Stay};
use serde::Serialize;

use super::Context;
use super::exec::creation_warnings;
use super::run_command::SandboxJson;
use crate::args::CreateArgs;
use crate::error::CliError;
use crate::output::{self, Tone, tell};

#[derive(Debug, Serialize)]
struct CreatedJson {
    #[serde(flatten)]
    sandbox: SandboxJson,
    branch: Option<String>,
    warnings: Vec<String>,
}

pub(crate) fn run(context: &Context, args: CreateArgs) -> Result<u8, CliError> {
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
