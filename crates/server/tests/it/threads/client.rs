//! A client of threads, with any credential.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::TestServer;

/// A server, and requests to it.
pub(crate) struct ThreadsClient {
    pub(crate) server: TestServer,
    http: reqwest::Client,
}

/// What a request answered, with everything that counts.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.body
    }

    /// The code of a request that has to fail with this status.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let code = &self.body["code"];
        let code = if code.is_string() {
            code
        } else {
            &self.body["error"]["code"]
        };
        code.as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// What a request carries besides its credential.
#[derive(Debug, Default)]
pub(crate) enum Content {
    #[default]
    Nothing,
    Json(Value),
    Bytes(Vec<u8>),
}

impl ThreadsClient {
    pub(crate) fn new() -> Self {
        Self::of(TestServer::new())
    }

    pub(crate) fn of(server: TestServer) -> Self {
        let http = reqwest::Client::new();
        Self { server, http }
    }

    pub(crate) fn send(
        &self,
        bearer: Option<&str>,
        method: Method,
        path: &str,
        content: Content,
        headers: &[(&str, &str)],
    ) -> Reply {
        self.server.block_on(async {
            let url = format!("{}{path}", self.server.url);
            let mut request = self.http.request(method, url);
            if let Some(bearer) = bearer {
                request = request.bearer_auth(bearer);
            }
            request = match content {
                Content::Nothing => request,
                Content::Json(body) => request.json(&body),
                Content::Bytes(body) => request.body(body),
            };
            for (name, value) in headers {
                let name: HeaderName = name.parse().unwrap();
                request = request.header(name, HeaderValue::from_str(value).unwrap());
            }
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status(), response.headers().clone());
            let text = response.text().await.unwrap();
            let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
            Reply {
                status,
                headers,
                body,
            }
        })
    }

    pub(crate) fn key(&self) -> &str {
        &self.server.key
    }

    pub(crate) fn get(&self, bearer: &str, path: &str) -> Reply {
        self.send(Some(bearer), Method::GET, path, Content::Nothing, &[])
    }

    pub(crate) fn post(&self, bearer: &str, path: &str, body: Value) -> Reply {
        self.send(Some(bearer), Method::POST, path, Content::Json(body), &[])
    }

    /// Makes a thread with an id, or finds it.
    #[track_caller]
    pub(crate) fn thread(&self, id: &str) -> String {
        let made = self.post(self.key(), "/api/threads", json!({ "id": id }));
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        format!("/api/threads/{id}")
    }

    #[track_caller]
    pub(crate) fn append(&self, bearer: &str, thread: &str, entries: Value) -> Reply {
        self.post(bearer, &format!("{thread}/entries"), entries)
    }

    /// Begins a run, with the API key.
    #[track_caller]
    pub(crate) fn begin(&self, thread: &str, run: &str) {
        let entry = entry(&format!("begin-{run}"), status("running", Some(run)));
        self.append(self.key(), thread, entry).ok();
    }

    #[track_caller]
    pub(crate) fn mint(&self, thread: &str, request: Value) -> String {
        let minted = self.post(self.key(), &format!("{thread}/tokens"), request);
        assert_eq!(minted.status, StatusCode::CREATED, "{minted:?}");
        minted.body["jwt"].as_str().unwrap().to_owned()
    }

    /// All entries, page by page.
    #[track_caller]
    pub(crate) fn entries(&self, thread: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut offset = "-1".to_owned();
        loop {
            let path = format!("{thread}/entries?offset={offset}&limitBytes=100");
            let page = self.get(self.key(), &path).ok();
            entries.extend(page["entries"].as_array().unwrap().clone());
            offset = page["nextOffset"].as_str().unwrap().to_owned();
            if page["upToDate"] == true {
                return entries;
            }
        }
    }
}

pub(crate) fn entry(id: &str, payload: Value) -> Value {
    json!({ "id": id, "ts": "2026-11-16T05:00:00Z", "payload": payload })
}

pub(crate) fn chat(id: &str, text: &str) -> Value {
    entry(id, json!({ "type": "chat", "text": text }))
}

pub(crate) fn status(status: &str, run: Option<&str>) -> Value {
    let mut payload = json!({ "type": "signal.thread.status_changed", "status": status });
    if let Some(run) = run {
        payload["runId"] = json!(run);
    }
    payload
}
