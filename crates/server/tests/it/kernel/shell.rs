//! A session of a sandbox in a test.

use holm_daytona_wire::log::split_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::sockets::{Socket, VERSION};
use crate::support::{Answer, TestServer};

/// A session of a sandbox, used as the newest SDK uses it.
pub(super) struct Shell<'a> {
    server: &'a TestServer,
    pub(super) path: String,
}

impl<'a> Shell<'a> {
    pub(super) fn new(server: &'a TestServer, sandbox: &str) -> Self {
        Self::named(server, sandbox, "s1")
    }

    pub(super) fn named(server: &'a TestServer, sandbox: &str, name: &str) -> Self {
        let sessions = format!("/toolbox/{sandbox}/process/session");
        let made = server.post(&sessions, json!({ "sessionId": name }));
        assert_eq!(made.status, 201, "{made:?}");
        Self::again(server, sandbox, name)
    }

    pub(super) fn again(server: &'a TestServer, sandbox: &str, name: &str) -> Self {
        let path = format!("/toolbox/{sandbox}/process/session/{name}");
        Self { server, path }
    }

    pub(super) fn ask(
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

    pub(super) fn exec(&self, request: Value) -> Answer {
        self.ask(Method::POST, "/exec", Some(request), Some(VERSION.1))
    }

    /// Runs a command to its end and gives its outputs and its exit code.
    #[track_caller]
    pub(super) fn run(&self, command: &str) -> (String, String, i64) {
        let answer = self.exec(json!({ "command": command })).ok();
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        (
            text("stdout"),
            text("stderr"),
            answer["exitCode"].as_i64().unwrap(),
        )
    }

    #[track_caller]
    pub(super) fn start(&self, command: &str) -> String {
        let answer = self.exec(json!({ "command": command, "runAsync": true }));
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.body.as_object().unwrap().len(), 1);
        answer.body["cmdId"].as_str().unwrap().to_owned()
    }

    pub(super) fn get(&self, rest: &str) -> Answer {
        self.ask(Method::GET, rest, None, Some(VERSION.1))
    }

    pub(super) fn stdout(&self, command: &str) -> String {
        let logs = self.get(&format!("/command/{command}/logs")).ok();
        logs["stdout"].as_str().unwrap().to_owned()
    }

    pub(super) fn exit_code(&self, command: &str) -> Option<i64> {
        self.get(&format!("/command/{command}")).ok()["exitCode"].as_i64()
    }

    pub(super) fn input(&self, command: &str, data: &str) -> Answer {
        let rest = format!("/command/{command}/input");
        self.ask(Method::POST, &rest, Some(json!({ "data": data })), None)
    }

    pub(super) fn follow(&self, command: &str) -> Socket<'a> {
        let path = format!("{}/command/{command}/logs?follow=true", self.path);
        Socket::open(self.server, &path, &[VERSION]).unwrap()
    }

    pub(super) fn delete(&self) -> Answer {
        self.ask(Method::DELETE, "", None, None)
    }
}

/// What a follower heard: the two outputs, after a proper end.
#[track_caller]
pub(super) fn heard(socket: Socket<'_>) -> (Vec<u8>, Vec<u8>) {
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

pub(super) fn text((stdout, stderr): (Vec<u8>, Vec<u8>)) -> (String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr))
}
