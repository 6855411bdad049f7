//! A server that means harm: it wants the key sent elsewhere, and answers that never end.

use std::time::Duration;

use holm_daytona_client::wire::sandbox::CreateSandbox;
use holm_daytona_client::{ClientError, InputEcho, Upload};

use crate::scripted::{KEY, Reply, Scripted};

/// For what must end although the server does not. It ends long before.
const BOUND: Duration = Duration::from_secs(20);
const FORM: &str = "HTTP/1.1 200 OK\r\nContent-Type: multipart/form-data; boundary=xyz\r\nConnection: close\r\n\r\n";
const CHUNK: usize = 64 * 1024;

#[tokio::test]
async fn no_redirect_takes_the_key_elsewhere() {
    for status in [300, 301, 302, 303, 307, 308] {
        let elsewhere = Scripted::replying(Vec::new()).await;
        let place = format!("{}/api/sandbox/one", elsewhere.origin);
        let server = Scripted::start(move |_| {
            Reply::With(status, vec![("Location", place.clone())], Vec::new())
        })
        .await;
        let (client, toolbox) = (server.client(), server.toolbox().await);
        let sessions = toolbox.sessions();
        let outcomes = [
            client.get("one").await.map(drop),
            client.delete("one").await.map(drop),
            client.create(CreateSandbox::default()).await.map(drop),
            client.preview_link("one", 80).await.map(drop),
            toolbox.files().read("/file", 100).await.map(drop),
            toolbox
                .files()
                .upload(vec![Upload::bytes("/file", "x")])
                .await
                .map(drop),
            sessions
                .spawn("s", "x", InputEcho::Suppressed)
                .await
                .map(drop),
            sessions.follow("s", "c").await.map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
            assert!(!format!("{error:?}").contains(KEY));
        }
        assert_eq!(elsewhere.lines(), Vec::<String>::new(), "{status}");
    }
}

/// What reading a file comes to when the answer begins like this and goes on like that.
async fn read_endless(begin: &str, again: &str) -> ClientError {
    let (begin, again) = (begin.as_bytes().to_vec(), again.as_bytes().to_vec());
    let server = Scripted::replying(vec![Reply::Endless(begin, again)]).await;
    let toolbox = server.toolbox().await;
    let files = toolbox.files();
    let read = tokio::time::timeout(BOUND, files.read("/file", 1 << 20)).await;
    read.unwrap_or_else(|_| panic!("it does not end"))
        .unwrap_err()
}

#[tokio::test]
async fn a_download_ends_although_its_answer_does_not() {
    let part = |name: &str| {
        format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n")
    };
    let letters = "x".repeat(CHUNK);
    let content = read_endless(&format!("{FORM}{}", part("file")), &letters).await;
    assert!(
        matches!(content, ClientError::TooLarge { .. }),
        "{content:?}"
    );
    let whole = format!("{FORM}{}content\r\n", part("file"));
    for (begin, again, problem) in [
        (
            format!("{whole}--xyz--\r\n"),
            letters.clone(),
            "it does not end",
        ),
        (
            whole.clone(),
            format!("{}more\r\n", part("file")),
            "more came than was asked for",
        ),
        (
            format!("{FORM}{}", part("error")),
            letters.clone(),
            "does not come is too long",
        ),
        // Neither headers nor what comes before the first part have an end.
        (FORM.to_owned(), letters.clone(), ""),
        (format!("{FORM}--xyz\r\nX: "), letters.clone(), ""),
    ] {
        let error = read_endless(&begin, &again).await;
        let ClientError::Protocol { problem: said, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(said.contains(problem), "{said}");
    }
}

#[tokio::test]
async fn no_other_answer_is_read_without_an_end_either() {
    for (status, is_read) in [(200, false), (404, true), (401, true)] {
        let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n[\"");
        let reply = Reply::Endless(head.into_bytes(), vec![b'x'; CHUNK]);
        let server = Scripted::replying(vec![reply]).await;
        let mut settings = server.settings();
        settings.answer_bytes_max = 1 << 20;
        let client = holm_daytona_client::Client::new(settings).unwrap();
        let error = tokio::time::timeout(BOUND, client.get("one")).await;
        let error = error.unwrap().unwrap_err();
        assert_eq!(error.status().is_some(), is_read, "{error:?}");
        // What is told of it can be read.
        assert!(error.to_string().len() < 10_000);
    }
}
