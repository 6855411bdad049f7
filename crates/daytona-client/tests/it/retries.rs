//! What is tried again, what is not, and when a call ends.

use std::time::{Duration, Instant};

use holm_daytona_client::wire::process::ExecuteRequest;
use holm_daytona_client::{Client, ClientError, Deadlines, Deletion, Settings};
use serde_json::json;

use crate::scripted::{KEY, Reply, Scripted};

fn command() -> ExecuteRequest {
    ExecuteRequest {
        command: "true".to_owned(),
        ..ExecuteRequest::default()
    }
}

#[tokio::test]
async fn reading_is_tried_again_after_whatever_may_pass() {
    let found = || Reply::Json(200, json!({ "id": "a", "name": "a" }));
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":".to_vec();
    for fault in [
        Reply::reset(),
        Reply::Cut(half),
        Reply::status(500),
        Reply::status(502),
        Reply::status(503),
        Reply::status(504),
        Reply::status(429),
    ] {
        let server = Scripted::replying(vec![fault, found()]).await;
        assert_eq!(server.client().get("a").await.unwrap().id, "a");
        assert_eq!(server.lines(), ["GET /api/sandbox/a"; 2]);
    }
}

#[tokio::test]
async fn a_command_never_runs_twice() {
    for (fault, may_have_happened) in [
        (Reply::reset(), true),
        (
            Reply::Cut(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()),
            true,
        ),
        (Reply::status(500), true),
        (Reply::status(502), true),
        (Reply::status(400), false),
    ] {
        let server = Scripted::replying(vec![fault]).await;
        let toolbox = server.toolbox().await;
        let error = toolbox.process().execute(&command()).await.unwrap_err();
        assert_eq!(error.may_have_happened(), may_have_happened, "{error:?}");
        assert_eq!(server.lines(), ["POST /toolbox/box/process/execute"]);
    }
}

#[tokio::test]
async fn a_command_that_a_busy_server_refused_is_sent_again() {
    let done = Reply::Json(200, json!({ "exitCode": 0, "result": "" }));
    let server = Scripted::replying(vec![Reply::status(429), done]).await;
    let toolbox = server.toolbox().await;
    let answer = toolbox.process().execute(&command()).await.unwrap();
    assert_eq!(answer.exit_code, 0);
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn a_busy_server_says_when_to_come_back() {
    let busy = |seconds: &str| {
        let headers = vec![("Retry-After-authenticated", seconds.to_owned())];
        Reply::With(429, headers, Vec::new())
    };
    let found = Reply::Json(200, json!({ "id": "a" }));
    let server = Scripted::replying(vec![busy("1"), found]).await;
    let started = Instant::now();
    server.client().get("a").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));

    // Longer than the call may take: it says so at once.
    let server = Scripted::replying(vec![busy("600")]).await;
    let started = Instant::now();
    let error = server.client().get("a").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(error.is_rate_limited(), "{error:?}");
    let asked = error.api().unwrap().retry_after;
    assert_eq!(asked, Some(Duration::from_secs(600)));
}

#[tokio::test]
async fn trying_again_has_an_end() {
    let server = Scripted::start(|_| Reply::status(503)).await;
    let error = server.client().get("a").await.unwrap_err();
    assert_eq!(error.status(), Some(503));
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(Settings::new(url, KEY)).unwrap();
    let error = client.get("a").await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(!error.may_have_happened());
    assert_eq!(
        error.to_string(),
        "could not get sandbox `a`: no connection to the server"
    );
}

#[tokio::test]
async fn a_command_is_sent_when_the_server_is_there_at_last() {
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let mut settings = Settings::new(format!("http://{address}/api"), KEY);
    settings.retry.attempts_max = 20;
    let client = Client::new(settings).unwrap();
    let starting = tokio::spawn(async move { client.start("a").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!starting.is_finished());
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let server = Scripted::start_on(listener, |_| Reply::Json(200, json!({ "id": "a" })));
    assert_eq!(starting.await.unwrap().unwrap().id, "a");
    assert_eq!(server.lines(), ["POST /api/sandbox/a/start"]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_at_the_deadline() {
    let slow = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec();
    for reply in [Reply::hang(), Reply::Stall(slow)] {
        let server = Scripted::replying(vec![reply]).await;
        let mut settings = server.settings();
        settings.deadlines.request = Duration::from_millis(200);
        let error = Client::new(settings).unwrap().get("a").await.unwrap_err();
        assert!(matches!(error, ClientError::Deadline { .. }), "{error:?}");
        assert!(error.is_timeout());
        assert_eq!(server.lines().len(), 1);
    }
}

#[tokio::test]
async fn a_command_has_its_own_time_and_a_little_more() {
    let server = Scripted::replying(vec![Reply::hang()]).await;
    let client = server.client().with_deadlines(Deadlines {
        execute_grace: Duration::from_millis(100),
        request: Duration::ZERO,
        ..Deadlines::default()
    });
    let toolbox = server.toolbox_of(&client).await;
    let request = ExecuteRequest {
        timeout: Some(1),
        ..command()
    };
    let started = Instant::now();
    let error = toolbox.process().execute(&request).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(started.elapsed() >= Duration::from_millis(1100));
}

#[tokio::test]
async fn deleting_what_is_gone_is_success() {
    let server = Scripted::replying(vec![Reply::status(404)]).await;
    let deleted = server.client().delete("a").await.unwrap();
    assert_eq!(deleted, Deletion::AlreadyGone);
}

#[tokio::test]
async fn a_delete_that_fails_once_is_done_again() {
    for fault in [Reply::status(500), Reply::reset(), Reply::status(409)] {
        let done = Reply::Json(200, json!({ "id": "a" }));
        let server = Scripted::replying(vec![fault, done]).await;
        let deleted = server.client().delete("a").await.unwrap();
        assert_eq!(deleted, Deletion::Accepted);
        assert_eq!(server.lines(), ["DELETE /api/sandbox/a"; 2]);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_kept() {
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let endless = [endless, chunk.repeat(8).into_bytes()].concat();
    let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec();
    for reply in [Reply::Stall(endless), Reply::Stall(announced)] {
        let server = Scripted::replying(vec![reply]).await;
        let mut settings = server.settings();
        settings.answer_bytes_max = 1024;
        let error = Client::new(settings).unwrap().get("a").await.unwrap_err();
        assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_is_not_the_protocol_is_told() {
    let page = || Reply::With(200, Vec::new(), b"<html>hello</html>".to_vec());
    let moved = || {
        let headers = vec![("Location", "http://elsewhere/".to_owned())];
        Reply::With(302, headers, Vec::new())
    };
    for reply in [page(), moved()] {
        let server = Scripted::replying(vec![reply]).await;
        let error = server.client().get("a").await.unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
        assert_eq!(server.lines().len(), 1);
    }
}
