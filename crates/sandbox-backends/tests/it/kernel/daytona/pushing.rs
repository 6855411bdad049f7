//! Seed 000: a finished run goes to GitHub.

use holm_sandbox::{Sandbox, Secret, parse_github_repo};
use holm_sandbox_backends::daytona::{
    DaytonaSandbox, Opener, PullRequest, PushResult, create_daytona_sandbox, push_and_create_pr,
};
use holm_testkit::TestRepository;
use holm_testkit::conformance::sh;

use crate::support::daytona::{DaytonaBackend, REPO};

const TOKEN: &str = "ghp_token-that-may-push";
const COMMIT: &str = "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m work";

fn request() -> PullRequest {
    PullRequest {
        branch: "work".to_owned(),
        intent: "fix the login test".to_owned(),
        blueprint: "bug-fix".to_owned(),
        run_id: "0a1b2c3d".to_owned(),
    }
}

async fn sandbox(backend: &DaytonaBackend) -> DaytonaSandbox {
    let mut options = backend.sandbox_options("work");
    options.github_token = Some(Secret::new(TOKEN));
    let sandbox = create_daytona_sandbox(options).await.unwrap();
    sh(&sandbox, COMMIT).await;
    sandbox
}

async fn push(backend: &DaytonaBackend, sandbox: &DaytonaSandbox, token: &str) -> PushResult {
    let opener = Opener::Api {
        github: &backend.options.github,
        repo: &parse_github_repo(REPO).unwrap(),
    };
    push_and_create_pr(sandbox, &request(), Some(&Secret::new(token)), opener).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_15_a_finished_run_is_pushed_and_a_pull_request_opened() {
    let (backend, recorder) = DaytonaBackend::recorded();
    let repository = TestRepository::new();
    backend.serve(&repository, Some(TOKEN));
    let sandbox = sandbox(&backend).await;
    recorder.forget();
    let result = push(&backend, &sandbox, TOKEN).await;
    let url = "https://github.com/acme/widgets/pull/1";
    let expected = PushResult {
        pushed: true,
        pr_url: Some(url.to_owned()),
        error: None,
    };
    assert_eq!(result, expected);
    assert_eq!(repository.git(["log", "-1", "--format=%s", "work"]), "work");
    // By git's own request, and in no command or address.
    let sent = recorder.sent();
    assert!(
        sent.contains("/git/push ") && !sent.contains("/process/"),
        "{sent}"
    );
    assert_eq!(sent.matches(TOKEN).count(), 1, "{sent}");
    let seen = backend.git.seen().join("\n");
    assert!(seen.contains("[harness] fix the login test"), "{seen}");
    assert!(
        seen.contains(r"Blueprint: bug-fix\nBranch: work\nRun: 0a1b2c3d"),
        "{seen}"
    );
    assert!(seen.contains(&format!("POST /repos/acme/widgets/pulls Bearer {TOKEN}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_16_a_push_that_fails_is_a_result_and_no_error() {
    let backend = DaytonaBackend::new();
    backend.serve(&TestRepository::new(), Some(TOKEN));
    let sandbox = sandbox(&backend).await;
    let result = push(&backend, &sandbox, "ghp_wrong-token").await;
    let error = result.error.unwrap();
    assert!(!result.pushed && result.pr_url.is_none());
    assert!(error.starts_with("git push failed: "), "{error}");
    assert!(!error.contains("ghp_"), "{error}");
    // Another branch is checked out: that is not what was asked for.
    sh(&sandbox, "git checkout -q -b elsewhere").await;
    let outcome = sandbox
        .push_branch("work", &Secret::new(TOKEN))
        .await
        .unwrap();
    assert!(outcome.error.unwrap().contains("`elsewhere`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_23_a_pull_request_goes_to_the_default_branch_which_is_asked_for_once() {
    let backend = DaytonaBackend::new();
    let repository = TestRepository::new();
    repository.git(["branch", "--move", "main", "trunk"]);
    backend.serve(&repository, Some(TOKEN));
    let sandbox = sandbox(&backend).await;
    let asked = || {
        let seen = backend.git.seen();
        let asked = |line: &&String| line.starts_with("GET /repos/acme/widgets ");
        seen.iter().filter(asked).count()
    };
    assert_eq!(asked(), 0, "only when somebody wants to know");
    assert!(push(&backend, &sandbox, TOKEN).await.error.is_none());
    assert_eq!(sandbox.default_branch().await.unwrap(), "trunk");
    assert_eq!(asked(), 1);
    let seen = backend.git.seen().join("\n");
    assert!(seen.contains(r#""base":"trunk""#), "{seen}");
}
