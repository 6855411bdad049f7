//! One operation at a time, and the server killed, or the client gone, at every part of it.
//!
//! The operation is timed first; then the kills are spread over that time, so that each of its steps is met.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::traces;
use crate::server::{Client, KEY, Serving, data};
use crate::support::{TestEnvironment, is_root, names_in, pause};

/// Kills of each operation.
const POINTS: u32 = 6;

/// What is done to a sandbox that is `started` or `stopped` before.
struct Operation {
    name: &'static str,
    before: &'static str,
    method: &'static str,
    path: &'static str,
    body: fn(u32) -> Value,
}

const OPERATIONS: [Operation; 6] = [
    operation("create", "", "POST", "/api/sandbox"),
    operation("stop", "started", "POST", "/stop"),
    operation("start", "stopped", "POST", "/start"),
    operation("fork", "started", "POST", "/fork"),
    operation("snapshot", "started", "POST", "/snapshot"),
    operation("delete", "started", "DELETE", ""),
];

const fn operation(
    name: &'static str,
    before: &'static str,
    method: &'static str,
    path: &'static str,
) -> Operation {
    Operation {
        name,
        before,
        method,
        path,
        body: |round| json!({ "name": format!("n{round}") }),
    }
}

impl Operation {
    /// Brings a sandbox to where the operation begins, and says where the request goes.
    fn prepare(&self, client: &Client) -> String {
        if self.before.is_empty() {
            return self.path.to_owned();
        }
        let sandbox = client.post("/api/sandbox", &json!({ "labels": {} })).ok();
        let id = sandbox["id"].as_str().unwrap();
        client.run(id, "head -c 300000 /dev/zero > file; mkdir -p a/b/c");
        if self.before == "stopped" {
            client
                .post(&format!("/api/sandbox/{id}/stop"), &Value::Null)
                .ok();
        }
        format!("/api/sandbox/{id}{}", self.path)
    }

    fn ask(&self, client: &Client, path: &str, round: u32) -> bool {
        let body = match self.method {
            "DELETE" => Value::Null,
            _ => (self.body)(round),
        };
        let answer = client.ask(self.method, path, &body);
        answer.is_ok_and(|answer| {
            assert!(answer.is_ok(), "{}: {answer:?}", self.name);
            true
        })
    }

    /// How long it takes when nothing is in its way.
    fn time(&self, client: &Client) -> Duration {
        let path = self.prepare(client);
        let begun = Instant::now();
        assert!(self.ask(client, &path, 1_000), "{}", self.name);
        let took = begun.elapsed();
        traces::delete_everything(client);
        took
    }
}

#[test]
fn a_kill_in_the_middle_leaves_all_or_nothing() {
    if !is_root() {
        eprintln!("skipped: this test needs root");
        return;
    }
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let mut server = Serving::start(&env, &[]);
    let mut ids = BTreeSet::new();
    for operation in OPERATIONS {
        let took = operation.time(&server.client());
        for round in 0..POINTS {
            let client = server.client();
            let path = operation.prepare(&client);
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| operation.ask(&client, &path, round));
                pause(took * round / (POINTS - 1));
                server.kill();
                asked.join().unwrap();
            });
            ids.extend(names_in(&data(&env).join("boxes")));
            server = Serving::start(&env, &[]);
            let client = server.client();
            traces::assert_all_accounted_for(&env, &client);
            for sandbox in client.sandboxes() {
                let id = sandbox["id"].as_str().unwrap();
                // Whatever became of it, it can be used.
                client
                    .post(&format!("/api/sandbox/{id}/start"), &Value::Null)
                    .ok();
                assert_eq!(traces::inits_of(id).len(), 1, "{}", operation.name);
                client.run(id, "test ! -e file || test $(stat -c %s file) = 300000");
            }
            traces::delete_everything(&client);
        }
    }
    traces::assert_nothing_left(&env, &ids);
    assert_eq!(server.stop().code(), Some(0));
}

/// A client that hangs up does not leave a change half done.
#[test]
fn a_client_that_hangs_up_leaves_all_or_nothing() {
    if !is_root() {
        eprintln!("skipped: this test needs root");
        return;
    }
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let mut ids = BTreeSet::new();
    for operation in OPERATIONS {
        let took = operation.time(&client);
        for round in 0..POINTS {
            let path = operation.prepare(&client);
            let body = (operation.body)(round).to_string();
            let about = ("application/json", body.len());
            let mut request = client.begin(operation.method, &path, about).unwrap();
            std::io::Write::write_all(&mut request, body.as_bytes()).unwrap();
            pause(took * round / (POINTS - 1));
            drop(request);
            ids.extend(names_in(&data(&env).join("boxes")));
        }
        // What nobody waits for any more ends before the server does.
        assert_all_settle(&client);
        for sandbox in client.sandboxes() {
            let id = sandbox["id"].as_str().unwrap();
            let expected = usize::from(sandbox["state"] == "started");
            assert_eq!(traces::inits_of(id).len(), expected, "{sandbox}");
        }
        traces::delete_everything(&client);
    }
    traces::assert_nothing_left(&env, &ids);
    assert_eq!(server.stop().code(), Some(0));
}

/// Waits until no change of any sandbox is on its way: each takes another one.
fn assert_all_settle(client: &Client) {
    crate::support::wait_until("no change is on its way", || {
        client.sandboxes().iter().all(|sandbox| {
            let id = sandbox["id"].as_str().unwrap();
            let path = format!("/api/sandbox/{id}/start");
            client.post(&path, &Value::Null).is_ok()
        })
    });
}
