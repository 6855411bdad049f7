//! One client that changes things and remembers what the server must remember too.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Random;
use crate::server::{Answer, Client};

const SANDBOXES_MAX: usize = 4;
/// An organisation may have only so many.
const VOLUMES_MAX: usize = 20;

/// What may be true: one value, or two after a change whose answer never came.
#[derive(Debug, Clone)]
struct Belief<T>(Vec<T>);

impl<T: Clone + PartialEq + std::fmt::Debug> Belief<T> {
    fn sure(value: T) -> Self {
        Self(vec![value])
    }

    fn last(&self) -> &T {
        self.0.last().unwrap()
    }

    /// Compares with what is, and believes that from now on.
    #[track_caller]
    fn learn(&mut self, value: T, about: &dyn std::fmt::Debug) {
        assert!(
            self.0.contains(&value),
            "{value:?} instead of {self:?}: {about:?}"
        );
        self.0 = vec![value];
    }
}

/// One sandbox as its client knows it.
#[derive(Debug)]
struct Known {
    name: String,
    exists: Belief<bool>,
    state: Belief<&'static str>,
    label: Belief<u64>,
    /// Files with what must be in them. One whose writing was not acknowledged is not listed.
    files: BTreeMap<String, String>,
}

/// What became of a change.
enum Fate {
    Acknowledged,
    Refused,
    /// The server died; nobody knows.
    Unknown,
}

pub(super) struct Worker {
    index: u64,
    random: Random,
    sandboxes: Vec<Known>,
    volumes: BTreeMap<String, Belief<bool>>,
    /// Snapshots, with the files that were in the sandbox.
    snapshots: BTreeMap<String, (Belief<bool>, BTreeMap<String, String>)>,
    made: u64,
    pub(super) acknowledged: u64,
}

impl Worker {
    pub(super) fn new(index: u64, seed: u64) -> Self {
        Self {
            index,
            random: Random::new(seed),
            sandboxes: Vec::new(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            made: 0,
            acknowledged: 0,
        }
    }

    /// Changes things until the server is gone.
    pub(super) fn work(&mut self, client: &Client, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let fate = match self.random.below(100) {
                0..4 => self.make_volume(client),
                choice if self.sandboxes.is_empty() || choice < 25 => self.create(client),
                choice => self.change(choice, client),
            };
            match fate {
                Fate::Acknowledged => self.acknowledged += 1,
                Fate::Refused => {}
                Fate::Unknown => return,
            }
        }
    }

    fn next_name(&mut self) -> String {
        self.made += 1;
        format!("w{}-{}", self.index, self.made)
    }

    fn make_volume(&mut self, client: &Client) -> Fate {
        if self.volumes.len() >= VOLUMES_MAX {
            return Fate::Refused;
        }
        let name = self.next_name();
        let answer = client.ask("POST", "/api/volumes", &json!({ "name": name }));
        let (fate, exists) = fate(answer, false, true);
        self.volumes.insert(name, exists);
        fate
    }

    fn create(&mut self, client: &Client) -> Fate {
        if self.sandboxes.len() >= SANDBOXES_MAX {
            return Fate::Refused;
        }
        let name = self.next_name();
        let request = json!({ "name": name, "labels": { "n": "0" }, "snapshot": "daytona-small" });
        let answer = client.ask("POST", "/api/sandbox", &request);
        let (fate, exists) = fate(answer, false, true);
        let state = match fate {
            Fate::Acknowledged => Belief::sure("started"),
            // Its box may have died with the server.
            Fate::Refused | Fate::Unknown => Belief(vec!["started", "stopped"]),
        };
        self.sandboxes.push(Known {
            name,
            exists,
            state,
            label: Belief::sure(0),
            files: BTreeMap::new(),
        });
        fate
    }

    fn change(&mut self, choice: u64, client: &Client) -> Fate {
        let count = u64::try_from(self.sandboxes.len()).unwrap();
        let at = usize::try_from(self.random.below(count)).unwrap();
        let number = self.random.below(1_000_000);
        let snapshot = self.next_name();
        let sandbox = &mut self.sandboxes[at];
        let path = format!("/api/sandbox/{}", sandbox.name);
        match (choice, *sandbox.state.last()) {
            (..50, "started") => sandbox.write_file(client, number),
            (..65, _) => {
                let body = json!({ "labels": { "n": number.to_string() } });
                let answer = client.ask("PUT", &format!("{path}/labels"), &body);
                let (fate, label) = fate(answer, *sandbox.label.last(), number);
                sandbox.label = label;
                fate
            }
            (..80, "started") => sandbox.go("stop", "stopped", client),
            (..80, _) => sandbox.go("start", "started", client),
            (..84, _) => {
                let body = json!({ "name": snapshot });
                let answer = client.ask("POST", &format!("{path}/snapshot"), &body);
                let (fate, exists) = fate(answer, false, true);
                let files = sandbox.files.clone();
                self.snapshots.insert(snapshot, (exists, files));
                fate
            }
            (..92, "started") => sandbox.go("pause", "paused", client),
            (_, _) => {
                let answer = client.ask("DELETE", &path, &Value::Null);
                let (fate, exists) = fate(answer, true, false);
                sandbox.exists = exists;
                if matches!(fate, Fate::Acknowledged) {
                    self.sandboxes.remove(at);
                }
                fate
            }
        }
    }

    /// Compares everything that this client was told with what a new life of the server says.
    pub(super) fn check(&mut self, client: &Client) {
        for (name, exists) in &mut self.volumes {
            let answer = client.get(&format!("/api/volumes/by-name/{name}"));
            exists.learn(answer.status == 200, &answer);
        }
        for (name, (exists, _)) in &mut self.snapshots {
            let answer = client.get(&format!("/api/snapshots/{name}"));
            exists.learn(answer.status == 200, &answer);
            assert!(
                answer.status == 404 || answer.body["state"] == "active",
                "{answer:?}"
            );
        }
        for sandbox in &mut self.sandboxes {
            sandbox.check(client);
        }
        self.sandboxes.retain(|sandbox| *sandbox.exists.last());
        self.volumes.retain(|_, exists| *exists.last());
        self.snapshots.retain(|_, (exists, _)| *exists.last());
    }

    /// Looks into what could not be looked into before: sandboxes that do not run, and snapshots.
    pub(super) fn finish(mut self, client: &Client) {
        for sandbox in &mut self.sandboxes {
            client
                .post(&format!("/api/sandbox/{}/start", sandbox.name), &json!({}))
                .ok();
            sandbox.state = Belief::sure("started");
            sandbox.check(client);
        }
        for (name, (_, files)) in &self.snapshots {
            let made = client.post("/api/sandbox", &json!({ "snapshot": name }));
            let id = made.ok()["id"].as_str().unwrap().to_owned();
            assert_files(client, &id, files);
        }
    }
}

impl Known {
    fn write_file(&mut self, client: &Client, number: u64) -> Fate {
        let (name, text) = (format!("f{number}"), format!("text {number}"));
        let path = format!("/toolbox/{}/process/execute", self.name);
        let command = format!("echo '{text}' > {name}");
        let answer = client.ask("POST", &path, &json!({ "command": command }));
        let (fate, _) = fate(answer, (), ());
        if matches!(fate, Fate::Acknowledged) {
            self.files.insert(name, text);
        }
        fate
    }

    fn go(&mut self, verb: &str, state: &'static str, client: &Client) -> Fate {
        let path = format!("/api/sandbox/{}/{verb}", self.name);
        let answer = client.ask("POST", &path, &Value::Null);
        let (fate, state) = fate(answer, *self.state.last(), state);
        self.state = state;
        fate
    }

    #[track_caller]
    fn check(&mut self, client: &Client) {
        let answer = client.get(&format!("/api/sandbox/{}", self.name));
        self.exists.learn(answer.status == 200, &answer);
        if !*self.exists.last() {
            return;
        }
        let shown = &answer.body;
        let state = ["started", "stopped", "paused"]
            .into_iter()
            .find(|state| shown["state"] == *state)
            .unwrap_or("another");
        self.state.learn(state, shown);
        let label = shown["labels"]["n"].as_str().unwrap().parse().unwrap();
        self.label.learn(label, shown);
        if state == "started" {
            assert_files(client, &self.name, &self.files);
        }
    }
}

/// What is believed of something after a change from `old` to `new`.
#[track_caller]
fn fate<T: Clone + PartialEq + std::fmt::Debug>(
    answer: io::Result<Answer>,
    old: T,
    new: T,
) -> (Fate, Belief<T>) {
    match answer {
        Ok(answer) => {
            // Nothing that this client does can be wrong: nobody else uses its sandboxes.
            assert!(answer.is_ok(), "refused: {answer:?}");
            // A command that fails is no success, whatever the status says.
            let code = answer.body.get("exitCode");
            assert!(code.is_none_or(|code| code == 0), "{answer:?}");
            (Fate::Acknowledged, Belief::sure(new))
        }
        Err(_) => (Fate::Unknown, Belief(vec![new, old])),
    }
}

#[track_caller]
fn assert_files(client: &Client, sandbox: &str, files: &BTreeMap<String, String>) {
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let texts: Vec<&str> = files.values().map(String::as_str).collect();
    if !names.is_empty() {
        let shown = client.run(sandbox, &format!("cat {}", names.join(" ")));
        assert_eq!(shown, texts.join("\n"), "{sandbox}");
    }
}
