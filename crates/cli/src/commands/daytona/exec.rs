//! `holm exec --sandbox daytona`.

use holm_sandbox::{GitHubRepo, RunId, Sandbox, UncommittedWork, parse_github_repo};
use holm_sandbox_backends::daytona::{
    DaytonaSandbox, Lifetime, PullRequest, PushResult, create_daytona_sandbox, push_and_create_pr,
};

use super::Remote;
use crate::args::ExecArgs;
use crate::commands::Context;
use crate::commands::exec::{intent, tell_end, tell_pushed};
use crate::commands::run_command::{self, Ended, OutcomeJson, OutputForm, SandboxJson};
use crate::error::CliError;
use crate::output::{self, BranchJson, teardown_warnings};
use crate::signals::Interruptions;

pub(crate) fn run(context: &Context, args: ExecArgs) -> Result<u8, CliError> {
    let form = OutputForm::of(&args.command);
    let intent = intent(&args);
    let exec = run_command::prepare(args.command, None, &context.environment)?;
    let remote = Remote::new(context)?;
    let (run_id, options) = remote.new_sandbox(&args.sandbox, Lifetime::Ephemeral, None)?;
    let repo = options.repo.as_deref().map(parse_github_repo);
    let interruptions = Interruptions::install()?;
    let sandbox = remote.runtime.block_on(create_daytona_sandbox(options))?;
    let execute = |exec, sink| {
        remote.runtime.block_on(async {
            match sink {
                Some(sink) => sandbox.exec_streamed(exec, sink).await,
                None => sandbox.exec(exec).await,
            }
        })
    };
    let ended = run_command::run(execute, exec, form, &interruptions);
    let pushed = match (&ended, args.push, repo) {
        (Ok(Ended::Ran { .. }), true, Some(Ok(repo))) => {
            Some(push(&remote, &sandbox, repo, intent, run_id))
        }
        _ => None,
    };
    let work = if args.discard {
        UncommittedWork::Discard
    } else {
        UncommittedWork::Keep
    };
    let report = remote.runtime.block_on(sandbox.teardown(work));
    tell_end(&report, None);
    if let Some(pushed) = &pushed {
        tell_pushed(pushed);
    }
    let ended = ended?;
    if let (Ended::Ran { outcome, code }, OutputForm::Json) = (&ended, form) {
        let mut result = OutcomeJson::new(SandboxJson::remote(&sandbox), outcome, *code);
        result.branches = report.branches.iter().map(BranchJson::from).collect();
        result.warnings = teardown_warnings(&report);
        result.push_result = pushed;
        output::json(&result)?;
    }
    Ok(ended.code())
}

fn push(
    remote: &Remote,
    sandbox: &DaytonaSandbox,
    repo: GitHubRepo,
    intent: String,
    run_id: RunId,
) -> PushResult {
    let request = PullRequest {
        repo: Some(repo),
        branch: sandbox.branch().unwrap_or_default().to_owned(),
        intent,
        blueprint: "exec".to_owned(),
        run_id: run_id.to_string(),
    };
    let token = remote.github_token.as_ref();
    let pushing = push_and_create_pr(sandbox, &request, token, &remote.options.github);
    remote.runtime.block_on(pushing)
}
