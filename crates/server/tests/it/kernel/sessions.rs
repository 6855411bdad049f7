//! Shells that live on between commands.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::shell::{Shell, heard, text};
use crate::support::{TestServer, wait_until};

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
