//! `holm sandbox exec --sandbox daytona`.

use holm_sandbox_backends::daytona::attach_daytona_sandbox;
use holm_sandbox_backends::daytona_provider::PortWatch;

use super::{Remote, Running, settled};
use crate::args::SandboxExecArgs;
use crate::commands::Context;
use crate::commands::run_command::{
    self, Ended, OutcomeJson, OutputForm, SandboxJson, signal_code,
};
use crate::error::CliError;
use crate::output;
use crate::signals::{Heir, Interruptions};

pub(crate) fn run(context: &Context, args: SandboxExecArgs) -> Result<u8, CliError> {
    let form = OutputForm::of(&args.command);
    let exec = run_command::prepare(args.command, args.cwd, &context.environment)?;
    let remote = Remote::new(context)?;
    let interruptions = Interruptions::install(Heir::NextCall)?;
    let attaching = async {
        tokio::select! {
            attached = attach_daytona_sandbox(&args.name, remote.plain()) => Ok(attached),
            signal = interruptions.called_off() => Err(signal),
        }
    };
    let sandbox = match remote.runtime.block_on(attaching) {
        Ok(attached) => attached?,
        Err(signal) => return Ok(signal_code(signal)),
    };
    let ports = PortWatch::shared(sandbox.toolbox().clone());
    let mut previews = Vec::new();
    let running = Running {
        remote: &remote,
        sandbox: &sandbox,
        interruptions: &interruptions,
    };
    let execute = |exec, sink| running.execute(ports, &mut previews, exec, sink);
    let ended = run_command::run(execute, exec, form, &interruptions);
    let ended = settled(ended, &interruptions)?;
    if let (Ended::Ran { outcome, code }, OutputForm::Json) = (&ended, form) {
        let mut result = OutcomeJson::new(SandboxJson::remote(&sandbox), outcome, *code);
        result.previews = Some(previews);
        output::json(&result)?;
    }
    Ok(ended.code())
}
