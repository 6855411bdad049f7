//! Waiting for a state.

use std::time::Duration;

use holm_daytona_client::wire::sandbox::SandboxState;
use holm_daytona_client::{ClientError, StopManner};
use serde_json::json;

use crate::scripted::{Reply, Scripted};

const PATIENCE: Duration = Duration::from_secs(20);

fn state(state: &str) -> Reply {
    Reply::Json(200, json!({ "id": "a", "state": state }))
}

#[tokio::test]
async fn a_start_is_waited_for_through_what_passes() {
    let replies = vec![
        Reply::status(409),
        state("starting"),
        // All tries of one look.
        Reply::status(503),
        Reply::status(503),
        Reply::status(503),
        Reply::status(503),
        state("starting"),
        state("started"),
    ];
    let server = Scripted::replying(replies).await;
    let started = server.client().start_and_wait("a", PATIENCE).await;
    assert_eq!(started.unwrap().state, Some(SandboxState::Started));
}

#[tokio::test]
async fn one_that_has_started_at_once_needs_no_look() {
    let server = Scripted::replying(vec![state("started")]).await;
    server.client().start_and_wait("a", PATIENCE).await.unwrap();
    assert_eq!(server.lines(), ["POST /api/sandbox/a/start"]);
}

#[tokio::test]
async fn stopping_one_that_is_deleted_by_it_is_success() {
    let replies = vec![
        Reply::Json(200, json!({})),
        state("stopping"),
        Reply::status(404),
    ];
    let server = Scripted::replying(replies).await;
    let client = server.client();
    let stopped = client.stop_and_wait("a", StopManner::Force, PATIENCE).await;
    assert_eq!(stopped.unwrap(), None);
    assert_eq!(server.lines()[0], "POST /api/sandbox/a/stop?force=true");
}

#[tokio::test]
async fn one_that_vanishes_will_not_start() {
    let server = Scripted::replying(vec![state("starting"), Reply::status(404)]).await;
    let error = server.client().wait_until_started("a", PATIENCE).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "sandbox `a` became `destroyed`"
    );
}

#[tokio::test]
async fn a_refusal_is_not_waited_through() {
    let server = Scripted::replying(vec![Reply::status(401)]).await;
    let error = server.client().wait_until_gone("a", PATIENCE).await;
    assert!(error.unwrap_err().is_unauthorized());
}

#[tokio::test]
async fn patience_ends_with_what_was_seen_last() {
    let server = Scripted::start(|_| state("starting")).await;
    let patience = Duration::from_millis(300);
    let error = server.client().wait_until_started("a", patience).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error:?}");
    assert!(error.to_string().contains("was starting last"), "{error}");
}
