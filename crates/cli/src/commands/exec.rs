//! `holm exec`: a sandbox for one command, gone afterwards, with its work kept on a branch.

use std::path::Path;

use holm_sandbox::{Sandbox, Secret, TeardownReport, UncommittedWork, shell_quote};
use holm_sandbox_backends::daytona::{
    Opener, PullRequest, PushResult, commit_uncommitted, push_and_create_pr,
};
use holm_sandbox_backends::local::{IsolationKind, LocalSandbox, Stay};

use super::run_command::{self, Ended, OutcomeJson, OutputForm, SandboxJson};
use super::sandbox_create::branch_of;
use super::{Context, daytona};
use crate::args::{ExecArgs, SandboxArgs, SandboxKind};
use crate::error::CliError;
use crate::output::{self, BranchJson, Tone, describe_branch, teardown_warnings, tell};
use crate::signals::{Heir, Interruptions};

pub(crate) fn run(context: &Context, args: ExecArgs) -> Result<u8, CliError> {
    match context.backend(args.sandbox.backend)? {
        SandboxKind::Local => run_local(context, args),
        SandboxKind::Daytona => daytona::exec(context, args),
    }
}

fn run_local(context: &Context, args: ExecArgs) -> Result<u8, CliError> {
    let intent = intent(&args);
    let ExecArgs {
        sandbox: sandbox_args,
        command,
        discard,
        push: is_pushed,
        intent: _,
    } = args;
    let form = OutputForm::of(&command);
    let exec = run_command::prepare(command, None, &context.environment)?;
    let runtime = context.start()?;
    let interruptions = Interruptions::install(Heir::NextCall)?;

    let sandbox = runtime.create(&sandbox_args.to_options(Stay::Throwaway, None))?;
    let warnings = creation_warnings(&sandbox, &sandbox_args);
    for warning in &warnings {
        tell(Tone::Warning, warning);
    }
    let execute = |exec, sink| sandbox.exec_blocking(exec, sink);
    let ended = run_command::run(execute, exec, form, &interruptions);
    let work = if discard {
        UncommittedWork::Discard
    } else {
        UncommittedWork::Keep
    };
    let pushed = match (&ended, is_pushed, interruptions.killed_by()) {
        (Ok(Ended::Ran { .. }), true, None) => Some(push(context, &sandbox, intent, work)),
        _ => None,
    };
    let report = sandbox.teardown_blocking(work);
    tell_end(&report, sandbox_args.repo.as_deref());
    if let Some(pushed) = &pushed {
        tell_pushed(pushed, branch_of(sandbox.record()).unwrap_or_default());
    }
    let ended = ended?;
    match (&ended, form) {
        (Ended::Ran { outcome, code }, OutputForm::Json) => {
            let mut result = OutcomeJson::new(SandboxJson::of(&sandbox), outcome, *code);
            result.push_result = pushed;
            result.branches = report.branches.iter().map(BranchJson::from).collect();
            result.warnings = warnings;
            result.warnings.extend(teardown_warnings(&report));
            output::json(&result)?;
        }
        (Ended::Ran { .. }, OutputForm::PassedThrough) | (Ended::NotStarted { .. }, _) => {}
    }
    Ok(ended.code())
}

/// What a pull request is about: what was said, or the command.
pub(super) fn intent(args: &ExecArgs) -> String {
    args.intent.clone().unwrap_or_else(|| {
        let words = args.command.argv.iter();
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    })
}

/// Pushes the branch, and opens a pull request with `gh`.
fn push(
    context: &Context,
    sandbox: &LocalSandbox,
    intent: String,
    work: UncommittedWork,
) -> PushResult {
    let record = sandbox.record();
    let request = PullRequest {
        branch: branch_of(record).unwrap_or_default().to_owned(),
        intent,
        blueprint: "exec".to_owned(),
        run_id: record.run_id.to_string(),
    };
    // A token that is no text is none.
    let token = context.environment.text("GITHUB_TOKEN").ok().flatten();
    let token = token.map(Secret::new);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return not_pushed(error),
    };
    let opener = Opener::Gh(sandbox);
    runtime.block_on(push_all(sandbox, &request, token.as_ref(), opener, work))
}

/// With the work that is not committed yet, unless it is to be thrown away.
pub(super) async fn push_all(
    sandbox: &dyn Sandbox,
    request: &PullRequest,
    token: Option<&Secret>,
    opener: Opener<'_>,
    work: UncommittedWork,
) -> PushResult {
    // Without a token nothing is pushed, and so nothing has to be committed.
    if let (UncommittedWork::Keep, Some(_)) = (work, token)
        && let Err(error) = commit_uncommitted(sandbox).await
    {
        return not_pushed(error);
    }
    push_and_create_pr(sandbox, request, token, opener).await
}

pub(super) fn not_pushed(error: impl std::fmt::Display) -> PushResult {
    PushResult {
        error: Some(format!("git push failed: {error}")),
        ..PushResult::default()
    }
}

/// What came of a push.
pub(super) fn tell_pushed(pushed: &PushResult, branch: &str) {
    if pushed.pushed {
        output::say(&format!("pushed branch {branch}"));
    }
    if let Some(url) = &pushed.pr_url {
        output::say(&format!("opened pull request {url}"));
    }
    if let Some(error) = &pushed.error {
        tell(Tone::Warning, error);
    }
}

/// What the user should know before the command runs.
pub(super) fn creation_warnings(sandbox: &LocalSandbox, args: &SandboxArgs) -> Vec<String> {
    let mut warnings = sandbox.warnings().to_vec();
    match sandbox.record().isolation {
        IsolationKind::Namespaces => {}
        IsolationKind::None => {
            if warnings.is_empty() {
                warnings.push(
                    "there is no isolation: the command can do everything that you can".to_owned(),
                );
            }
            for flag in args.need_isolation() {
                warnings.push(format!("{flag} has no effect without isolation"));
            }
        }
    }
    warnings
}

/// What was kept, how to see it, and what went wrong.
pub(super) fn tell_end(report: &TeardownReport, repository: Option<&Path>) {
    for branch in &report.branches {
        output::say(&format!(
            "kept your changes on branch {}",
            describe_branch(branch)
        ));
        let next = match &branch.bundle {
            Some(bundle) => format!(
                "bring them home: git fetch {} {}",
                quote_if_needed(&bundle.to_string_lossy()),
                quote_if_needed(&branch.name)
            ),
            None => see_changes(&branch.name, repository),
        };
        tell(Tone::Hint, &next);
    }
    for warning in teardown_warnings(report) {
        tell(Tone::Warning, &warning);
    }
}

fn see_changes(branch: &str, repository: Option<&Path>) -> String {
    let folder = match repository
        .filter(|path| !is_current(path))
        .and_then(Path::to_str)
    {
        None => String::new(),
        Some(path) => format!(" -C {}", quote_if_needed(path)),
    };
    format!(
        "see them: git{folder} diff HEAD...{}",
        quote_if_needed(branch)
    )
}

fn is_current(path: &Path) -> bool {
    match (std::fs::canonicalize(path), std::env::current_dir()) {
        (Ok(path), Ok(current)) => path == current,
        (Ok(_) | Err(_), _) => false,
    }
}

/// Plain words are easier to read without quotes.
pub(super) fn quote_if_needed(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    if is_plain {
        word.to_owned()
    } else {
        shell_quote(&[word]).unwrap_or_else(|_| word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_can_be_pasted() {
        assert_eq!(
            see_changes("holm/1", Some(Path::new("."))),
            "see them: git diff HEAD...holm/1"
        );
        assert_eq!(
            see_changes("a$b", Some(Path::new("/my repo"))),
            "see them: git -C '/my repo' diff HEAD...'a$b'"
        );
    }
}
