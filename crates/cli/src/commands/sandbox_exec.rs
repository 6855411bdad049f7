//! `holm sandbox exec`: a command in a sandbox that stays.

use super::run_command::{self, Ended, OutcomeJson, OutputForm, SandboxJson};
use super::{Context, daytona};
use crate::args::{SandboxExecArgs, SandboxKind};
use crate::error::CliError;
use crate::output::{self, Tone, tell};
use crate::signals::{Heir, Interruptions};

pub(crate) fn run(context: &Context, args: SandboxExecArgs) -> Result<u8, CliError> {
    match context.backend(args.backend)? {
        SandboxKind::Local => {}
        SandboxKind::Daytona => return daytona::sandbox_exec(context, args),
    }
    let form = OutputForm::of(&args.command);
    let exec = run_command::prepare(args.command, args.cwd, &context.environment)?;
    let runtime = context.start()?;
    let interruptions = Interruptions::install(Heir::NextCall)?;
    let sandbox = runtime.open(&args.name)?;
    for warning in sandbox.warnings() {
        tell(Tone::Warning, warning);
    }
    let execute = |exec, sink| sandbox.exec_blocking(exec, sink);
    let ended = run_command::run(execute, exec, form, &interruptions)?;
    match (&ended, form) {
        (Ended::Ran { outcome, code }, OutputForm::Json) => {
            let mut result = OutcomeJson::new(SandboxJson::of(&sandbox), outcome, *code);
            result.warnings = sandbox.warnings().to_vec();
            output::json(&result)?;
        }
        (Ended::Ran { .. }, OutputForm::PassedThrough) | (Ended::NotStarted { .. }, _) => {}
    }
    Ok(ended.code())
}
