//! A running `holm serve` for the tests of what speaks to it, in the test's own process.
//!
//! A crate of its own, so that tests which need no server do not build one.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod proxy;

use holm_sandbox_linux::Engine;
use holm_server::keys::{self, KeyText};
use holm_server::{Server, ServerConfig, ServerHandle};
use serde_json::Value;

pub use proxy::{Fault, FaultyProxy, Goodbye, Times};

/// A server with its data in a temporary folder. Dropping it removes its boxes.
#[derive(Debug)]
pub struct TestServer {
    runtime: tokio::runtime::Runtime,
    handle: Option<ServerHandle>,
    _data: tempfile::TempDir,
    origin: String,
    key: String,
}

impl TestServer {
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// A server whose configuration was changed.
    pub fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        // The client below has none of its own; a second server in one process finds it set already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let engine = Engine::start().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let data = tempfile::tempdir().unwrap();
        let mut config =
            ServerConfig::new("127.0.0.1:0".parse().unwrap(), data.path().join("data"));
        change(&mut config);
        let server = Server::open(config, engine).unwrap();
        let key = keys::create(server.store(), "default", "test", KeyText::Random).unwrap();
        let handle = runtime.block_on(server.start()).unwrap();
        Self {
            origin: format!("http://{}", handle.address),
            runtime,
            handle: Some(handle),
            _data: data,
            key: key.text.expose().to_owned(),
        }
    }

    /// What `DAYTONA_API_URL` is.
    pub fn api_url(&self) -> String {
        format!("{}/api", self.origin)
    }

    /// What `DAYTONA_API_KEY` is.
    pub fn api_key(&self) -> &str {
        &self.key
    }

    /// A proxy before this server, on its runtime.
    pub fn faulty_proxy(&self) -> FaultyProxy {
        let server = self.origin.trim_start_matches("http://");
        self.block_on(FaultyProxy::start(server.parse().unwrap()))
    }

    /// Runs a future on the server's runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The ids of all sandboxes that there are.
    pub fn sandboxes(&self) -> Vec<String> {
        let listed = self.ask(reqwest::Method::GET, "/sandbox?limit=200");
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let id = |item: &Value| item["id"].as_str().map(str::to_owned);
        items.iter().filter_map(id).collect()
    }

    fn ask(&self, method: reqwest::Method, path: &str) -> Value {
        self.block_on(async {
            let client = reqwest::Client::builder().build().unwrap();
            let url = format!("{}{path}", self.api_url());
            let request = client.request(method, url).bearer_auth(&self.key);
            let response = request.send().await.unwrap();
            serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default()
        })
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Boxes outlive their server: a test leaves none.
        for sandbox in self.sandboxes() {
            self.ask(reqwest::Method::DELETE, &format!("/sandbox/{sandbox}"));
        }
        if let Some(handle) = self.handle.take() {
            self.runtime.block_on(handle.stop());
        }
    }
}
