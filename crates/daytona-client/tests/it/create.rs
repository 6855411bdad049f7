//! A sandbox is made once, whatever becomes of the answers.

use std::collections::HashMap;
use std::time::Duration;

use holm_daytona_client::wire::sandbox::CreateSandbox;
use holm_daytona_client::{Client, Deletion, PreparedCreate};
use serde_json::{Value, json};

use crate::scripted::{Reply, Scripted, Seen};

/// What happens to the n-th request for a sandbox.
#[derive(Clone, Copy)]
enum Fate {
    Answered,
    /// The sandbox is made, and nobody hears of it.
    AnswerLost,
    /// The sandbox is made, and a proxy says otherwise.
    AnswerReplaced(u16),
    /// Nothing is made, and nobody hears of it.
    RequestLost,
    Refused(u16),
}

/// A control plane that keeps sandboxes by name and loses what it is told to lose.
fn control_plane(fates: Vec<Fate>) -> impl FnMut(&Seen) -> Reply + Send + 'static {
    let mut fates = fates.into_iter();
    let mut made: HashMap<String, Value> = HashMap::new();
    move |request| {
        let name = request.path.strip_prefix("/api/sandbox/");
        match (request.method.as_str(), name) {
            ("POST", None) => {
                let body = request.json();
                let name = body["name"].as_str().unwrap().to_owned();
                let fate = fates.next().unwrap_or(Fate::Answered);
                if let Fate::Refused(status) = fate {
                    return Reply::status(status);
                }
                if matches!(fate, Fate::RequestLost) {
                    return Reply::reset();
                }
                if made.contains_key(&name) {
                    return Reply::status(409);
                }
                let id = format!("id-of-{name}");
                let sandbox =
                    json!({ "id": id, "name": name, "labels": body["labels"], "state": "started" });
                made.insert(name, sandbox.clone());
                match fate {
                    Fate::AnswerLost => Reply::reset(),
                    Fate::AnswerReplaced(status) => Reply::status(status),
                    Fate::Answered | Fate::RequestLost | Fate::Refused(_) => {
                        Reply::Json(200, sandbox)
                    }
                }
            }
            ("GET", Some(name)) => match made.get(name) {
                Some(sandbox) => Reply::Json(200, sandbox.clone()),
                None => Reply::status(404),
            },
            ("DELETE", Some(id)) => {
                let name = id.strip_prefix("id-of-").unwrap();
                match made.remove(name) {
                    Some(sandbox) => Reply::Json(200, sandbox),
                    None => Reply::status(404),
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn named(name: &str) -> CreateSandbox {
    CreateSandbox {
        name: Some(name.to_owned()),
        ..CreateSandbox::default()
    }
}

fn posts(server: &Scripted) -> usize {
    let is_post = |line: &&String| line.starts_with("POST");
    server.lines().iter().filter(is_post).count()
}

#[tokio::test]
async fn a_sandbox_whose_answer_is_lost_is_found_again() {
    for fate in [
        Fate::AnswerLost,
        Fate::AnswerReplaced(500),
        Fate::AnswerReplaced(502),
        Fate::AnswerReplaced(504),
    ] {
        let server = Scripted::start(control_plane(vec![fate])).await;
        let made = server.client().create(CreateSandbox::default()).await;
        let made = made.unwrap();
        assert_eq!(made.id, format!("id-of-{}", made.name));
        assert_eq!(posts(&server), 1);
    }
}

#[tokio::test]
async fn a_request_that_is_lost_is_made_again_under_the_same_name() {
    let server = Scripted::start(control_plane(vec![Fate::RequestLost])).await;
    let made = server.client().create(named("mine")).await.unwrap();
    assert_eq!(made.name, "mine");
    let names: Vec<Value> = server
        .seen()
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.json()["name"].clone())
        .collect();
    assert_eq!(names, ["mine", "mine"]);
}

#[tokio::test]
async fn a_name_that_another_sandbox_has_is_a_conflict() {
    let server = Scripted::start(control_plane(Vec::new())).await;
    let client = server.client();
    client.create(named("taken")).await.unwrap();
    let error = client.create(named("taken")).await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
}

#[tokio::test]
async fn another_sandbox_of_the_same_name_is_not_taken_for_ours() {
    let fates = vec![Fate::Answered, Fate::Refused(502)];
    let server = Scripted::start(control_plane(fates)).await;
    let client = server.client();
    let theirs = client.create(named("taken")).await.unwrap();
    // Our request meets a proxy that fails; a sandbox of that name is there, and is not ours.
    let error = client.create(named("taken")).await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    // Nothing of theirs was removed on the way.
    assert_eq!(client.get("taken").await.unwrap().id, theirs.id);
}

#[tokio::test]
async fn a_refusal_is_told_at_once() {
    for status in [400, 401, 403, 422] {
        let server = Scripted::start(control_plane(vec![Fate::Refused(status)])).await;
        let error = server.client().create(named("a")).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert_eq!(server.lines(), ["POST /api/sandbox"]);
    }
}

#[tokio::test]
async fn a_server_that_keeps_failing_ends_with_its_error_and_nothing_left() {
    let server = Scripted::start(control_plane(vec![Fate::RequestLost; 9])).await;
    let error = server.client().create(named("a")).await.unwrap_err();
    assert!(error.may_have_happened(), "{error:?}");
    assert_eq!(posts(&server), 3);
    assert_eq!(server.client().find("a").await.unwrap(), None);
}

#[tokio::test]
async fn what_comes_about_after_the_deadline_is_removed() {
    // Each answer comes too late, but the sandbox is there when the client looks for the last time.
    let mut asked = 0;
    let mut deleted = false;
    let mut mark = Value::Null;
    let server = Scripted::start(move |request| match request.method.as_str() {
        "POST" => {
            mark = request.json()["labels"].clone();
            Reply::hang()
        }
        "GET" if !deleted => {
            asked += 1;
            // Unreachable while the client still hopes.
            if asked <= 1 {
                return Reply::status(401);
            }
            Reply::Json(200, json!({ "id": "late", "labels": mark }))
        }
        "DELETE" => {
            deleted = true;
            Reply::Json(200, json!({}))
        }
        _ => Reply::status(404),
    })
    .await;
    let mut settings = server.settings();
    settings.deadlines.create = Duration::from_millis(200);
    let client = Client::new(settings).unwrap();
    let error = client.create(named("late")).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(
        server.lines(),
        [
            "POST /api/sandbox",
            "GET /api/sandbox/late",
            "GET /api/sandbox/late",
            "DELETE /api/sandbox/late"
        ]
    );
}

#[tokio::test]
async fn a_prepared_request_can_be_cleared_away_later() {
    let server = Scripted::start(control_plane(vec![Fate::AnswerLost])).await;
    let client = server.client();
    let prepared = PreparedCreate::new(CreateSandbox::default());
    assert!(prepared.name().starts_with("holm-"));
    assert_eq!(client.find_prepared(&prepared).await.unwrap(), None);
    let gone = client.discard_prepared(&prepared).await.unwrap();
    assert_eq!(gone, Deletion::AlreadyGone);
    // Another process, after a crash of the first, knows no more than the request.
    client.create_prepared(&prepared).await.unwrap();
    let other = server.client();
    let found = other.find_prepared(&prepared).await.unwrap().unwrap();
    assert_eq!(found.name, prepared.name());
    let deleted = other.discard_prepared(&prepared).await.unwrap();
    assert_eq!(deleted, Deletion::Accepted);
    assert_eq!(client.find_prepared(&prepared).await.unwrap(), None);
}

#[tokio::test]
async fn a_sandbox_that_does_not_start_is_deleted() {
    let replies = vec![
        Reply::Json(200, json!({ "id": "a", "state": "creating" })),
        Reply::Json(200, json!({ "id": "a", "state": "creating" })),
        Reply::Json(
            200,
            json!({ "id": "a", "state": "build_failed", "errorReason": "no space" }),
        ),
        Reply::Json(200, json!({})),
    ];
    let server = Scripted::replying(replies).await;
    let outcome = server
        .client()
        .create_started(named("a"), Duration::from_secs(30))
        .await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "sandbox `a` became `build_failed`: no space"
    );
    assert_eq!(server.lines().last().unwrap(), "DELETE /api/sandbox/a");
}
