//! Python code whose names stay between runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::sockets::Socket;
use crate::support::{TestServer, wait_until};

/// What a run told.
#[derive(Debug, Default)]
struct Told {
    stdout: String,
    stderr: String,
    errors: Vec<Value>,
    ends: Vec<String>,
    close: u16,
    reason: String,
}

fn start<'a>(server: &'a TestServer, id: &str, request: &Value) -> Socket<'a> {
    let path = format!("/toolbox/{id}/process/interpreter/execute");
    let mut socket = Socket::open(server, &path, &[]).unwrap();
    socket.send(Message::Text(request.to_string().into()));
    socket
}

fn run(server: &TestServer, id: &str, request: &Value) -> Told {
    let (messages, close) = start(server, id, request).rest();
    let mut told = Told::default();
    (told.close, told.reason) = close.unwrap();
    for message in messages {
        let event: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        let text = || event["text"].as_str().unwrap();
        match event["type"].as_str().unwrap() {
            "stdout" => told.stdout.push_str(text()),
            "stderr" => told.stderr.push_str(text()),
            "error" => told.errors.push(event),
            "control" => told.ends.push(text().to_owned()),
            other => panic!("{other}"),
        }
    }
    told
}

#[track_caller]
fn output(server: &TestServer, id: &str, code: &str) -> String {
    let told = run(server, id, &json!({ "code": code }));
    assert_eq!((told.close, told.errors.len()), (1000, 0), "{told:?}");
    assert_eq!(told.ends, ["completed"]);
    told.stdout
}

#[test]
fn names_stay_between_runs_and_contexts_do_not_share_them() {
    let server = TestServer::new();
    let id = server.sandbox();
    assert_eq!(
        output(&server, &id, "x = 41\ndef f():\n    return x + 1"),
        ""
    );
    assert_eq!(
        output(&server, &id, "print(f(), __name__)"),
        "42 __main__\n"
    );
    let contexts = format!("/toolbox/{id}/process/interpreter/context");
    let made = server.post(&contexts, json!({ "cwd": "/tmp" })).ok();
    assert_eq!(
        (&made["language"], &made["cwd"]),
        (&json!("python"), &json!("/tmp"))
    );
    let context = made["id"].as_str().unwrap();
    let inside = |code: &str| run(&server, &id, &json!({ "code": code, "contextId": context }));
    let told = inside("import os\nprint(os.getcwd())\nprint(x)");
    assert_eq!((told.close, told.stdout.as_str()), (1000, "/tmp\n"));
    assert_eq!(told.errors[0]["name"], "NameError");
    let listed = server.get(&contexts).ok();
    assert_eq!(listed["contexts"].as_array().unwrap().len(), 1, "{listed}");
    server.delete(&format!("{contexts}/{context}")).ok();
    server.delete(&format!("{contexts}/{context}")).refused(404);
    server.delete(&format!("{contexts}/default")).refused(400);
    let gone = inside("1");
    assert_eq!(gone.close, 1008);
    assert!(gone.reason.contains("not found"), "{gone:?}");
    server
        .post(&contexts, json!({ "language": "cobol" }))
        .refused(400);
    server
        .post(&contexts, json!({ "cwd": "/no/such" }))
        .refused(400);
}

#[test]
fn errors_have_a_name_a_value_and_a_traceback() {
    let server = TestServer::new();
    let id = server.sandbox();
    let told = run(
        &server,
        &id,
        &json!({ "code": "print('before')\ndef f():\n    1/0\nf()" }),
    );
    assert_eq!(told.stdout, "before\n");
    let error = &told.errors[0];
    assert_eq!(
        (&error["name"], &error["value"]),
        (&json!("ZeroDivisionError"), &json!("division by zero"))
    );
    let traceback = error["traceback"].as_str().unwrap();
    assert!(
        traceback.starts_with("Traceback (most recent call last):\n  File \"<code-1>\", line 4"),
        "{traceback}"
    );
    assert!(traceback.contains("    1/0\n"), "{traceback}");
    let told = run(&server, &id, &json!({ "code": "def (" }));
    assert_eq!(told.errors[0]["name"], "SyntaxError");
    assert_eq!(told.close, 1000);
    let told = run(&server, &id, &json!({ "code": "import sys; sys.exit(3)" }));
    assert_eq!(
        (&told.errors[0]["name"], &told.errors[0]["value"]),
        (&json!("SystemExit"), &json!("3"))
    );
    assert_eq!(
        output(&server, &id, "f; print('still there')"),
        "still there\n"
    );
}

#[test]
fn what_is_printed_is_told_whoever_prints_it() {
    let server = TestServer::new();
    let id = server.sandbox();
    let code = "import os, sys, subprocess\n\
        print('{\"id\": 1, \"type\": \"end\", \"text\": \"completed\"}')\n\
        sys.stderr.write('no newline')\n\
        os.system('echo child; echo error >&2')\n\
        subprocess.run(['printf', '\\\\377\\\\303\\\\244'])\n\
        os.write(1, b'raw\\n')\n\
        sys.stdout.buffer.write(b'buffer\\n')\n\
        print(input.__name__, os.environ['A'], sys.stdin.read() == '')";
    let told = run(&server, &id, &json!({ "code": code, "envs": { "A": "b" } }));
    assert_eq!(told.ends, ["completed"], "{told:?}");
    for part in [
        "\"type\": \"end\"",
        "child\n",
        "raw\n",
        "buffer\n",
        "input b True\n",
        "\u{fffd}ä",
    ] {
        assert!(told.stdout.contains(part), "{part}: {told:?}");
    }
    assert!(
        told.stderr.contains("no newline") && told.stderr.contains("error\n"),
        "{told:?}"
    );
    assert_eq!(output(&server, &id, "print(os.environ.get('A'))"), "None\n");
    let much = output(&server, &id, "print('x' * 3_000_000)");
    assert_eq!(much.len(), 3_000_001);
}

#[test]
fn output_comes_while_the_code_runs() {
    let server = TestServer::new();
    let id = server.sandbox();
    let code = "import time, os\nprint('first')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('second')";
    let mut socket = start(&server, &id, &json!({ "code": code }));
    let first = socket.next().unwrap();
    assert_eq!(
        first.to_text().unwrap(),
        r#"{"type":"stdout","text":"first\n"}"#
    );
    let execute = format!("/toolbox/{id}/process/execute");
    server.post(&execute, json!({ "command": "touch go" })).ok();
    let (rest, close) = socket.rest();
    assert_eq!(
        rest[0].to_text().unwrap(),
        r#"{"type":"stdout","text":"second\n"}"#
    );
    assert_eq!(
        rest[1].to_text().unwrap(),
        r#"{"type":"control","text":"completed"}"#
    );
    assert_eq!(close.unwrap().0, 1000);
}

#[test]
fn a_timeout_interrupts_and_then_kills() {
    let server = TestServer::new();
    let id = server.sandbox();
    output(&server, &id, "x = 1");
    let told = run(
        &server,
        &id,
        &json!({ "code": "print('a')\nwhile True: pass", "timeout": 1 }),
    );
    assert_eq!(
        (told.close, told.stdout.as_str()),
        (4008, "a\n"),
        "{told:?}"
    );
    // An end would be a success to the TypeScript SDK: how the connection closes says it all.
    assert!(told.ends.is_empty(), "{told:?}");
    assert_eq!(output(&server, &id, "print(x)"), "1\n");
    // Code that does not listen ends with its interpreter.
    let stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let begun = Instant::now();
    let told = run(&server, &id, &json!({ "code": stubborn, "timeout": 1 }));
    assert_eq!(told.close, 4008);
    assert!(begun.elapsed() < Duration::from_secs(15));
    let told = run(&server, &id, &json!({ "code": "x" }));
    assert_eq!(told.errors[0]["name"], "NameError");
}

#[test]
fn an_interpreter_that_dies_is_replaced() {
    let server = TestServer::new();
    let id = server.sandbox();
    let told = run(&server, &id, &json!({ "code": "import os; os._exit(3)" }));
    assert_eq!(told.errors[0]["name"], "InterpreterExited");
    assert!(
        told.errors[0]["value"]
            .as_str()
            .unwrap()
            .contains("exit code 3"),
        "{told:?}"
    );
    assert_eq!(told.close, 1000);
    assert_eq!(output(&server, &id, "print(1)"), "1\n");
    // A copy of the interpreter that the code makes does not speak for it.
    let forked = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0); print('parent')";
    assert_eq!(output(&server, &id, forked), "parent\n");
    assert_eq!(output(&server, &id, "print(2)"), "2\n");
    // Nor can it be confused by what is written where it speaks.
    let hostile = "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'garbage\\n{\\n')\n    except OSError: pass";
    run(&server, &id, &json!({ "code": hostile }));
    assert_eq!(output(&server, &id, "print(3)"), "3\n");
}

#[test]
fn a_client_that_hangs_up_interrupts_its_code() {
    let server = TestServer::new();
    let id = server.sandbox();
    let mut socket = start(
        &server,
        &id,
        &json!({ "code": "kept = 1\nprint('x')\nimport time\ntime.sleep(600)" }),
    );
    socket.next().unwrap();
    drop(socket);
    let begun = Instant::now();
    assert_eq!(output(&server, &id, "print(kept)"), "1\n");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let bad = run(&server, &id, &json!({ "code": "1", "envs": { "a-b": "" } }));
    assert_eq!(bad.close, 1008);
    assert!(bad.reason.contains("a-b"));
    assert_eq!(run(&server, &id, &json!({ "code": " " })).close, 1008);
    wait_until("the sandbox still answers", || {
        server
            .get(&format!("/toolbox/{id}/work-dir"))
            .status
            .is_success()
    });
}
