//! `holm serve` as a child of a test, and a client for it that needs nothing but a socket.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use holm_server::records::SandboxRecord;
use holm_store::Store;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Output, TestEnvironment, send, wait_until};

/// For servers that are given their key.
pub(crate) const KEY: &str = "a-key-for-unattended-setup";
/// A server that is busy answers in time; one that never answers fails the test.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// A server in the background. Ended by the test, or with it.
pub(crate) struct Serving<'a> {
    env: &'a TestEnvironment,
    child: Option<Child>,
    said: Arc<Mutex<String>>,
    /// Reads what the server says, so that it never waits for us.
    reader: Option<JoinHandle<()>>,
    pub(crate) address: String,
}

impl<'a> Serving<'a> {
    pub(crate) fn start(env: &'a TestEnvironment, more: &[&str]) -> Self {
        let mut arguments = vec!["serve"];
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        Self::of(env, env.holm(&arguments))
    }

    /// A command that becomes a server.
    pub(crate) fn of(env: &'a TestEnvironment, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let saying = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|count| count > 0) {
                saying.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let mut serving = Self {
            env,
            child: Some(child),
            said,
            reader: Some(reader),
            address: String::new(),
        };
        wait_until("the server says where it is, or ends", || {
            serving.said().contains("://") || serving.child().try_wait().unwrap().is_some()
        });
        let said = serving.said();
        let address = said.split("://").nth(1);
        assert!(address.is_some(), "the server did not start: {said}");
        let address = address.unwrap().split(['/', '"']).next().unwrap();
        serving.address = address.to_owned();
        serving
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    /// What it wrote to standard error until now.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The status line of an answer.
    pub(crate) fn status_line(&self, path: &str, key: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// A client with the key that tests give to servers.
    pub(crate) fn client(&self) -> Client {
        Client {
            address: self.address.clone(),
        }
    }

    /// As a power cut, but for the machine.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn stop(mut self) -> Output {
        send(self.child(), Signal::TERM);
        self.ended()
    }

    /// Waits for the end of a server that was told to end.
    pub(crate) fn ended(mut self) -> Output {
        let child = self.child.take().unwrap();
        let mut output = self.env.finish(child);
        self.reader.take().unwrap().join().unwrap();
        output.stderr = self.said().into_bytes();
        output
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if std::thread::panicking() {
            eprintln!("----- the server said\n{}", self.said());
        }
    }
}

/// Where the server of a test keeps its data.
pub(crate) fn data(env: &TestEnvironment) -> PathBuf {
    env.path("data/server")
}

/// Kills the boxes that the servers of a test left behind.
pub(crate) fn end_boxes(env: &TestEnvironment) {
    if !fs::exists(data(env).join("holm.db")).unwrap_or(false) {
        return;
    }
    let Ok(store) = Store::open(&data(env).join("holm.db")) else {
        return;
    };
    for sandbox in store.all::<SandboxRecord>().unwrap_or_default() {
        if let Some(running) = sandbox.running {
            running.process.kill();
        }
    }
}

/// Sends requests, each over a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a request that has to succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.is_ok(), "{self:?}");
        self.body
    }

    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Client {
    /// An error means that the whole answer was not received.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<Answer> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = self.begin(method, path, ("application/json", body.len()))?;
        stream.write_all(body.as_bytes())?;
        read_answer(stream)
    }

    /// Sends the head of a request, with the type and the length of a body that is the caller's to send.
    pub(crate) fn begin(
        &self,
        method: &str,
        path: &str,
        (kind, length): (&str, usize),
    ) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n\
             content-type: {kind}\r\ncontent-length: {length}\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null).unwrap()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, body).unwrap()
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &Value::Null).unwrap()
    }

    /// What a command in a sandbox says, which has to succeed.
    #[track_caller]
    pub(crate) fn run(&self, sandbox: &str, command: &str) -> String {
        let path = format!("/toolbox/{sandbox}/process/execute");
        let answer = self.post(&path, &serde_json::json!({ "command": command }));
        let body = answer.ok();
        assert_eq!(body["exitCode"], 0, "{command}: {body}");
        body["result"].as_str().unwrap().trim_end().to_owned()
    }

    /// All sandboxes, by id.
    pub(crate) fn sandboxes(&self) -> Vec<Value> {
        let listed = self.get("/api/sandbox?limit=200").ok();
        let items = listed["items"].as_array().unwrap().clone();
        assert!(items.len() < 200, "the list has more than one page");
        items
    }
}

/// Reads an answer to its end.
pub(crate) fn read_answer(mut stream: TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return Err(cut());
    }
    Ok(Answer {
        status: status.ok_or_else(cut)?,
        body: serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())),
    })
}
