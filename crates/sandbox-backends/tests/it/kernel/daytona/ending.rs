//! Seed 000: the end of a sandbox, and what is kept of it.

use holm_sandbox::{Sandbox, TeardownReport, UncommittedWork};
use holm_testkit::TestRepository;
use holm_testkit::conformance::sh;

use super::recorded;
use crate::support::daytona::DaytonaBackend;

#[tokio::test(flavor = "multi_thread")]
async fn ac_09_a_teardown_deletes_the_sandbox() {
    let (backend, recorder, sandbox) = recorded().await;
    assert_eq!(backend.existing().await, [sandbox.id()]);
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report, TeardownReport::default());
    let request = format!("DELETE /api/sandbox/{} ", sandbox.id());
    assert!(recorder.sent().contains(&request));
    backend.wait_until_nothing_exists().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_10_a_second_teardown_does_nothing() {
    let (_backend, recorder, sandbox) = recorded().await;
    sandbox.teardown(UncommittedWork::Keep).await;
    recorder.forget();
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report, TeardownReport::default());
    assert_eq!(recorder.sent(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_10_a_sandbox_that_is_gone_is_torn_down_already() {
    let (backend, _recorder, sandbox) = recorded().await;
    backend.client().delete(sandbox.id()).await.unwrap();
    backend.wait_until_nothing_exists().await;
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report, TeardownReport::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_without_a_branch_are_kept_too() {
    let backend = DaytonaBackend::new();
    let repository = TestRepository::new();
    backend.serve(&repository, None);
    let sandbox = backend.create("work").await;
    let commit = "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m";
    sh(
        &sandbox,
        &format!("git checkout -q --detach; {commit} lost; git checkout -q -b side; {commit} side"),
    )
    .await;
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    let names: Vec<&str> = report
        .branches
        .iter()
        .map(|kept| kept.name.as_str())
        .collect();
    assert_eq!(names, ["side"]);
    let bundle = report.branches[0].bundle.clone().unwrap();
    repository.git(["fetch", bundle.to_str().unwrap(), "side:side"]);
    assert_eq!(
        repository.git(["log", "--format=%s", "main..side"]),
        "side\nlost"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_without_its_git_is_not_taken_for_one_without_work() {
    let (backend, _recorder, sandbox) = recorded().await;
    sh(&sandbox, "echo work > new; rm -rf .git").await;
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report.leftovers.len(), 1, "{report:?}");
    assert_eq!(backend.existing().await, [sandbox.id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_work_cannot_come_home_is_not_deleted() {
    let (backend, _recorder, sandbox) = recorded().await;
    sandbox.write_file("new".as_ref(), b"work").await.unwrap();
    // Git cannot write any more.
    sh(&sandbox, "touch .git/index.lock").await;
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report.leftovers.len(), 1, "{report:?}");
    assert!(report.warnings[0].contains("could not be brought home"));
    assert_eq!(backend.existing().await, [sandbox.id()]);
}
