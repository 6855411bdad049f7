//! Durable streams, as their clients see them.

mod names;
mod readers;
mod restart;
mod subscriptions;
mod suite;
mod tenants;
mod writing;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::support::TestServer;

/// What a request about a stream answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Where to read on.
    #[track_caller]
    fn next(&self) -> String {
        let next = self.header("stream-next-offset");
        next.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// The code of a request that has to fail in this way.
    #[track_caller]
    fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert!(body["error"]["message"].is_string(), "{body}");
        body["error"]["code"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{self:?}");
        self
    }
}

impl TestServer {
    fn stream(
        &self,
        key: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let url = if path.starts_with('/') {
            format!("{}{path}", self.url)
        } else {
            format!("{}/v1/stream/{path}", self.url)
        };
        self.block_on(async {
            let mut request = reqwest::Client::new()
                .request(method, url)
                .bearer_auth(key)
                .body(body);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let response = request.send().await.unwrap();
            Answer {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                body: response.text().await.unwrap(),
            }
        })
    }

    /// Makes a stream of JSON.
    #[track_caller]
    fn make(&self, name: &str) -> Answer {
        let json = [("content-type", "application/json")];
        let made = self.stream(&self.key, Method::PUT, name, &json, "");
        assert_eq!(made.status, 201, "{made:?}");
        made
    }

    fn add(&self, name: &str, body: &str) -> Answer {
        let json = [("content-type", "application/json")];
        self.stream(&self.key, Method::POST, name, &json, body.to_owned())
    }

    fn look(&self, path: &str) -> Answer {
        self.stream(&self.key, Method::GET, path, &[], "")
    }

    /// Opens a connection and sends a request with a key.
    fn raw(&self, method: &str, path: &str, headers: &str) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n{headers}\r\n",
            self.key
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Follows a stream by events.
    fn events(&self, path: &str, headers: &str) -> Events {
        Events {
            stream: self.raw("GET", &format!("/v1/stream/{path}"), headers),
            seen: String::new(),
        }
    }
}

/// A reader of events, as a browser is one.
struct Events {
    stream: TcpStream,
    seen: String,
}

impl Events {
    /// Reads until something was seen.
    #[track_caller]
    fn until(&mut self, text: &str) -> &str {
        let mut buffer = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "ended before {text:?}: {}", self.seen);
            let read = buffer.get(..count).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(read));
        }
        &self.seen
    }

    /// Reads to the end.
    fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).unwrap();
        self.seen + &String::from_utf8_lossy(&bytes)
    }

    /// The id of the last event that was seen.
    fn last_id(&self) -> &str {
        let mut ids = self
            .seen
            .lines()
            .filter_map(|line| line.strip_prefix("id: "));
        ids.next_back().unwrap()
    }
}
