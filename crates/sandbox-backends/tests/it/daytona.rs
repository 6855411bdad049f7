//! Sandboxes of Daytona, as far as they need no server: what is refused first, and what results look like.

use holm_sandbox::Secret;
use holm_sandbox_backends::daytona::{
    DaytonaOptions, PullRequest, PushResult, SandboxOptions, create_daytona_sandbox,
};

fn options(repo: &str, key: Option<&str>) -> SandboxOptions {
    SandboxOptions {
        repo: Some(repo.to_owned()),
        branch: "work".to_owned(),
        operation_timeout: None,
        daytona: DaytonaOptions {
            api_key: key.map(Secret::new),
            // Nobody listens there: what asks it has failed already.
            api_url: Some("http://127.0.0.1:1/api".to_owned()),
            ..DaytonaOptions::default()
        },
        github_token: None,
    }
}

async fn refused(repo: &str, key: Option<&str>) -> String {
    let made = create_daytona_sandbox(options(repo, key)).await;
    made.unwrap_err().to_string()
}

#[tokio::test]
async fn ac_11_without_a_key_there_is_no_sandbox() {
    let message = "Daytona API key required (set DAYTONA_API_KEY or pass opts.daytona.apiKey)";
    assert_eq!(refused("acme/widgets", None).await, message);
    assert_eq!(refused("acme/widgets", Some("")).await, message);
}

#[tokio::test]
async fn ac_19_a_local_path_is_refused() {
    let message = "Daytona sandbox requires a GitHub repo URL (e.g. org/repo), not a local path";
    for repo in [
        ".",
        "..",
        "/Users/x/repo",
        "./my-project",
        "~/x",
        "widgets",
        "C:/x",
    ] {
        assert_eq!(refused(repo, Some("key")).await, message, "{repo}");
    }
    let other = refused("https://gitlab.com/acme/widgets", Some("key")).await;
    assert!(other.contains("is not a GitHub repository"), "{other}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let error = create_daytona_sandbox(options("acme/widgets", Some("key"))).await;
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "could not create a Daytona sandbox");
    assert!(error.hint().unwrap().contains("DAYTONA_API_URL"));
    assert!(!format!("{error:?}").contains("\"key\""));
}

#[test]
fn ac_22_a_result_has_a_schema() {
    let text = |result: &PushResult| serde_json::to_string(result).unwrap();
    let mut result = PushResult {
        pushed: true,
        pr_url: Some("https://github.com/acme/widgets/pull/1".to_owned()),
        error: None,
    };
    assert_eq!(
        text(&result),
        r#"{"pushed":true,"prUrl":"https://github.com/acme/widgets/pull/1"}"#
    );
    result = PushResult {
        error: Some("git push failed: x".to_owned()),
        ..PushResult::default()
    };
    assert_eq!(
        text(&result),
        r#"{"pushed":false,"error":"git push failed: x"}"#
    );
}

#[test]
fn a_title_is_as_long_as_github_takes_it() {
    let request = PullRequest {
        branch: "work".to_owned(),
        intent: "ä".repeat(400),
        blueprint: "b".to_owned(),
        run_id: "r".to_owned(),
    };
    assert_eq!(request.title().chars().count(), 256);
    assert!(request.title().starts_with("[harness] ä"));
    assert_eq!(request.body(), "Blueprint: b\nBranch: work\nRun: r");
}
