//! Shells that live on between commands.

use std::time::{Duration, Instant};

use holm_daytona_wire::log::split_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::sockets::{Socket, VERSION};
use crate::support::{Answer, TestServer, wait_until};

/// A session of a sandbox, used as the newest SDK uses it.
struct Shell<'a> {
    server: &'a TestServer,
    path: String,
}

impl<'a> Shell<'a> {
    fn new(server: &'a TestServer, sandbox: &str) -> Self {
        Self::named(server, sandbox, "s1")
    }

    fn named(server: &'a TestServer, sandbox: &str, name: &str) -> Self {
        let sessions = format!("/toolbox/{sandbox}/process/session");
        let made = server.post(&sessions, json!({ "sessionId": name }));
        assert_eq!(made.status, 201, "{made:?}");
        Self::again(server, sandbox, name)
    }

    fn again(server: &'a TestServer, sandbox: &str, name: &str) -> Self {
        let path = format!("/toolbox/{sandbox}/process/session/{name}");
        Self { server, path }
    }

    fn ask(
        &self,
        method: Method,
        rest: &str,
        body: Option<Value>,
        version: Option<&str>,
    ) -> Answer {
        self.server.block_on(async {
            let url = format!("{}{}{rest}", self.server.url, self.path);
            let mut request = reqwest::Client::new().request(method, url);
            request = request.bearer_auth(&self.server.key);
            if let Some(version) = version {
                request = request.header(VERSION.0, version);
            }
            if let Some(body) = body {
                request = request.json(&body);
            }
            let response = request.send().await.unwrap();
            let status = response.status();
            let text = response.text().await.unwrap();
            let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
            Answer { status, body }
        })
    }

    fn exec(&self, request: Value) -> Answer {
        self.ask(Method::POST, "/exec", Some(request), Some(VERSION.1))
    }

    /// Runs a command to its end and gives its outputs and its exit code.
    #[track_caller]
    fn run(&self, command: &str) -> (String, String, i64) {
        let answer = self.exec(json!({ "command": command })).ok();
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        (
            text("stdout"),
            text("stderr"),
            answer["exitCode"].as_i64().unwrap(),
        )
    }

    #[track_caller]
    fn start(&self, command: &str) -> String {
        let answer = self.exec(json!({ "command": command, "runAsync": true }));
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.body.as_object().unwrap().len(), 1);
        answer.body["cmdId"].as_str().unwrap().to_owned()
    }

    fn get(&self, rest: &str) -> Answer {
        self.ask(Method::GET, rest, None, Some(VERSION.1))
    }

    fn stdout(&self, command: &str) -> String {
        let logs = self.get(&format!("/command/{command}/logs")).ok();
        logs["stdout"].as_str().unwrap().to_owned()
    }

    fn exit_code(&self, command: &str) -> Option<i64> {
        self.get(&format!("/command/{command}")).ok()["exitCode"].as_i64()
    }

    fn input(&self, command: &str, data: &str) -> Answer {
        let rest = format!("/command/{command}/input");
        self.ask(Method::POST, &rest, Some(json!({ "data": data })), None)
    }

    fn follow(&self, command: &str) -> Socket<'a> {
        let path = format!("{}/command/{command}/logs?follow=true", self.path);
        Socket::open(self.server, &path, &[VERSION]).unwrap()
    }

    fn delete(&self) -> Answer {
        self.ask(Method::DELETE, "", None, None)
    }
}

/// What a follower heard: the two outputs, after a proper end.
#[track_caller]
fn heard(socket: Socket<'_>) -> (Vec<u8>, Vec<u8>) {
    let (messages, close) = socket.rest();
    assert_eq!(close, Some((1000, String::new())));
    for message in &messages {
        assert!(message.is_binary(), "{message:?}");
        let first = message.clone().into_data();
        assert!(matches!(&first[..3], [1, 1, 1] | [2, 2, 2]), "{first:?}");
    }
    let log: Vec<u8> = messages
        .into_iter()
        .flat_map(|message| message.into_data().to_vec())
        .collect();
    split_all(&log)
}

fn text((stdout, stderr): (Vec<u8>, Vec<u8>)) -> (String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr))
}

#[test]
fn a_session_keeps_its_folder_and_its_variables() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    assert_eq!(shell.run("pwd").0, "/home/daytona\n");
    assert_eq!(
        shell.run("cd /tmp; export A=b; f() { echo f$A; }; cat").2,
        0
    );
    assert_eq!(shell.run("pwd; f; echo err >&2; false").0, "/tmp\nfb\n");
    let (stdout, stderr, code) = shell.run("f; echo err >&2; false");
    assert_eq!(
        (stdout.as_str(), stderr.as_str(), code),
        ("fb\n", "err\n", 1)
    );
    // An own folder and an own environment are for one command only.
    let answer = shell
        .exec(
            json!({ "command": "pwd; echo $A; cd /; A=z", "cwd": "/etc", "envs": { "A": "it's" } }),
        )
        .ok();
    assert_eq!(answer["stdout"], "/etc\nit's\n");
    assert_eq!(shell.run("pwd; echo $A").0, "/tmp\nb\n");
    let missing = shell.exec(json!({ "command": "pwd", "cwd": "/no" })).ok();
    assert_eq!(
        (&missing["exitCode"], &missing["stdout"]),
        (&json!(1), &json!(""))
    );
    let shown = shell.get("").ok();
    assert_eq!(shown["sessionId"], "s1");
    assert_eq!(shown["commands"][0]["command"], "pwd");
    assert_eq!(shown["commands"].as_array().unwrap().len(), 7);
    assert_eq!(shell.delete().status, 204);
    shell.get("").refused(404);
    assert_eq!(shell.delete().refused(404), "session not found");
}

#[test]
fn names_are_checked_and_unique() {
    let server = TestServer::with(|config| config.limits.sessions_max = 2);
    let id = server.sandbox();
    let sessions = format!("/toolbox/{id}/process/session");
    let create = |name: &str| server.post(&sessions, json!({ "sessionId": name }));
    let long = "x".repeat(300);
    for name in ["", "../x", "a/b", "..", "a\nb", "entrypoint", &long] {
        create(name).refused(400);
    }
    assert_eq!(create("odd: näme").status, 201);
    create("odd: näme").refused(409);
    let shell = Shell::again(&server, &id, "odd:%20n%C3%A4me");
    assert_eq!(shell.run("echo works").0, "works\n");
    assert_eq!(create("second").status, 201);
    create("third").refused(429);
    assert_eq!(server.get(&sessions).ok().as_array().unwrap().len(), 2);
    server.get(&format!("{sessions}/entrypoint")).refused(404);
    server
        .get(&format!("{sessions}/entrypoint/logs"))
        .refused(404);
    let unknown = shell.get("/command/nothing/logs").refused(404);
    assert_eq!(unknown, "command not found");
}

#[test]
fn mistakes_in_a_command_do_not_end_its_session() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    for (wrong, code) in [
        ("if then fi (", 2),
        ("echo 'open", 2),
        ("}", 2),
        ("no-such-program", 127),
        (". /no/such/file", 1),
        ("return 7", 7),
        ("(exit 9)", 9),
        ("kill -9 $BASHPID & wait $!; true", 0),
    ] {
        let (_, stderr, found) = shell.run(wrong);
        assert_eq!(found, code, "{wrong}: {stderr}");
    }
    shell.exec(json!({ "command": "" })).refused(400);
    assert_eq!(shell.run("cat <<END\n$((1 + 1))\nEND").0, "2\n");
}

#[test]
fn exit_ends_the_session_with_its_code() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    assert_eq!(
        shell.run("echo last; exit 3"),
        ("last\n".into(), String::new(), 3)
    );
    let answer = shell.exec(json!({ "command": "echo more" }));
    assert_eq!(answer.body["code"], "SESSION_ENDED");
    answer.refused(410);
    let killed = Shell::named(&server, &id, "s2");
    assert_eq!(
        killed.run("echo out; kill -9 $$"),
        ("out\n".into(), String::new(), 137)
    );
    killed.exec(json!({ "command": "true" })).refused(410);
    // What waited for its turn is told the same.
    let busy = Shell::named(&server, &id, "s3");
    busy.start("sleep 1; exit 4");
    busy.exec(json!({ "command": "echo never" })).refused(410);
}

#[test]
fn commands_run_one_after_the_other() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    for number in 0..100 {
        assert_eq!(
            shell.run(&format!("echo {number}")).0,
            format!("{number}\n")
        );
    }
    // At the same time: each sees what the one before it left, and none overlaps another.
    shell.run("n=0");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let path = format!("{}{}/exec", server.url, shell.path);
                let command = "m=$n; sleep 0.05; n=$((m + 1)); echo $n";
                let body = json!({ "command": command }).to_string();
                let key = format!("Authorization: Bearer {}", server.key);
                let done = std::process::Command::new("curl")
                    .args(["-sf", "-H", &key, "-H", "Content-Type: application/json"])
                    .args(["-d", &body, &path])
                    .output()
                    .unwrap();
                assert!(done.status.success());
            });
        }
    });
    assert_eq!(shell.run("echo $n").0, "8\n");
}

#[test]
fn older_clients_get_what_they_know() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let request = json!({ "command": "echo out; sleep 0.1; echo err >&2" });
    let exec = |version| {
        shell
            .ask(Method::POST, "/exec", Some(request.clone()), version)
            .ok()
    };
    let newest = exec(Some("0.226.1"));
    let marked = "\u{1}\u{1}\u{1}out\n\u{2}\u{2}\u{2}err\n";
    assert_eq!(
        newest,
        json!({
            "cmdId": newest["cmdId"], "exitCode": 0, "output": marked, "stdout": "out\n", "stderr": "err\n"
        })
    );
    let older = exec(Some("0.155.0"));
    assert_eq!(older["output"], marked);
    assert!(older.get("stdout").is_none());
    assert_eq!(exec(Some("0.20.0"))["output"], "out\nerr\n");
    assert_eq!(exec(None)["output"], "out\nerr\n");
    let logs = format!("/command/{}/logs", newest["cmdId"].as_str().unwrap());
    let logs = |version| shell.ask(Method::GET, &logs, None, version).ok();
    assert_eq!(
        logs(Some("0.226.1")),
        json!({ "output": marked, "stdout": "out\n", "stderr": "err\n" })
    );
    assert_eq!(logs(Some("0.155.0")), marked);
    assert_eq!(logs(None), "out\nerr\n");
}

#[test]
fn followers_hear_everything_and_end_with_the_command() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell
        .start("for i in 1 2 3; do echo o$i; echo e$i >&2; sleep 0.1; done; read x; echo got $x");
    let (first, second) = (shell.follow(&command), shell.follow(&command));
    wait_until("it reads", || shell.stdout(&command).contains("o3"));
    assert_eq!(shell.exit_code(&command), None);
    assert_eq!(shell.input(&command, "hello").status, 204);
    let expected = (
        "o1\no2\no3\nhello\ngot hello\n".to_owned(),
        "e1\ne2\ne3\n".to_owned(),
    );
    assert_eq!(text(heard(first)), expected);
    assert_eq!(text(heard(second)), expected);
    assert_eq!(shell.exit_code(&command), Some(0));
    let begun = Instant::now();
    assert_eq!(text(heard(shell.follow(&command))), expected);
    assert!(
        begun.elapsed() < Duration::from_millis(200),
        "{:?}",
        begun.elapsed()
    );
    let late = shell.input(&command, "more");
    assert_eq!(late.body["code"], "COMMAND_ALREADY_COMPLETED");
    late.refused(410);
    // Without a WebSocket the same comes as a body.
    let plain = shell
        .get(&format!("/command/{command}/logs?follow=true"))
        .ok();
    assert!(plain.as_str().unwrap().contains("got hello\n"), "{plain}");
}

#[test]
fn input_is_not_echoed_when_that_is_not_wanted() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let request = json!({ "command": "read x; read y; echo $y$x", "runAsync": true, "suppressInputEcho": true });
    let command = shell.exec(request).ok()["cmdId"]
        .as_str()
        .unwrap()
        .to_owned();
    wait_until("it runs", || shell.input(&command, "a").status == 204);
    assert_eq!(shell.input(&command, "b").status, 204);
    assert_eq!(text(heard(shell.follow(&command))).0, "ba\n");
}

#[test]
fn a_follower_ends_although_a_background_process_goes_on() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell.start("(sleep 1; echo late; sleep 4714) & echo early");
    assert_eq!(text(heard(shell.follow(&command))).0, "early\n");
    wait_until("what it left behind is logged", || {
        shell.stdout(&command) == "early\nlate\n"
    });
    assert_eq!(shell.run("pgrep -fc '^sleep 4714'").0, "1\n");
    assert_eq!(shell.delete().status, 204);
    let other = Shell::named(&server, &id, "s2");
    assert_eq!(other.run("pgrep -fc '^sleep 4714'").0, "0\n");
}

#[test]
fn any_bytes_come_through_a_log() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let odd = "printf 'a\\001\\001\\001b\\002\\002\\002\\377\\0'; sleep 0.1; printf '\\002\\002' >&2; sleep 0.1; printf '\\002\\001'";
    let command = shell.start(odd);
    assert_eq!(
        heard(shell.follow(&command)),
        (
            b"a\x01\x01\x01b\x02\x02\x02\xff\x00\x02\x01".to_vec(),
            b"\x02\x02".to_vec()
        )
    );
}

#[test]
fn much_output_stays_out_of_memory() {
    let server = TestServer::with(|config| config.limits.output_bytes_max = 100_000);
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let before = peak_memory_kib();
    let answer = shell
        .exec(json!({ "command": "yes | head -c 50000000; echo end >&2" }))
        .ok();
    let grown = peak_memory_kib() - before;
    assert!(grown < 30_000, "{grown} KiB");
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(stdout.len() < 100_100 && stdout.ends_with("[truncated]\n"));
    // Followers get all of it.
    let command = answer["cmdId"].as_str().unwrap();
    let (stdout, stderr) = heard(shell.follow(command));
    assert_eq!((stdout.len(), stderr), (50_000_000, b"end\n".to_vec()));
}

fn peak_memory_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    peak.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_timeout_kills_the_command_and_keeps_its_session() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    shell.run("cd /tmp; sleep 4715 &");
    let request =
        json!({ "command": "echo partial; setsid sleep 4716 & sleep 4716", "timeout": 1 });
    let answer = shell.exec(request).ok();
    assert_eq!(
        (&answer["exitCode"], &answer["stdout"]),
        (&json!(124), &json!("partial\n"))
    );
    assert!(
        answer["stderr"]
            .as_str()
            .unwrap()
            .contains("[killed after 1 seconds]")
    );
    assert_eq!(
        shell
            .run("pwd; pgrep -fc '^sleep 4716'; pgrep -fc '^sleep 4715'")
            .0,
        "/tmp\n0\n1\n"
    );
    // A shell that is busy itself ends with its session.
    let request = json!({ "command": "while :; do :; done", "timeout": 1 });
    assert_eq!(shell.exec(request).ok()["exitCode"], 124);
    shell.exec(json!({ "command": "pwd" })).refused(410);
}

#[test]
fn a_fork_bomb_ends_with_its_timeout() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let request = json!({ "command": "b() { b | b & }; b; sleep 60", "timeout": 1 });
    assert_eq!(shell.exec(request).ok()["exitCode"], 124);
    shell.delete().ok();
    wait_until("there is room again", || {
        let path = format!("/toolbox/{id}/process/execute");
        server.post(&path, json!({ "command": "echo alive" })).body["result"] == "alive\n"
    });
}

#[test]
fn the_box_cannot_take_the_pipes_away() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let attack = "ls /run/holm-* 2>&1; rm -rf /run/holm-*; mv /run/holm-* /tmp; touch /run/holm-*/x; \
                  for f in /proc/$$/fd/*; do :; done; echo still";
    let (stdout, _, code) = shell.run(attack);
    assert!(
        stdout.contains("Permission denied") && stdout.ends_with("still\n"),
        "{stdout}"
    );
    assert_eq!(code, 0);
    assert_eq!(shell.run("echo works").0, "works\n");
    assert_eq!(shell.delete().status, 204);
    let other = Shell::named(&server, &id, "s2");
    assert_eq!(other.run("ls -d /run/holm-* | wc -l").0, "1\n");
}

#[test]
fn deleting_gives_processes_time_to_end() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell.start("bash -c 'trap \"sleep 0.5; touch /tmp/ended; exit\" TERM; echo ready; while :; do sleep 0.1; done'");
    wait_until("it runs", || shell.stdout(&command) == "ready\n");
    assert_eq!(shell.delete().status, 204);
    let other = Shell::named(&server, &id, "s2");
    assert_eq!(other.run("ls /tmp/ended").2, 0);
    let stubborn = other
        .start("trap '' TERM; bash -c 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'");
    wait_until("it runs", || other.stdout(&stubborn) == "ready\n");
    let begun = Instant::now();
    assert_eq!(other.delete().status, 204);
    assert!(begun.elapsed() > Duration::from_secs(4));
    let last = Shell::named(&server, &id, "s3");
    assert_eq!(last.run("pgrep -c bash").0, "1\n");
}

#[test]
fn an_idle_session_keeps_no_sandbox_awake() {
    let server = TestServer::with(|config| config.limits.tick = Duration::from_millis(100));
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    shell.run("true");
    let state = || server.get(&format!("/api/sandbox/{id}")).ok()["state"].clone();
    let command = shell.start("sleep 4717");
    wait_until("it runs", || shell.exit_code(&command).is_none());
    assert_eq!(state(), "started");
}

#[test]
fn sessions_live_on_when_the_server_is_started_again() {
    let server = TestServer::new();
    let id = server.sandbox();
    let (running, queued, left_behind) = {
        let shell = Shell::new(&server, &id);
        shell.run("export A=b");
        let other = Shell::named(&server, &id, "s2");
        let left_behind = other.start("(sleep 2; echo after) & echo before");
        let running =
            shell.start("echo one; sleep 2; touch went-on; seq 100000; read x; echo $x; (exit 5)");
        let queued = shell.start("echo $A > queued; echo queued");
        wait_until("they run", || shell.stdout(&running) == "one\n");
        (running, queued, left_behind)
    };
    let data = server.stop();
    wait_until("it goes on without a server", || {
        let found = std::process::Command::new("find")
            .arg(data.path())
            .args(["-name", "went-on"])
            .output();
        !found.unwrap().stdout.is_empty()
    });
    let server = TestServer::at(data, |_| {});
    let shell = Shell::again(&server, &id, "s1");
    assert_eq!(shell.exit_code(&running), None);
    wait_until("its output goes on", || {
        shell.stdout(&running).ends_with("\n100000\n")
    });
    assert_eq!(shell.input(&running, "typed").status, 204);
    let (stdout, _) = text(heard(shell.follow(&running)));
    assert!(stdout.starts_with("one\n1\n2\n") && stdout.ends_with("typed\ntyped\n"));
    assert_eq!(shell.exit_code(&running), Some(5));
    wait_until("what waited has run", || {
        shell.exit_code(&queued) == Some(0)
    });
    assert_eq!(shell.run("cat queued").0, "b\n");
    let other = Shell::again(&server, &id, "s2");
    wait_until("what was left behind is logged", || {
        other.stdout(&left_behind) == "before\nafter\n"
    });
    assert_eq!(other.run("echo works").0, "works\n");
    assert_eq!(shell.delete().status, 204);
}

#[test]
fn a_stopped_sandbox_has_no_sessions() {
    let server = TestServer::new();
    let id = server.sandbox();
    let shell = Shell::new(&server, &id);
    let command = shell.start("echo begun; sleep 60");
    wait_until("it runs", || shell.stdout(&command) == "begun\n");
    let follower = shell.follow(&command);
    server
        .post(&format!("/api/sandbox/{id}/stop"), json!({}))
        .ok();
    // Whoever follows is not left waiting.
    assert_eq!(text(heard(follower)).0, "begun\n");
    server
        .post(&format!("/api/sandbox/{id}/start"), json!({}))
        .ok();
    let sessions = server.get(&format!("/toolbox/{id}/process/session")).ok();
    assert_eq!(sessions, json!([]));
    assert!(crate::support::is_empty(
        &server.box_directory(&id).join("sessions")
    ));
}
