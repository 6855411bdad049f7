//! `holm sandbox create --sandbox daytona`.

use holm_sandbox_backends::daytona::{Lifetime, create_daytona_sandbox};

use super::Remote;
use crate::args::CreateArgs;
use crate::commands::Context;
use crate::commands::run_command::SandboxJson;
use crate::commands::sandbox_create::CreatedJson;
use crate::error::CliError;
use crate::output::{self, Tone, tell};

pub(crate) fn run(context: &Context, args: CreateArgs) -> Result<u8, CliError> {
    let remote = Remote::new(context)?;
    let lifetime = Lifetime::UntilRemoved;
    let (_, options) = remote.new_sandbox(&args.sandbox, lifetime, args.name)?;
    let sandbox = remote.runtime.block_on(create_daytona_sandbox(options))?;
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
    let command = format!("holm sandbox exec --sandbox daytona {name} -- COMMAND");
    tell(Tone::Hint, &format!("run a command in it: {command}"));
    Ok(0)
}
