//! Commands and code that run to their end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, wait_until};

fn execute(server: &TestServer, id: &str, request: Value) -> Answer {
    server.post(&format!("/toolbox/{id}/process/execute"), request)
}

fn output(server: &TestServer, id: &str, command: &str) -> String {
    let answer = execute(server, id, json!({ "command": command })).ok();
    answer["result"].as_str().unwrap().to_owned()
}

fn code(server: &TestServer, id: &str, request: Value) -> Answer {
    server.post(&format!("/toolbox/{id}/process/code-run"), request)
}

#[test]
fn a_command_answers_with_its_output_and_its_exit_code() {
    let server = TestServer::new();
    let id = server.sandbox();
    let answer = execute(
        &server,
        &id,
        json!({ "command": "echo out; echo err >&2; pwd; echo \"$A\"; exit 3", "envs": { "A": "b c" } }),
    )
    .ok();
    assert_eq!(
        answer,
        json!({ "exitCode": 3, "result": "out\nerr\n/home/daytona\nb c\n" })
    );
    // Relative folders begin in the work directory, and a shell is fed line by line.
    output(&server, &id, "mkdir -p a/b");
    let answer = execute(
        &server,
        &id,
        json!({ "command": "pwd\nif then\necho never", "cwd": "a/b" }),
    )
    .ok();
    let result = answer["result"].as_str().unwrap();
    assert!(result.starts_with("/home/daytona/a/b\n"), "{result}");
    assert!(!result.contains("\nnever"), "{result}");
    assert_eq!(answer["exitCode"], 2);
    let answer = execute(&server, &id, json!({ "command": "kill -9 $$" })).ok();
    assert_eq!(answer["exitCode"], 137);
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let server = TestServer::new();
    let id = server.sandbox();
    let refused = |request: Value| execute(&server, &id, request).refused(400);
    assert_eq!(refused(json!({ "command": " " })), "command is required");
    assert_eq!(
        refused(json!({ "command": "true", "envs": { "a-b": "" } })),
        "invalid environment variable name: 'a-b'"
    );
    let missing = refused(json!({ "command": "true", "cwd": "/no/such/folder" }));
    assert!(missing.contains("`/no/such/folder`"), "{missing}");
    let file = refused(json!({ "command": "true", "cwd": "/etc/passwd" }));
    assert!(file.contains("no folder"), "{file}");
    refused(json!({ "command": "true", "timeout": -1 }));
    let unknown = code(&server, &id, json!({ "code": "1", "language": "cobol" })).refused(400);
    assert!(unknown.contains("cobol"), "{unknown}");
}

#[test]
fn a_timeout_kills_the_whole_tree_and_tells_the_end_of_the_output() {
    let server = TestServer::new();
    let id = server.sandbox();
    let begun = Instant::now();
    let answer = execute(
        &server,
        &id,
        json!({
            "command": "echo begun; (setsid sleep 4711 &); bash -c 'sleep 4711; true'",
            "timeout": 1
        }),
    );
    assert_eq!(answer.body["code"], "PROCESS_EXECUTION_TIMEOUT");
    let message = answer.refused(408);
    assert!(message.ends_with("begun\n"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    wait_until("nothing of it runs", || {
        output(&server, &id, "pgrep -c sleep; true") == "0\n"
    });
}

#[test]
fn a_fork_bomb_ends_with_its_timeout() {
    let server = TestServer::new();
    let id = server.sandbox();
    execute(
        &server,
        &id,
        json!({ "command": "b() { b | b & }; b; sleep 60", "timeout": 1 }),
    )
    .refused(408);
    wait_until("there is room again", || {
        execute(&server, &id, json!({ "command": "echo alive" })).body["result"] == "alive\n"
    });
}

#[test]
fn output_is_bounded_and_may_be_any_bytes() {
    let server = TestServer::with(|config| config.limits.output_bytes_max = 100_000);
    let id = server.sandbox();
    let long = output(&server, &id, "yes | head -c 50000000");
    assert_eq!(long.len(), 100_000 + "\n[truncated]\n".len());
    assert!(long.ends_with("y\n\n[truncated]\n"));
    let odd = output(&server, &id, "printf 'a\\377b\\0c\\001\\001\\001'");
    assert_eq!(odd, "a\u{fffd}b\0c\u{1}\u{1}\u{1}");
}

#[test]
fn a_background_process_neither_blocks_the_answer_nor_dies_with_it() {
    let server = TestServer::new();
    let id = server.sandbox();
    let begun = Instant::now();
    assert_eq!(
        output(&server, &id, "sleep 4712 & echo started"),
        "started\n"
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(output(&server, &id, "pgrep -fc '^sleep 4712'"), "1\n");
}

#[test]
fn a_client_that_hangs_up_ends_its_command() {
    let server = TestServer::new();
    let id = server.sandbox();
    let hung_up = server.block_on(async {
        let request = reqwest::Client::new()
            .post(format!("{}/toolbox/{id}/process/execute", server.url))
            .bearer_auth(&server.key)
            .json(&json!({ "command": "sleep 4713" }));
        request.timeout(Duration::from_secs(1)).send().await
    });
    assert!(hung_up.unwrap_err().is_timeout());
    wait_until("the command has ended", || {
        output(&server, &id, "pgrep -fc '^sleep 4713'; true") == "0\n"
    });
}

#[test]
fn python_runs_with_arguments_and_shows_charts() {
    let server = TestServer::new();
    let id = server.sandbox();
    let source = "import sys, os\nprint(sys.argv[1:], os.environ['A'], __name__)\n\
        print('dtn_artifact_k39fd2:{\"type\":\"chart\",\"value\":{\"title\":\"t\",\"elements\":[]}}')\n\
        print('after')";
    let answer = code(
        &server,
        &id,
        json!({ "code": source, "language": "python", "argv": ["x", "y z"], "envs": { "A": "b" } }),
    )
    .ok();
    assert_eq!(
        answer,
        json!({
            "exitCode": 0, "result": "['x', 'y z'] b __main__\nafter\n",
            "artifacts": { "charts": [{ "title": "t", "elements": [] }] },
        })
    );
    let failed = code(
        &server,
        &id,
        json!({ "code": "x = 1\n1/0", "language": "python" }),
    )
    .ok();
    assert_eq!(failed["exitCode"], 1);
    assert_eq!(
        failed["result"],
        "Traceback (most recent call last):\n  File \"<stdin>\", line 2, in <module>\n\
         ZeroDivisionError: division by zero\n"
    );
    assert!(failed.get("artifacts").is_none());
    code(
        &server,
        &id,
        json!({ "code": "while True: pass", "timeout": 1 }),
    )
    .refused(408);
}

#[test]
fn pyplot_is_hooked_when_it_is_imported() {
    let server = TestServer::new();
    let id = server.sandbox();
    // As much of matplotlib as the hook uses for an empty figure.
    output(
        &server,
        &id,
        "mkdir matplotlib && touch matplotlib/__init__.py && cat > matplotlib/pyplot.py <<'END'\n\
         class Figure:\n    axes = []\n    _suptitle = None\n    def savefig(self, file, format): file.write(b'png')\n\
         def get_fignums(): return [1]\n\
         def figure(number): return Figure()\n\
         def close(what): pass\n\
         def show(): raise SystemExit('not hooked')\n\
         END",
    );
    let answer = code(
        &server,
        &id,
        json!({ "code": "import matplotlib.pyplot as plt\nplt.show()" }),
    )
    .ok();
    assert_eq!(answer["exitCode"], 0, "{answer}");
    assert_eq!(
        answer["artifacts"]["charts"],
        json!([{ "type": "composite_chart", "title": "", "elements": [], "png": "cG5n" }])
    );
}

#[test]
fn the_scripts_of_other_languages_run_or_say_what_is_missing() {
    let server = TestServer::new();
    let id = server.sandbox_from(json!({ "labels": { "code-toolbox-language": "javascript" } }));
    let answer = code(
        &server,
        &id,
        json!({ "code": "console.log(process.argv.length)", "argv": ["a"] }),
    )
    .ok();
    // Where the host has no Node, the sandbox has none.
    let said = answer["result"].as_str().unwrap();
    assert!(said == "3\n" || said.contains("needs `node`"), "{answer}");
    let answer = code(
        &server,
        &id,
        json!({ "code": "const x: number = 5; console.log(x)", "language": "typescript" }),
    )
    .ok();
    let said = answer["result"].as_str().unwrap();
    assert!(said == "5\n" || said.contains("npm install"), "{answer}");
    assert_eq!(
        output(&server, &id, "ls -A *.ts 2>/dev/null | wc -l"),
        "0\n"
    );
}
