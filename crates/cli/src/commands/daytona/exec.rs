//! `holm exec --sandbox daytona`.

use holm_sandbox::{UncommittedWork, parse_github_repo};
use holm_sandbox_backends::daytona::{Lifetime, Opener, PullRequest};
use holm_sandbox_backends::daytona_provider::PortWatch;

use super::{Remote, Running, settled};
use crate::args::ExecArgs;
use crate::commands::Context;
use crate::commands::exec::{intent, not_pushed, push_all, tell_end, tell_pushed};
use crate::commands::run_command::{
    self, Ended, OutcomeJson, OutputForm, SandboxJson, signal_code,
};
use crate::error::CliError;
use crate::output::{self, BranchJson, teardown_warnings};
use crate::signals::{Heir, Interruptions};

pub(crate) fn run(context: &Context, args: ExecArgs) -> Result<u8, CliError> {
    let form = OutputForm::of(&args.command);
    let intent = intent(&args);
    let exec = run_command::prepare(args.command, None, &context.environment)?;
    let remote = Remote::new(context)?;
    let (run_id, options) = remote.new_sandbox(&args.sandbox, Lifetime::Ephemeral, None)?;
    let repo = options.repo.as_deref().map(parse_github_repo);
    let interruptions = Interruptions::install(Heir::Server)?;
    let sandbox = match remote.create(options, &interruptions)? {
        Ok(sandbox) => sandbox,
        Err(signal) => return Ok(signal_code(signal)),
    };
    let ports = PortWatch::fresh(sandbox.toolbox().clone());
    let mut previews = Vec::new();
    let running = Running {
        remote: &remote,
        sandbox: &sandbox,
        interruptions: &interruptions,
    };
    let execute = |exec, sink| running.execute(ports, &mut previews, exec, sink);
    let ended = run_command::run(execute, exec, form, &interruptions);
    let work = if args.discard {
        UncommittedWork::Discard
    } else {
        UncommittedWork::Keep
    };
    let pushed = match (&ended, args.push, repo, interruptions.killed_by()) {
        (Ok(Ended::Ran { .. }), true, Some(Ok(repo)), None) => {
            let request = PullRequest {
                branch: sandbox.branch().unwrap_or_default().to_owned(),
                intent,
                blueprint: "exec".to_owned(),
                run_id: run_id.to_string(),
            };
            let opener = Opener::Api {
                github: &remote.options.github,
                repo: &repo,
            };
            let token = remote.github_token.as_ref();
            let pushing = push_all(&sandbox, &request, token, opener, work);
            let pushed = remote.while_patient(&interruptions, pushing);
            Some(pushed.unwrap_or_else(|| not_pushed("the server did not answer in time")))
        }
        _ => None,
    };
    let report = remote.teardown(&sandbox, work, &interruptions);
    tell_end(&report, None);
    if let Some(pushed) = &pushed {
        tell_pushed(pushed, sandbox.branch().unwrap_or_default());
    }
    let ended = settled(ended, &interruptions)?;
    if let (Ended::Ran { outcome, code }, OutputForm::Json) = (&ended, form) {
        let mut result = OutcomeJson::new(SandboxJson::remote(&sandbox), outcome, *code);
        result.branches = report.branches.iter().map(BranchJson::from).collect();
        result.warnings = teardown_warnings(&report);
        result.push_result = pushed;
        result.previews = Some(previews);
        output::json(&result)?;
    }
    Ok(ended.code())
}
