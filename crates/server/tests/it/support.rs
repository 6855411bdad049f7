//! A server of one's own for a test, and a client for it.

use std::path::Path;
use std::time::{Duration, Instant};

use holm_sandbox_linux::Engine;
use holm_server::keys::{self, KeyText};
use holm_server::{Server, ServerConfig, ServerHandle};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running server with its data in a temporary folder.
pub(crate) struct TestServer {
    runtime: tokio::runtime::Runtime,
    handle: Option<ServerHandle>,
    pub(crate) data: tempfile::TempDir,
    pub(crate) url: String,
    /// A key of the organisation `default`.
    pub(crate) key: String,
}

/// What a request answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a request that has to succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.body
    }

    /// The message of a request that has to fail in this way.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.body["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server whose configuration was changed.
    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::at(tempfile::tempdir().unwrap(), change)
    }

    /// A server on data that exists already.
    pub(crate) fn at(data: tempfile::TempDir, change: impl FnOnce(&mut ServerConfig)) -> Self {
        // The client is built without one of its own; a second test in one process has set it already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let engine = Engine::start().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut config =
            ServerConfig::new("127.0.0.1:0".parse().unwrap(), data.path().join("data"));
        change(&mut config);
        let server = Server::open(config, engine).unwrap();
        let name = format!("test-{}", holm_sandbox_linux::random_hex());
        let key = keys::create(server.store(), "default", &name, KeyText::Random).unwrap();
        let handle = runtime.block_on(server.start()).unwrap();
        Self {
            url: format!("http://{}", handle.address),
            runtime,
            handle: Some(handle),
            data,
            key: key.text.expose().to_owned(),
        }
    }

    /// The key of another organisation.
    pub(crate) fn key_of(&self, organization: &str) -> String {
        let store = holm_store::Store::open(&self.data.path().join("data/holm.db")).unwrap();
        let name = holm_sandbox_linux::random_hex();
        let key = keys::create(&store, organization, &name, KeyText::Random).unwrap();
        key.text.expose().to_owned()
    }

    /// Stops the server and leaves its data, and its boxes, to the next.
    pub(crate) fn stop(mut self) -> tempfile::TempDir {
        if let Some(handle) = self.handle.take() {
            self.runtime.block_on(handle.stop());
        }
        let empty = tempfile::tempdir().unwrap();
        std::mem::replace(&mut self.data, empty)
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks with a key.
    pub(crate) fn ask_as(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        self.block_on(async {
            let mut request = reqwest::Client::new()
                .request(method, format!("{}{path}", self.url))
                .bearer_auth(key);
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

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask_as(&self.key, Method::GET, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.ask_as(&self.key, Method::POST, path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: Value) -> Answer {
        self.ask_as(&self.key, Method::PUT, path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask_as(&self.key, Method::DELETE, path, None)
    }

    /// Makes a sandbox with defaults and gives its id.
    #[track_caller]
    pub(crate) fn sandbox(&self) -> String {
        self.sandbox_from(json!({}))
    }

    #[track_caller]
    pub(crate) fn sandbox_from(&self, request: Value) -> String {
        let made = self.post("/api/sandbox", request).ok();
        assert_eq!(made["state"], "started", "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// Runs a shell script in a sandbox, and gives its exit code and what it printed.
    #[track_caller]
    pub(crate) fn execute(&self, id: &str, script: &str) -> (i64, String) {
        let request = json!({ "command": script, "timeout": 60 });
        let path = format!("/toolbox/{id}/process/execute");
        let done = self.post(&path, request).ok();
        let printed = done["result"].as_str().unwrap_or_default().to_owned();
        (done["exitCode"].as_i64().unwrap(), printed)
    }

    /// Runs a shell script that has to succeed, and gives what it printed, without the last line's end.
    #[track_caller]
    pub(crate) fn run(&self, id: &str, script: &str) -> String {
        let (code, printed) = self.execute(id, script);
        assert_eq!(code, 0, "{script}: {printed}");
        printed.trim_end().to_owned()
    }

    /// A request about a sandbox that changes its state, without a body.
    #[track_caller]
    pub(crate) fn turn(&self, id: &str, change: &str) -> Value {
        self.post(&format!("/api/sandbox/{id}/{change}"), json!({}))
            .ok()
    }

    /// The folder of a sandbox on the host.
    pub(crate) fn box_directory(&self, id: &str) -> std::path::PathBuf {
        self.data.path().join("data/boxes").join(id)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.handle.is_none() {
            return;
        }
        // Boxes outlive their server: a test leaves none.
        let listed = self.get("/api/sandbox?limit=200");
        for sandbox in listed.body["items"].as_array().into_iter().flatten() {
            let id = sandbox["id"].as_str().unwrap_or_default();
            self.delete(&format!("/api/sandbox/{id}"));
        }
        if let Some(handle) = self.handle.take() {
            self.runtime.block_on(handle.stop());
        }
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Whether nothing is left below a folder.
pub(crate) fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}
