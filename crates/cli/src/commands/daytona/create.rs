//! `holm sandbox create --sandbox daytona`.

use holm_sandbox_backends::daytona::Lifetime;

use super::Remote;
use crate::args::CreateArgs;
use crate::commands::Context;
use crate::commands::exec::quote_if_needed;
use crate::commands::run_command::{SandboxJson, signal_code};
use crate::commands::sandbox_create::CreatedJson;
use crate::error::CliError;
use crate::output::{self, Tone, tell};
use crate::signals::{Heir, Interruptions};

pub(crate) fn run(context: &Context, args: CreateArgs) -> Result<u8, CliError> {
    let remote = Remote::new(context)?;
    let lifetime = Lifetime::UntilRemoved;
    let (_, options) = remote.new_sandbox(&args.sandbox, lifetime, args.name)?;
    let interruptions = Interruptions::install(Heir::Server)?;
    let sandbox = match remote.create(options, &interruptions)? {
        Ok(sandbox) => sandbox,
        Err(signal) => return Ok(signal_code(signal)),
    };
    if args.json {
        output::json(&CreatedJson {
            sandbox: SandboxJson::remote(&sandbox),
            branch: sandbox.branch().map(str::to_owned),
            warnings: Vec::new(),
        })?;
        return Ok(0);
    }
    let name = sandbox.name();
    output::data(name)?;
    // A server can give any name; what is pasted must not be more than that.
    let name = quote_if_needed(name);
    let command = format!("holm sandbox exec --sandbox daytona {name} -- COMMAND");
    tell(Tone::Hint, &format!("run a command in it: {command}"));
    Ok(0)
}
