//! WebSockets that end as they should, and otherwise.

use std::time::Duration;

use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::log::{Piece, Stream};
use holm_daytona_client::{Client, ClientError, NewTerminal, TerminalEvent, TextDecoder, Toolbox};
use serde_json::json;

use crate::scripted::{Frame, KEY, Reply, Scripted};

const EXIT_CONTROL: &str = "X-Daytona-Pty-Exit-Control";

fn stdout(bytes: &[u8]) -> Frame {
    Frame::Binary([b"\x01\x01\x01", bytes].concat())
}

/// All pieces, and how it ended.
async fn follow(toolbox: &Toolbox) -> (Vec<Piece>, Result<(), ClientError>) {
    let mut log = toolbox.sessions().follow("s", "c").await.unwrap();
    let mut pieces = Vec::new();
    loop {
        match log.next().await {
            Ok(Some(piece)) => pieces.push(piece),
            Ok(None) => return (pieces, Ok(())),
            Err(error) => {
                // Nothing comes after it.
                assert_eq!(log.next().await.unwrap(), None);
                return (pieces, Err(error));
            }
        }
    }
}

async fn followed(frames: Vec<Frame>) -> (Vec<Piece>, Result<(), ClientError>) {
    let server = Scripted::replying(vec![Reply::Socket(None, frames)]).await;
    let outcome = follow(&server.toolbox().await).await;
    let seen = server.seen();
    assert_eq!(
        seen[0].line(),
        "GET /toolbox/box/process/session/s/command/c/logs?follow=true"
    );
    assert_eq!(
        seen[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(seen[0].header("x-daytona-sdk-version"), Some("0.205.1"));
    outcome
}

fn text(pieces: &[Piece]) -> String {
    let mut decoder = TextDecoder::default();
    let mut text = String::new();
    for piece in pieces {
        assert_eq!(piece.stream, Stream::Stdout);
        text.push_str(&decoder.push(&piece.bytes));
    }
    text + &decoder.finish()
}

#[tokio::test]
async fn a_log_is_whole_when_the_server_says_goodbye() {
    let crab = "🦀".as_bytes();
    let frames = vec![
        stdout(&crab[..1]),
        // A marker and a character, each in two frames.
        Frame::Binary([&crab[1..], b"\x02\x02"].concat()),
        Frame::Binary(b"\x02err\x01\x01\x01out".to_vec()),
        Frame::Close(1000, ""),
    ];
    let (pieces, end) = followed(frames).await;
    end.unwrap();
    let of = |stream| -> Vec<u8> {
        let pieces = pieces.iter().filter(|piece| piece.stream == stream);
        pieces.flat_map(|piece| piece.bytes.clone()).collect()
    };
    assert_eq!(of(Stream::Stdout), "🦀out".as_bytes());
    assert_eq!(of(Stream::Stderr), b"err");
}

#[tokio::test]
async fn a_log_that_breaks_off_in_a_character_gives_what_came_and_says_so() {
    let crab = "a🦀".as_bytes();
    for end in [Frame::Reset, Frame::Close(1011, "the daemon died")] {
        let (pieces, outcome) = followed(vec![stdout(&crab[..3]), end]).await;
        assert_eq!(text(&pieces), "a\u{fffd}");
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, ClientError::Interrupted { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn what_may_be_half_a_marker_is_held_back_when_it_breaks_off() {
    let (pieces, outcome) = followed(vec![stdout(b"a\x02\x02"), Frame::Reset]).await;
    assert!(outcome.is_err());
    // Whoever follows again hears it once, and knows what it was.
    assert_eq!(text(&pieces), "a");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed() {
    let frames = vec![stdout(b"a"), Frame::Silence];
    let server = Scripted::replying(vec![Reply::Socket(None, frames)]).await;
    let mut settings = server.settings();
    settings.deadlines.socket_silence = Duration::from_millis(150);
    let toolbox = server.toolbox_of(&Client::new(settings).unwrap()).await;
    let (pieces, outcome) = follow(&toolbox).await;
    assert_eq!(text(&pieces), "a");
    assert!(outcome.is_err());
}

#[tokio::test]
async fn following_is_tried_again_and_refusals_are_told() {
    let frames = vec![stdout(b"a"), Frame::Close(1000, "")];
    let replies = vec![
        Reply::status(502),
        Reply::reset(),
        Reply::Socket(None, frames),
    ];
    let server = Scripted::replying(replies).await;
    let (pieces, end) = follow(&server.toolbox().await).await;
    end.unwrap();
    assert_eq!(text(&pieces), "a");

    let gone =
        json!({ "message": "session not found", "code": "NOT_FOUND", "source": "DAYTONA_DAEMON" });
    let server = Scripted::replying(vec![Reply::Json(404, gone)]).await;
    let error = server.toolbox().await.sessions().follow("s", "c").await;
    let error = error.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
}

fn new_terminal() -> NewTerminal {
    NewTerminal {
        id: "t 1".to_owned(),
        columns: 80,
        rows: 24,
        cwd: Some("/tmp".to_owned()),
        envs: StringMap::from([("TOKEN".to_owned(), "hush".to_owned())]),
    }
}

fn control(fields: &str) -> Frame {
    Frame::Text(format!("{{\"type\":\"control\",{fields}}}"))
}

async fn events(frames: Vec<Frame>) -> Vec<Result<TerminalEvent, ClientError>> {
    let server = Scripted::replying(vec![Reply::Socket(Some(EXIT_CONTROL), frames)]).await;
    let toolbox = server.toolbox().await;
    let mut terminal = toolbox.terminals().create(&new_terminal()).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = terminal.next().await.transpose() {
        events.push(event);
    }
    let seen = server.seen();
    assert_eq!(
        seen[0].line(),
        "GET /toolbox/box/process/pty/create-connect?id=t+1&cols=80&rows=24&cwd=%2Ftmp"
    );
    let offered = seen[0].header("sec-websocket-protocol").unwrap();
    assert!(offered.starts_with("X-Daytona-Pty-Exit-Control, X-Daytona-Pty-Envs~"));
    events
}

#[tokio::test]
async fn a_terminal_tells_its_output_and_its_end() {
    let connected = || control("\"status\":\"connected\"");
    let output = || Frame::Binary(b"$ ".to_vec());
    let exited = || control("\"status\":\"exited\",\"exitCode\":3,\"exitReason\":\"bye\"");
    for (frames, code) in [
        (
            vec![connected(), output(), exited(), Frame::Close(1011, "")],
            3,
        ),
        // Without the control frame the goodbye says it.
        (
            vec![
                connected(),
                output(),
                Frame::Close(1011, "{\"exitCode\":4}"),
            ],
            4,
        ),
        (vec![connected(), output(), Frame::Close(1000, "")], 0),
    ] {
        let events = events(frames).await;
        let [
            Ok(TerminalEvent::Output(output)),
            Ok(TerminalEvent::Exited(exit)),
        ] = events.as_slice()
        else {
            panic!("{events:?}");
        };
        assert_eq!(output.as_ref(), b"$ ");
        assert_eq!(exit.exit_code, code);
    }
}

#[tokio::test]
async fn a_terminal_that_is_cut_off_has_not_exited() {
    for end in [Frame::Reset, Frame::Close(1008, "too slow")] {
        let events = events(vec![control("\"status\":\"connected\""), end]).await;
        let [Err(error)] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert!(
            matches!(error, ClientError::Interrupted { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_terminal_that_cannot_be_had_is_told_and_not_made_twice() {
    let frames = vec![control("\"status\":\"error\",\"error\":\"no shell\"")];
    let replies = vec![
        Reply::Socket(Some(EXIT_CONTROL), frames),
        Reply::status(409),
        Reply::reset(),
    ];
    let server = Scripted::replying(replies).await;
    let toolbox = server.toolbox().await;
    let create = async || {
        toolbox
            .terminals()
            .create(&new_terminal())
            .await
            .unwrap_err()
    };
    assert_eq!(
        create().await.to_string(),
        "could not create terminal `t 1` in sandbox `box`: no shell"
    );
    assert!(create().await.is_conflict());
    assert!(create().await.may_have_happened());
    assert_eq!(server.seen().len(), 3);
}
