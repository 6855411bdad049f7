//! Seed 000: how a sandbox is made, and what is left when that fails.

use std::path::Path;

use holm_daytona_client::StopManner;
use holm_sandbox::{Exec, Sandbox, Secret, UncommittedWork};
use holm_sandbox_backends::daytona::{
    LABEL_ENVIRONMENT, LABEL_RUN, LABEL_THREAD, Labels, Resources, create_daytona_sandbox,
};
use holm_testkit::TestRepository;
use holm_testkit::conformance::sh;

use super::{assert_in_order, recorded};
use crate::support::daytona::{DaytonaBackend, REPO};

const TOKEN: &str = "ghp_token-of-a-private-repository";

#[tokio::test(flavor = "multi_thread")]
async fn ac_01_a_sandbox_is_made_from_the_default_snapshot_or_the_chosen_one() {
    let (backend, recorder) = DaytonaBackend::recorded();
    backend.serve(&TestRepository::new(), None);
    let sandbox = backend.create("work").await;
    let sent = recorder.sent();
    assert!(sent.contains("POST /api/sandbox HTTP/1.1"), "{sent}");
    assert!(sent.contains(r#""snapshot":"daytona-medium""#), "{sent}");
    assert!(sent.contains(r#""target":"us""#), "{sent}");
    let mut options = backend.sandbox_options("other");
    options.daytona.snapshot = Some("daytona-small".to_owned());
    options.daytona.target = Some("eu".to_owned());
    recorder.forget();
    let chosen = create_daytona_sandbox(options).await;
    let sent = recorder.sent();
    assert!(sent.contains(r#""snapshot":"daytona-small""#), "{sent}");
    assert!(sent.contains(r#""target":"eu""#), "{sent}");
    sandbox.teardown(UncommittedWork::Discard).await;
    chosen.unwrap().teardown(UncommittedWork::Discard).await;
    backend.wait_until_nothing_exists().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_02_the_work_folder_is_where_the_repository_was_cloned() {
    let (_backend, _recorder, sandbox) = recorded().await;
    assert_eq!(
        sandbox.work_dir(),
        Path::new("/home/daytona/workspace/widgets")
    );
    let said = sh(
        &sandbox,
        "pwd; git rev-parse --show-toplevel; cat README.md",
    )
    .await;
    let folder = "/home/daytona/workspace/widgets";
    assert_eq!(said, format!("{folder}\n{folder}\n# A test"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_12_a_private_repository_is_cloned_with_the_token() {
    let (backend, recorder) = DaytonaBackend::recorded();
    backend.serve(&TestRepository::new(), Some(TOKEN));
    let mut options = backend.sandbox_options("work");
    options.github_token = Some(Secret::new(TOKEN));
    let sandbox = create_daytona_sandbox(options.clone()).await.unwrap();
    let sent = recorder.sent();
    assert_eq!(sent.matches(TOKEN).count(), 1, "{sent}");
    assert!(sent.contains(&format!(r#""username":"git","password":"{TOKEN}""#)));
    assert!(!sent.contains(&format!("{TOKEN}@")), "{sent}");
    // Nothing of it stays inside.
    let look = "git config --list; git remote -v; cat ~/.git-credentials ~/.netrc .git/config";
    let outcome = sandbox.exec(Exec::new(["sh", "-c", look])).await.unwrap();
    assert!(outcome.stdout_text().contains("remote.origin.url"));
    assert!(!outcome.stdout_text().contains("[REDACTED"), "{outcome:?}");
    sandbox.teardown(UncommittedWork::Discard).await;
    // Without it, or with another, there is no sandbox, and nothing that shows the token.
    for token in [None, Some("ghp_another-token")] {
        options.github_token = token.map(Secret::new);
        let error = create_daytona_sandbox(options.clone()).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("clone `acme/widgets`"), "{text}");
        assert!(!text.contains("ghp_"), "{text}");
    }
    backend.wait_until_nothing_exists().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_18_a_sandbox_ends_when_it_is_stopped() {
    let (backend, recorder) = DaytonaBackend::recorded();
    backend.serve(&TestRepository::new(), None);
    let sandbox = backend.create("work").await;
    let sent = recorder.sent();
    assert!(sent.contains(r#""autoStopInterval":30"#), "{sent}");
    assert!(sent.contains(r#""autoDeleteInterval":0"#), "{sent}");
    let client = backend.client();
    client.stop(sandbox.id(), StopManner::Force).await.unwrap();
    backend.wait_until_nothing_exists().await;
    // Its teardown finds it gone, which is what was asked for.
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert!(report.leftovers.is_empty(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_20_what_goes_wrong_after_creating_leaves_no_sandbox() {
    let (backend, recorder) = DaytonaBackend::recorded();
    // Nothing is served: there is no such repository.
    let error = create_daytona_sandbox(backend.sandbox_options("work")).await;
    assert!(
        error.unwrap_err().to_string().contains("clone"),
        "the clone fails"
    );
    let parts = ["POST /api/sandbox ", "/git/clone ", "DELETE /api/sandbox/"];
    assert_in_order(&recorder.sent(), &parts);
    backend.wait_until_nothing_exists().await;
    // The branch is there already.
    backend.serve(&TestRepository::new(), None);
    recorder.forget();
    let error = create_daytona_sandbox(backend.sandbox_options("main")).await;
    assert!(error.unwrap_err().to_string().contains("branch `main`"));
    let parts = ["/git/clone ", "/git/branches ", "DELETE /api/sandbox/"];
    assert_in_order(&recorder.sent(), &parts);
    backend.wait_until_nothing_exists().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_nobody_waits_for_leaves_no_sandbox() {
    let (backend, recorder) = DaytonaBackend::recorded();
    backend.serve(&TestRepository::new(), None);
    let creation = create_daytona_sandbox(backend.sandbox_options("work"));
    let cloning = async {
        while !recorder.sent().contains("/git/clone ") {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        _ = creation => {}
        () = cloning => {}
    }
    backend.wait_until_nothing_exists().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_25_the_default_branch_is_cloned_and_the_branch_made_from_it() {
    let (backend, recorder) = DaytonaBackend::recorded();
    let repository = TestRepository::new();
    backend.serve(&repository, None);
    let sandbox = backend.create("harness/0a1b/fix").await;
    let sent = recorder.sent();
    assert_in_order(&sent, &["/git/clone ", "/git/branches ", "/git/checkout "]);
    let clone = sent.split("/git/clone ").nth(1).unwrap();
    let clone = clone.split("/git/branches").next().unwrap();
    assert!(clone.contains(r#""url":"http"#) && !clone.contains(r#""branch""#));
    let said = sh(&sandbox, "git branch --show-current; git rev-parse HEAD").await;
    assert_eq!(said, format!("harness/0a1b/fix\n{}", repository.head()));
    sandbox.teardown(UncommittedWork::Discard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_tell_what_a_sandbox_is_for() {
    let backend = DaytonaBackend::new();
    backend.serve(&TestRepository::new(), None);
    let mut options = backend.sandbox_options("work");
    options.daytona.labels = Labels {
        thread: Some("thread-7".to_owned()),
        environment: Some("env-3".to_owned()),
        ..backend.options.labels.clone()
    };
    // What cannot be resized stays as it is.
    options.daytona.resources = Some(Resources {
        cpu: Some(1),
        ..Resources::default()
    });
    let sandbox = create_daytona_sandbox(options).await.unwrap();
    let found = backend.client().get(sandbox.id()).await.unwrap();
    for (name, value) in [
        (LABEL_RUN, backend.options.labels.run.as_deref().unwrap()),
        (LABEL_THREAD, "thread-7"),
        (LABEL_ENVIRONMENT, "env-3"),
        ("holm.repository", REPO),
    ] {
        assert_eq!(found.labels.get(name).map(String::as_str), Some(value));
    }
    sandbox.teardown(UncommittedWork::Discard).await;
}
