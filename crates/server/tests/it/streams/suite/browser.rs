//! A browser's `EventSource`, by the implementation that follows the standard for Node: it knows an address and nothing else.

use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::threads::{ThreadsClient, chat};

/// A page that is open until the test is over.
struct Page {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Page {
    fn open(address: &str) -> Option<Self> {
        let folder = super::install()?;
        let mut process = Command::new("node")
            .arg("browser.mjs")
            .arg(address)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Some(Self { process, lines })
    }

    /// The next thing that the page was told; what only says where it is, is left out.
    fn next(&mut self) -> Value {
        loop {
            let line = self.lines.next().expect("the page goes on").unwrap();
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["control"].is_null() {
                return told;
            }
        }
    }

    /// The next entry's id. A page that has lost its way for good fails.
    #[track_caller]
    fn entry(&mut self) -> String {
        loop {
            let told = self.next();
            assert_ne!(told["isOver"], true, "{told}");
            if let Some(id) = told["entry"]["id"].as_str() {
                return id.to_owned();
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A server at an address that stays the same from one to the next.
fn serve(data: tempfile::TempDir, address: SocketAddr) -> ThreadsClient {
    ThreadsClient::of(TestServer::at(data, |config| config.listen = address))
}

#[test]
fn a_plain_event_source_resumes() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let client = serve(tempfile::tempdir().unwrap(), address);
    let thread = client.thread("t");
    let ticket = client.post(client.key(), &format!("{thread}/read-tickets"), json!({}));
    let ticket = ticket.ok()["ticket"].as_str().unwrap().to_owned();
    let url = format!("http://{address}/v1/stream/holm-thread-t?offset=0&live=sse&ticket={ticket}");
    let Some(mut page) = Page::open(&url) else {
        return;
    };
    assert_eq!(page.entry(), "thread-created");
    client.append(client.key(), &thread, chat("1", "one")).ok();
    assert_eq!(page.entry(), "1");
    // The address is used up: nobody else can read with it.
    let other = client.server.block_on(async { reqwest::get(&url).await });
    assert_eq!(other.unwrap().status().as_u16(), 401);
    // The server goes, twice, and what is written meanwhile arrives once and in order.
    let mut data = client.server.stop();
    for [before, after] in [["2", "3"], ["4", "5"]] {
        let client = serve(data, address);
        let append = |id: &str| client.append(client.key(), &thread, chat(id, "more")).ok();
        append(before);
        assert_eq!(page.entry(), before);
        append(after);
        assert_eq!(page.entry(), after);
        data = client.server.stop();
    }
    // Of a stream that has ended it learns so, and stays away.
    let client = serve(data, address);
    let path = "/v1/stream/holm-thread-t";
    let close = [("stream-closed", "true")];
    let closed = client.send(
        Some(client.key()),
        Method::POST,
        path,
        crate::threads::Content::Nothing,
        &close,
    );
    assert!(closed.status.is_success(), "{closed:?}");
    loop {
        let told = page.next();
        assert!(told["entry"].is_null(), "{told}");
        if told["isOver"] == true {
            assert_eq!(told["error"], 204);
            break;
        }
    }
}
