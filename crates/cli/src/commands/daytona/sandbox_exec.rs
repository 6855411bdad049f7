//! `holm sandbox exec --sandbox daytona`.

use holm_sandbox::Sandbox;

use super::Remote;
use crate::args::SandboxExecArgs;
use crate::commands::Context;
use crate::commands::run_command::{self, Ended, OutcomeJson, OutputForm, SandboxJson};
use crate::error::CliError;
use crate::output;
use crate::signals::Interruptions;

pub(crate) fn run(context: &Context, args: SandboxExecArgs) -> Result<u8, CliError> {
    let form = OutputForm::of(&args.command);
    let exec = run_command::prepare(args.command, args.cwd, &context.environment)?;
    let remote = Remote::new(context)?;
    let interruptions = Interruptions::install()?;
    let sandbox = remote.attach(&args.name)?;
    let execute = |exec, sink| {
        remote.runtime.block_on(async {
            match sink {
                Some(sink) => sandbox.exec_streamed(exec, sink).await,
                None => sandbox.exec(exec).await,
            }
        })
    };
    let ended = run_command::run(execute, exec, form, &interruptions)?;
    if let (Ended::Ran { outcome, code }, OutputForm::Json) = (&ended, form) {
        output::json(&OutcomeJson::new(
            SandboxJson::remote(&sandbox),
            outcome,
            *code,
        ))?;
    }
    Ok(ended.code())
}
