//! Talking to one language server.
//!
//! Two tasks carry messages in and out; questions wait for their answers by number. When the server ends, or says what is no
//! message, every question fails and the connection is over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holm_daytona_wire::error::ErrorCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use super::framing;
use crate::error::{ApiError, Result};
use crate::machines::Running;

/// How long an answer may take: a first look at a large project takes its time.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a server may not read what we write.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a server may take to say goodbye.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(2);
/// Messages that wait to be written.
const QUEUE_MAX: usize = 64;
/// Questions that wait for an answer.
const QUESTIONS_MAX: usize = 256;
/// What is kept of what a server complains.
const COMPLAINT_BYTES_MAX: usize = 2 * 1024;
const METHOD_NOT_FOUND: i32 = -32_601;

type Answer = std::result::Result<Value, String>;

/// One running language server.
#[derive(Debug)]
pub(super) struct Connection {
    /// Dropping it ends the server.
    running: Running,
    talk: Arc<Talk>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct Talk {
    outgoing: mpsc::Sender<Vec<u8>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    is_over: AtomicBool,
    complaints: Mutex<Vec<u8>>,
}

impl Connection {
    /// Takes over the streams of a server that was just started.
    pub(super) fn new(mut running: Running) -> Self {
        let (outgoing, queue) = mpsc::channel(QUEUE_MAX);
        let talk = Arc::new(Talk {
            outgoing,
            questions: Mutex::default(),
            is_over: AtomicBool::new(false),
            complaints: Mutex::default(),
        });
        if let Some(stdin) = running.stdin.take() {
            tokio::spawn(write(stdin, queue));
        }
        if let Some(stdout) = running.stdout.take() {
            tokio::spawn(Arc::clone(&talk).read(stdout));
        }
        if let Some(stderr) = running.stderr.take() {
            tokio::spawn(Arc::clone(&talk).listen_to_complaints(stderr));
        }
        Self {
            running,
            talk,
            next_id: AtomicU64::new(1),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.talk.is_over.load(Ordering::Acquire)
    }

    /// The last that the server wrote to its standard error.
    pub(super) fn complaints(&self) -> String {
        let complaints = self.talk.complaints.lock();
        let complaints = complaints.unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&complaints).trim().to_owned()
    }

    /// Asks and waits for the answer.
    pub(super) async fn ask(&self, method: &str, parameters: Value) -> Result<Value> {
        self.ask_within(ANSWER_TIME_MAX, method, parameters).await
    }

    async fn ask_within(&self, time: Duration, method: &str, parameters: Value) -> Result<Value> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut questions = self.talk.questions();
            if questions.len() >= QUESTIONS_MAX {
                return Err(ApiError::new(
                    ErrorCode::TooManyRequests,
                    "the language server has too many questions to answer",
                ));
            }
            questions.insert(id, sender);
        }
        let forget = Forget {
            talk: &self.talk,
            id,
        };
        let question =
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.talk.send(&question).await?;
        if self.is_over() {
            return Err(self.ended());
        }
        match tokio::time::timeout(time, answer).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(message))) => Err(ApiError::bad_request(format!(
                "the language server refused `{method}`: {message}"
            ))),
            Ok(Err(_)) => Err(self.ended()),
            Err(_elapsed) => {
                drop(forget);
                self.tell("$/cancelRequest", json!({ "id": id })).await?;
                Err(ApiError::new(
                    ErrorCode::RequestTimeout,
                    format!(
                        "the language server did not answer within {} seconds",
                        time.as_secs()
                    ),
                ))
            }
        }
    }

    fn ended(&self) -> ApiError {
        let complaints = self.complaints();
        ApiError::new(
            ErrorCode::InternalServerError,
            format!("the language server ended: {complaints}"),
        )
    }

    /// Says something that has no answer.
    pub(super) async fn tell(&self, method: &str, parameters: Value) -> Result<()> {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": parameters });
        self.talk.send(&message).await
    }

    /// Ends the server, politely at first.
    pub(super) async fn end(&self) {
        let goodbye = self.ask_within(GOODBYE_TIME_MAX, "shutdown", Value::Null);
        if goodbye.await.is_ok() && self.tell("exit", Value::Null).await.is_ok() {
            drop(tokio::time::timeout(GOODBYE_TIME_MAX, self.running.wait()).await);
        }
        // It may be gone already.
        drop(self.running.kill());
    }
}

/// Takes a question out of the list when nobody waits for it any longer.
struct Forget<'a> {
    talk: &'a Talk,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.talk.questions().remove(&self.id);
    }
}

impl Talk {
    fn questions(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, message: &Value) -> Result<()> {
        let sent = self.outgoing.send(framing::frame(message));
        match tokio::time::timeout(WRITE_TIME_MAX, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ApiError::new(
                ErrorCode::InternalServerError,
                "the language server does not listen any longer",
            )),
        }
    }

    async fn read(self: Arc<Self>, stdout: pipe::Receiver) {
        let mut stream = BufReader::new(stdout);
        // Whatever is wrong with a message, nothing that follows it can be understood.
        while let Ok(Some(message)) = framing::read(&mut stream).await {
            self.hear(message).await;
        }
        self.is_over.store(true, Ordering::Release);
        self.questions().clear();
    }

    async fn hear(&self, mut message: Value) {
        let id = message["id"].take();
        match (id, message["method"].as_str()) {
            // A notice: diagnostics, progress, logs.
            (Value::Null, _) => {}
            (id, Some(method)) => {
                let answer = reply(id, method, &message["params"]);
                // A server that does not read answers hangs by itself; we do not wait for it here.
                drop(self.outgoing.try_send(framing::frame(&answer)));
            }
            (id, None) => {
                let waiting = id.as_u64().and_then(|id| self.questions().remove(&id));
                if let Some(waiting) = waiting {
                    let answer = match message["error"]["message"].as_str() {
                        Some(error) => Err(error.to_owned()),
                        None => Ok(message["result"].take()),
                    };
                    // Who asked may have gone.
                    drop(waiting.send(answer));
                }
            }
        }
    }

    async fn listen_to_complaints(self: Arc<Self>, mut stderr: pipe::Receiver) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            let mut complaints = self
                .complaints
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            complaints.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let too_many = complaints.len().saturating_sub(COMPLAINT_BYTES_MAX);
            complaints.drain(..too_many);
        }
    }
}

/// What an editor that has no settings and no screen answers.
fn reply(id: Value, method: &str, parameters: &Value) -> Value {
    let result = match method {
        "workspace/configuration" => {
            let wanted = parameters["items"].as_array().map_or(0, Vec::len);
            Value::Array(vec![Value::Null; wanted])
        }
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "workspace/workspaceFolders" => Value::Null,
        "workspace/applyEdit" => json!({ "applied": false }),
        _ => {
            let error = json!({ "code": METHOD_NOT_FOUND, "message": "not supported" });
            return json!({ "jsonrpc": "2.0", "id": id, "error": error });
        }
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

async fn write(mut stdin: pipe::Sender, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = queue.recv().await {
        match tokio::time::timeout(WRITE_TIME_MAX, stdin.write_all(&message)).await {
            Ok(Ok(())) => {}
            // The queue closes with us, which is how everybody learns of it.
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
