//! Commands, sessions and terminals.

use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::log::Stream;
use holm_daytona_client::wire::process::{CodeRunRequest, ExecuteRequest};
use holm_daytona_client::{
    Deletion, FollowedLog, InputEcho, NewTerminal, Terminal, TerminalEvent, TextDecoder,
};

use super::{PATIENCE, with_toolbox};

#[test]
fn a_command_runs_with_its_folder_and_its_environment() {
    with_toolbox(async |toolbox| {
        let request = ExecuteRequest {
            command: "pwd; echo $WORD; echo err >&2; exit 3".to_owned(),
            cwd: Some("/tmp".to_owned()),
            envs: StringMap::from([("WORD".to_owned(), "it's \"so\"".to_owned())]),
            timeout: Some(30),
        };
        let done = toolbox.process().execute(&request).await.unwrap();
        assert_eq!(done.exit_code, 3);
        assert_eq!(done.result, "/tmp\nit's \"so\"\nerr\n");
        let code = CodeRunRequest {
            code: "print(6 * 7)".to_owned(),
            language: "python".to_owned(),
            timeout: Some(30),
            ..CodeRunRequest::default()
        };
        let done = toolbox.process().run_code(&code).await.unwrap();
        assert_eq!(done.result.trim(), "42");
        assert_eq!(toolbox.work_dir().await.unwrap(), "/home/daytona");
        assert!(toolbox.metrics().await.unwrap().mem_total > 0);
    });
}

#[test]
fn a_session_keeps_its_state_and_tells_both_outputs_apart() {
    with_toolbox(async |toolbox| {
        let sessions = toolbox.sessions();
        sessions.create("s").await.unwrap();
        assert!(sessions.create("s").await.unwrap_err().is_conflict());
        sessions.execute("s", "cd /tmp", PATIENCE).await.unwrap();
        let command = "pwd; echo err >&2; (exit 4)";
        let done = sessions.execute("s", command, PATIENCE).await.unwrap();
        assert_eq!(done.stdout.as_deref(), Some("/tmp\n"));
        assert_eq!(done.stderr.as_deref(), Some("err\n"));
        assert_eq!(done.exit_code, Some(4));
        let seen = sessions.command("s", &done.cmd_id).await.unwrap();
        assert_eq!(seen.exit_code, Some(4));
        let logs = sessions.logs("s", &done.cmd_id).await.unwrap();
        assert_eq!(
            (logs.stdout.as_str(), logs.stderr.as_str()),
            ("/tmp\n", "err\n")
        );
        assert_eq!(sessions.get("s").await.unwrap().commands.len(), 2);
        assert!(
            sessions
                .list()
                .await
                .unwrap()
                .iter()
                .any(|session| session.session_id == "s")
        );
        assert_eq!(sessions.delete("s").await.unwrap(), Deletion::Accepted);
        assert_eq!(sessions.delete("s").await.unwrap(), Deletion::AlreadyGone);
    });
}

/// Reads until both outputs together hold this; gives stdout and stderr.
async fn until(log: &mut FollowedLog, wanted: &str) -> (String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    let (mut out_decoder, mut err_decoder) = (TextDecoder::default(), TextDecoder::default());
    while !out.contains(wanted) && !err.contains(wanted) {
        let piece = log.next().await.unwrap();
        let Some(piece) = piece else { break };
        match piece.stream {
            Stream::Stdout => out.push_str(&out_decoder.push(&piece.bytes)),
            Stream::Stderr => err.push_str(&err_decoder.push(&piece.bytes)),
        }
    }
    (out, err)
}

#[test]
fn a_command_is_followed_and_spoken_to_until_it_ends() {
    with_toolbox(async |toolbox| {
        let sessions = toolbox.sessions();
        sessions.create("s").await.unwrap();
        let command = "echo ready; read word; echo \"got $word\"; echo err >&2; (exit 5)";
        let id = sessions.spawn("s", command, InputEcho::Suppressed).await;
        let id = id.unwrap();
        let mut log = sessions.follow("s", &id).await.unwrap();
        assert_eq!(until(&mut log, "ready\n").await.0, "ready\n");
        assert_eq!(sessions.command("s", &id).await.unwrap().exit_code, None);
        sessions.input("s", &id, "🦀").await.unwrap();
        let (out, err) = until(&mut log, "never").await;
        assert_eq!((out.as_str(), err.as_str()), ("got 🦀\n", "err\n"));
        assert_eq!(sessions.command("s", &id).await.unwrap().exit_code, Some(5));
        // Once more, from the beginning, after the end.
        let mut log = sessions.follow("s", &id).await.unwrap();
        let (out, _) = until(&mut log, "never").await;
        assert_eq!(out, "ready\ngot 🦀\n");
    });
}

#[test]
fn large_output_comes_through_whole() {
    with_toolbox(async |toolbox| {
        let sessions = toolbox.sessions();
        sessions.create("s").await.unwrap();
        let command = "head -c 20000000 /dev/zero | tr '\\0' x";
        let id = sessions
            .spawn("s", command, InputEcho::Shown)
            .await
            .unwrap();
        let mut log = sessions.follow("s", &id).await.unwrap();
        let mut count = 0;
        while let Some(piece) = log.next().await.unwrap() {
            assert_eq!(piece.stream, Stream::Stdout);
            count += piece.bytes.len();
        }
        assert_eq!(count, 20_000_000);
    });
}

#[test]
fn deleting_a_session_ends_what_runs_in_it() {
    with_toolbox(async |toolbox| {
        let sessions = toolbox.sessions();
        sessions.create("s").await.unwrap();
        let command = "echo ready; sleep 1234";
        let id = sessions
            .spawn("s", command, InputEcho::Shown)
            .await
            .unwrap();
        let mut log = sessions.follow("s", &id).await.unwrap();
        until(&mut log, "ready").await;
        sessions.delete("s").await.unwrap();
        let request = ExecuteRequest {
            command:
                "for i in $(seq 100); do pgrep -f 'sleep 123[4]' || exit 0; sleep 0.1; done; exit 1"
                    .to_owned(),
            timeout: Some(30),
            ..ExecuteRequest::default()
        };
        let done = toolbox.process().execute(&request).await.unwrap();
        assert_eq!(done.exit_code, 0, "{}", done.result);
    });
}

async fn shown(terminal: &mut Terminal, wanted: &str) -> String {
    let mut all = String::new();
    while !all.contains(wanted) {
        match terminal.next().await.unwrap() {
            Some(TerminalEvent::Output(bytes)) => all.push_str(&String::from_utf8_lossy(&bytes)),
            other => panic!("{other:?} after {all}"),
        }
    }
    all
}

/// How it ended, whatever is shown before.
async fn exit_code(terminal: &mut Terminal) -> i32 {
    loop {
        match terminal.next().await.unwrap() {
            Some(TerminalEvent::Output(_)) => {}
            Some(TerminalEvent::Exited(exit)) => return exit.exit_code,
            None => panic!("no exit was told"),
        }
    }
}

#[test]
fn a_terminal_is_typed_into_resized_left_and_ended() {
    with_toolbox(async |toolbox| {
        let terminals = toolbox.terminals();
        let new = NewTerminal {
            id: "t".to_owned(),
            columns: 100,
            rows: 30,
            cwd: Some("/tmp".to_owned()),
            envs: StringMap::from([("WORD".to_owned(), "hello".to_owned())]),
        };
        let mut terminal = terminals.create(&new).await.unwrap();
        assert!(terminals.create(&new).await.unwrap_err().is_conflict());
        terminal
            .send(b"echo \"<$WORD>\" $(pwd) $(tput cols || stty size)\n")
            .await
            .unwrap();
        shown(&mut terminal, "<hello> /tmp").await;
        let resized = terminals.resize("t", 60, 20).await.unwrap();
        assert_eq!((resized.cols, resized.rows), (60, 20));
        terminal.send(b"stty size\n").await.unwrap();
        shown(&mut terminal, "20 60").await;
        // Left and come back to.
        drop(terminal);
        assert_eq!(terminals.list().await.unwrap().len(), 1);
        assert_eq!(terminals.get("t").await.unwrap().id, "t");
        let mut terminal = terminals.connect("t").await.unwrap();
        let input = terminal.input();
        input.send(b"exit 7\n").await.unwrap();
        assert_eq!(exit_code(&mut terminal).await, 7);
        assert_eq!(terminal.next().await.unwrap(), None);
        assert_eq!(terminals.kill("t").await.unwrap(), Deletion::AlreadyGone);

        let mut terminal = terminals.create(&new).await.unwrap();
        assert_eq!(terminals.kill("t").await.unwrap(), Deletion::Accepted);
        assert_eq!(exit_code(&mut terminal).await, 137);
    });
}
