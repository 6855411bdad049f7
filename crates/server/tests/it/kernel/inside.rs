//! The toolbox of one sandbox, as tests use it.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

/// A server with one sandbox, and paths below its toolbox.
pub(crate) struct Tools {
    pub(crate) server: TestServer,
    pub(crate) id: String,
}

impl Tools {
    pub(crate) fn new() -> Self {
        Self::on(TestServer::new())
    }

    pub(crate) fn on(server: TestServer) -> Self {
        let id = server.sandbox();
        Self { server, id }
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("/toolbox/{}{path}", self.id)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{}", self.server.url, self.path(path))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.server.get(&self.path(path))
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.server.post(&self.path(path), body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.server.delete(&self.path(path))
    }

    /// A request with the key, to be given a body.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        reqwest::Client::new()
            .request(method, self.url(path))
            .bearer_auth(&self.server.key)
    }

    pub(crate) fn send(&self, request: RequestBuilder) -> Answer {
        self.server.block_on(async {
            let response = request.send().await.unwrap();
            let status = response.status();
            let text = response.text().await.unwrap();
            let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
            Answer { status, body }
        })
    }

    pub(crate) fn upload(&self, path: &str, content: &[u8]) -> Answer {
        let request = self
            .request(Method::POST, "/files/upload-v2")
            .query(&[("path", path)]);
        self.send(request.body(content.to_vec()))
    }

    #[track_caller]
    pub(crate) fn write(&self, path: &str, content: &[u8]) {
        self.upload(path, content).ok();
    }

    /// Status and body.
    pub(crate) fn download(&self, path: &str) -> (u16, Vec<u8>) {
        let path = format!("/files/download?path={path}");
        let request = self.request(Method::GET, &path);
        self.server.block_on(async {
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            (status, response.bytes().await.unwrap().to_vec())
        })
    }

    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        let (status, content) = self.download(path);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&content));
        content
    }

    /// Runs a shell script in the work directory, which has to succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        let request = json!({ "command": script, "timeout": 60 });
        let done = self.post("/process/execute", request).ok();
        let printed = done["result"].as_str().unwrap_or_default().to_owned();
        assert_eq!(done["exitCode"], 0, "{script}: {printed}");
        printed
    }

    /// Asks again and again until the answer is as it should be.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < until, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
