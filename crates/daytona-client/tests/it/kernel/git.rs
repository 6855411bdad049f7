//! Git, against a repository inside of the sandbox.

use holm_daytona_client::wire::error::ErrorCode;
use holm_daytona_client::wire::git::{
    GitCloneRequest, GitCommitRequest, GitPullRequest, GitPushRequest,
};
use holm_daytona_client::wire::process::ExecuteRequest;
use holm_daytona_client::{Deletion, Toolbox};

use super::with_toolbox;

const SEED: &str = "git config --global user.name Me && git config --global user.email me@example.com && \
    git init -q --bare -b main remote.git && git init -q -b main seed && cd seed && echo one > file && git add . && \
    git commit -qm first && git push -q ../remote.git main";

async fn run(toolbox: &Toolbox, command: &str) -> String {
    let request = ExecuteRequest {
        command: command.to_owned(),
        timeout: Some(60),
        ..ExecuteRequest::default()
    };
    let done = toolbox.process().execute(&request).await.unwrap();
    assert_eq!(done.exit_code, 0, "{command}: {}", done.result);
    done.result.trim_end().to_owned()
}

#[test]
fn work_goes_from_a_clone_on_a_branch_of_its_own_to_the_remote() {
    with_toolbox(async |toolbox| {
        run(&toolbox, SEED).await;
        let git = toolbox.git();
        let request = GitCloneRequest {
            url: "/home/daytona/remote.git".to_owned(),
            path: "work".to_owned(),
            ..GitCloneRequest::default()
        };
        git.clone(request, None).await.unwrap();
        git.create_branch("work", "run-1").await.unwrap();
        git.checkout("work", "run-1").await.unwrap();
        let error = git.create_branch("work", "run-1").await.unwrap_err();
        assert!(error.has_code(&ErrorCode::GitBranchExists), "{error:?}");
        toolbox.files().write("work/file", "two\n").await.unwrap();
        let status = git.status("work").await.unwrap();
        assert_eq!(status.current_branch, "run-1");
        assert_eq!(status.file_status.len(), 1);
        git.add("work", vec![".".to_owned()]).await.unwrap();
        let commit = GitCommitRequest {
            path: "work".to_owned(),
            message: "second".to_owned(),
            author: "Ada".to_owned(),
            email: "ada@example.com".to_owned(),
            allow_empty: None,
        };
        let hash = git.commit(&commit).await.unwrap();
        let empty = GitCommitRequest {
            allow_empty: Some(true),
            message: "nothing".to_owned(),
            ..commit
        };
        git.commit(&empty).await.unwrap();
        let history = git.history("work").await.unwrap();
        let messages: Vec<&str> = history.iter().map(|commit| commit.message.trim()).collect();
        assert_eq!(messages, ["nothing", "second", "first"]);
        assert_eq!(history[1].hash, hash);
        let push = GitPushRequest {
            path: "work".to_owned(),
            ..GitPushRequest::default()
        };
        git.push(push, None).await.unwrap();
        let pushed = run(&toolbox, "git -C remote.git log --format=%s run-1").await;
        assert_eq!(pushed, "nothing\nsecond\nfirst");
        let pull = GitPullRequest {
            path: "work".to_owned(),
            ..GitPullRequest::default()
        };
        git.checkout("work", "main").await.unwrap();
        git.pull(pull, None).await.unwrap();
        let branches = git.branches("work").await.unwrap();
        assert!(branches.branches.iter().any(|branch| branch == "run-1"));
        assert_eq!(
            git.delete_branch("work", "run-1").await.unwrap(),
            Deletion::Accepted
        );
        assert_eq!(
            git.delete_branch("work", "run-1").await.unwrap(),
            Deletion::AlreadyGone
        );
    });
}

#[test]
fn what_is_not_there_has_a_name() {
    with_toolbox(async |toolbox| {
        run(&toolbox, SEED).await;
        let git = toolbox.git();
        let request = GitCloneRequest {
            url: "/home/daytona/nowhere.git".to_owned(),
            path: "x".to_owned(),
            ..GitCloneRequest::default()
        };
        let error = git.clone(request, None).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        let error = git.checkout("seed", "nowhere").await.unwrap_err();
        assert!(error.has_code(&ErrorCode::GitBranchNotFound), "{error:?}");
    });
}
