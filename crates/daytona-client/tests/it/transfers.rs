//! Files on bad ways: cut off, stalled, mislabelled.

use std::time::Duration;

use holm_daytona_client::wire::error::ErrorCode;
use holm_daytona_client::{Client, ClientError, DownloadPart, Toolbox, Upload};
use serde_json::json;

use crate::scripted::{Reply, Scripted};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: multipart/form-data; boundary=xyz\r\nConnection: close\r\n";

/// A form with these parts: name, further headers, content.
fn form(parts: &[(&str, &str, &str)]) -> String {
    let mut form = String::new();
    for (name, headers, content) in parts {
        form.push_str(&format!(
            "--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; {headers}\r\n\r\n{content}\r\n"
        ));
    }
    form + "--xyz--\r\n"
}

fn answer(form: &str) -> Vec<u8> {
    format!("{HEAD}Content-Length: {}\r\n\r\n{form}", form.len()).into_bytes()
}

/// The answer without its length, so that only the form says where it ends.
fn answer_without_length(form: &str) -> Reply {
    Reply::With(
        200,
        vec![(
            "Content-Type",
            "multipart/form-data; boundary=xyz".to_owned(),
        )],
        form.as_bytes().to_vec(),
    )
}

async fn toolbox_with_silence(server: &Scripted, silence: Duration) -> Toolbox {
    let mut settings = server.settings();
    settings.deadlines.transfer_silence = silence;
    server.toolbox_of(&Client::new(settings).unwrap()).await
}

#[tokio::test]
async fn files_come_with_their_names_and_one_that_fails_does_not_stop_the_others() {
    let missing = r#"{"statusCode":404,"message":"no such file","code":"FILE_NOT_FOUND","source":"DAYTONA_DAEMON"}"#;
    let parts = [
        (
            "file",
            "filename=\"a\"; filename*=utf-8''a%20b\r\nContent-Length: 3",
            "one",
        ),
        (
            "error",
            "filename=\"gone\"\r\nContent-Type: application/json",
            missing,
        ),
        ("file", "filename=\"empty\"\r\nContent-Length: 0", ""),
        ("file", "filename=\"skipped\"", "not read"),
        ("file", "filename=\"last\"", "--xyz not quite\r\n"),
    ];
    let server = Scripted::replying(vec![answer_without_length(&form(&parts))]).await;
    let toolbox = server.toolbox().await;
    let paths = ["a b", "gone", "empty", "skipped", "last"].map(str::to_owned);
    let mut downloads = toolbox.files().download_many(paths.to_vec()).await.unwrap();
    let mut got = Vec::new();
    while let Some(part) = downloads.next_part().await.unwrap() {
        match part {
            DownloadPart::File { path, .. } if path == "skipped" => {
                got.push((path, "…".to_owned()));
            }
            DownloadPart::File { path, .. } => {
                let mut content = Vec::new();
                while let Some(chunk) = downloads.chunk().await.unwrap() {
                    content.extend_from_slice(&chunk);
                }
                got.push((path, String::from_utf8(content).unwrap()));
            }
            DownloadPart::Failed { path, error } => {
                assert!(error.has_code(&ErrorCode::FileNotFound), "{error:?}");
                assert!(error.is_not_found());
                got.push((path, "failed".to_owned()));
            }
        }
    }
    let expected = [
        ("a b", "one"),
        ("gone", "failed"),
        ("empty", ""),
        ("skipped", "…"),
        ("last", "--xyz not quite\r\n"),
    ];
    assert_eq!(
        got,
        expected.map(|(path, content)| (path.to_owned(), content.to_owned()))
    );
    assert_eq!(server.seen()[0].json()["paths"], json!(paths));
}

#[tokio::test]
async fn a_missing_file_is_an_error_of_its_own_kind() {
    let missing = r#"{"statusCode":404,"message":"no such file","code":"FILE_NOT_FOUND"}"#;
    let parts = [("error", "filename=\"a\"", missing)];
    let server = Scripted::replying(vec![answer_without_length(&form(&parts))]).await;
    let error = server.toolbox().await.files().read("a", 100).await;
    let error = error.unwrap_err();
    assert!(error.is_not_found());
    assert!(error.to_string().contains("no such file"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_cut_off_is_never_taken_for_a_whole_one() {
    let whole = form(&[("file", "filename=\"a\"\r\nContent-Length: 10", "0123456789")]);
    let toolbox_of = async |reply| {
        let server = Scripted::replying(vec![reply]).await;
        let toolbox = server.toolbox().await;
        (server, toolbox)
    };
    // Everywhere, and whether the connection ends politely or not.
    for length in 0..whole.len() - 2 {
        let (_server, toolbox) = toolbox_of(answer_without_length(&whole[..length])).await;
        let outcome = toolbox.files().read("a", 100).await;
        let is_form_complete = whole[..length].ends_with("--xyz--");
        assert_eq!(outcome.is_ok(), is_form_complete, "{length}: {outcome:?}");
    }
    for length in [0, 10, 80, 100, whole.len() - 8] {
        let head = answer(&whole);
        let cut = head[..head.len() - whole.len() + length].to_vec();
        let (_server, toolbox) = toolbox_of(Reply::Cut(cut)).await;
        let outcome = toolbox.files().read("a", 100).await;
        let error = outcome.unwrap_err();
        assert!(error.may_have_happened(), "{length}: {error:?}");
    }
}

#[tokio::test]
async fn a_file_must_be_as_long_as_it_says() {
    for length in ["9", "11"] {
        let headers = format!("filename=\"a\"\r\nContent-Length: {length}");
        let body = form(&[("file", &headers, "0123456789")]);
        let server = Scripted::replying(vec![answer_without_length(&body)]).await;
        let error = server.toolbox().await.files().read("a", 100).await;
        let error = error.unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_form_is_told() {
    let page = Reply::With(
        200,
        vec![("Content-Type", "text/html".to_owned())],
        b"<html>".to_vec(),
    );
    let server = Scripted::replying(vec![page]).await;
    let error = server
        .toolbox()
        .await
        .files()
        .download("a")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("boundary"), "{error}");
    let server = Scripted::replying(vec![answer_without_length("--xyz--\r\n")]).await;
    let error = server
        .toolbox()
        .await
        .files()
        .download("a")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no data came"), "{error}");
}

#[tokio::test]
async fn a_download_that_stands_still_ends() {
    let beginning = answer(&form(&[("file", "filename=\"a\"", "0123456789")]));
    let beginning = beginning[..beginning.len() - 14].to_vec();
    let server = Scripted::replying(vec![Reply::Stall(beginning)]).await;
    let toolbox = toolbox_with_silence(&server, Duration::from_millis(100)).await;
    let error = toolbox.files().read("a", 100).await.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_larger_than_wanted_is_refused() {
    let body = form(&[("file", "filename=\"a\"", "0123456789")]);
    let server = Scripted::start(move |_| answer_without_length(&body)).await;
    let toolbox = server.toolbox().await;
    let content = toolbox.files().read("a", 10).await.unwrap();
    assert_eq!(content, b"0123456789");
    let error = toolbox.files().read("a", 9).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn an_upload_of_bytes_is_done_again_after_a_reset() {
    let written = Reply::Json(
        200,
        json!({ "files": [{ "path": "/a \"b\"", "bytes": 3 }] }),
    );
    let server = Scripted::replying(vec![Reply::reset(), written]).await;
    let toolbox = server.toolbox().await;
    let files = vec![Upload::bytes("/a \"b\"", "one")];
    let written = toolbox.files().upload(files).await.unwrap();
    assert_eq!(written[0].bytes, 3);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    for request in seen {
        let body = String::from_utf8(request.body.clone()).unwrap();
        assert!(
            body.contains("name=\"files[0].path\"\r\n\r\n/a \"b\"\r\n"),
            "{body}"
        );
        assert!(
            body.contains("name=\"files[0].file\"; filename=\"file\""),
            "{body}"
        );
        assert!(body.contains("\r\n\r\none\r\n"), "{body}");
    }
}

#[tokio::test]
async fn an_upload_of_a_stream_is_not() {
    let server = Scripted::replying(vec![Reply::reset()]).await;
    let toolbox = server.toolbox().await;
    let file = Upload::reader("a", std::io::Cursor::new("one"), None);
    let error = toolbox.files().upload(vec![file]).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Interrupted { .. }),
        "{error:?}"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn the_reasons_of_a_refused_upload_are_told() {
    let refused = json!({ "errors": ["a: no space", "b: is a folder"], "files": [] });
    let server = Scripted::replying(vec![Reply::Json(400, refused)]).await;
    let toolbox = server.toolbox().await;
    let error = toolbox.files().write("a", "one").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not upload `a` in sandbox `box`: a: no space; b: is a folder (status 400)"
    );
}

#[tokio::test]
async fn a_source_that_fails_is_not_blamed_on_the_server() {
    let server = Scripted::start(|_| Reply::Json(200, json!({}))).await;
    let toolbox = server.toolbox().await;
    let short = Upload::reader("a", std::io::Cursor::new("one"), Some(100));
    let error = toolbox.files().upload(vec![short]).await.unwrap_err();
    assert!(matches!(error, ClientError::Local { .. }), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "the content ends 97 bytes too early");
    let failing = tokio_test_reader();
    let error = toolbox
        .files()
        .upload(vec![Upload::reader("a", failing, None)])
        .await;
    assert!(matches!(error, Err(ClientError::Local { .. })), "{error:?}");
}

/// A reader that gives a little and then fails.
fn tokio_test_reader() -> impl tokio::io::AsyncRead + Send {
    let chunks = [
        Ok(bytes::Bytes::from_static(b"one")),
        Err(std::io::Error::other("the disk is gone")),
    ];
    tokio_util::io::StreamReader::new(futures_util::stream::iter(chunks))
}

#[tokio::test]
async fn an_upload_that_nobody_takes_ends() {
    // A server that accepts and then reads nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = Scripted::start(|_| Reply::hang()).await;
    let mut settings = server.settings();
    settings.deadlines.transfer_silence = Duration::from_millis(300);
    let client = Client::new(settings).unwrap();
    let sandbox = holm_daytona_client::wire::sandbox::Sandbox {
        id: "box".to_owned(),
        toolbox_proxy_url: origin,
        ..Default::default()
    };
    let toolbox = client.toolbox(&sandbox).await.unwrap();
    let giant = vec![0; 64 * 1024 * 1024];
    let error = toolbox.files().write("a", giant).await.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error:?}");
    drop(listener);
}
