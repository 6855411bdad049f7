//! One set of Python names: a worker process in the box, and the task that gives it one piece of code after the other.
//!
//! ```text
//! run ──▶ queue ──▶ driver ──line──▶ worker.py ──lines──▶ driver ──▶ events of that run
//! ```
//!
//! A worker that has ended, whyever, is replaced at the next run, with no names.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use holm_daytona_wire::StringMap;
use holm_daytona_wire::interpreter::{InterpreterEnd, InterpreterEvent};
use holm_sandbox_linux::{OnDisconnect, Reach};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use crate::error::{ApiError, Result};
use crate::machines::{CommandSpec, Input, Machine, Output, Running, exit_code, write_all};
use crate::toolbox::execute::not_started;

const WORKER: &str = include_str!("worker.py");
const SIGINT: i32 = 2;
/// How long code may take to end after it was interrupted.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(2);
/// A line of the worker; it cuts what is printed into far smaller ones.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const RUNS_WAITING_MAX: usize = 64;
const EVENTS_WAITING_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Context {
    runs: mpsc::Sender<Run>,
    status: Arc<Status>,
}

#[derive(Debug, Default)]
struct Status {
    is_alive: AtomicBool,
    is_busy: AtomicBool,
}

/// A piece of code.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) text: String,
    pub(super) envs: StringMap,
    /// None waits for ever.
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug)]
struct Run {
    code: Code,
    events: mpsc::Sender<InterpreterEvent>,
    done: oneshot::Sender<Ended>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    Itself,
    TimedOut,
    /// The interpreter could not be started.
    NotStarted(String),
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    id: u64,
    code: &'a str,
    envs: &'a StringMap,
}

/// A line of the worker.
#[derive(Debug, Deserialize)]
struct Line {
    id: Option<u64>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    traceback: String,
}

impl Context {
    /// Starts the task of a context; its interpreter starts with the first run.
    pub(super) fn new(machine: &Arc<Machine>, cwd: PathBuf) -> Self {
        let (runs, waiting) = mpsc::channel(RUNS_WAITING_MAX);
        let status = Arc::new(Status::default());
        let driver = Driver {
            machine: Arc::downgrade(machine),
            cwd,
            status: Arc::clone(&status),
            worker: None,
            runs_begun: 0,
        };
        drop(tokio::spawn(driver.drive(waiting)));
        Self { runs, status }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.status.is_alive.load(Ordering::Relaxed)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_alive() && !self.status.is_busy.load(Ordering::Relaxed)
    }

    /// Puts code at the end of the queue. Dropping the receiver of the events interrupts it.
    pub(super) async fn run(
        &self,
        code: Code,
    ) -> Option<(mpsc::Receiver<InterpreterEvent>, oneshot::Receiver<Ended>)> {
        let (events, told) = mpsc::channel(EVENTS_WAITING_MAX);
        let (done, ended) = oneshot::channel();
        let run = Run { code, events, done };
        self.runs.send(run).await.ok()?;
        Some((told, ended))
    }
}

#[derive(Debug)]
struct Driver {
    /// Not held: the machine holds us.
    machine: Weak<Machine>,
    cwd: PathBuf,
    status: Arc<Status>,
    worker: Option<Worker>,
    runs_begun: u64,
}

impl Driver {
    /// Ends with the last handle of the context, and the interpreter with it.
    async fn drive(mut self, mut waiting: mpsc::Receiver<Run>) {
        while let Some(run) = waiting.recv().await {
            self.status.is_busy.store(true, Ordering::Relaxed);
            let ended = self.run(&run).await;
            let is_alive = self.worker.is_some();
            self.status.is_alive.store(is_alive, Ordering::Relaxed);
            self.status.is_busy.store(false, Ordering::Relaxed);
            // The client may be gone.
            drop(run.done.send(ended));
        }
    }

    async fn run(&mut self, run: &Run) -> Ended {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => {
                let Some(machine) = self.machine.upgrade() else {
                    return Ended::NotStarted("the sandbox has ended".to_owned());
                };
                match Worker::start(&machine, self.cwd.clone()).await {
                    Ok(worker) => worker,
                    Err(error) => return Ended::NotStarted(error.message),
                }
            }
        };
        self.status.is_alive.store(true, Ordering::Relaxed);
        self.runs_begun += 1;
        let id = self.runs_begun;
        let (outcome, why) = {
            let work = worker.run(id, run, TellEnd::Yes);
            tokio::pin!(work);
            let late = async {
                match run.code.timeout {
                    Some(timeout) => tokio::time::sleep(timeout).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                outcome = &mut work => (Some(outcome), Ended::Itself),
                () = late => (None, Ended::TimedOut),
                () = run.events.closed() => (None, Ended::Itself),
            }
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => worker.interrupt(id, run).await,
        };
        match outcome {
            Outcome::Ended => self.worker = Some(worker),
            Outcome::WorkerGone => {
                worker.kill();
                if why == Ended::Itself {
                    let code = worker.running.wait().await.map_or(-1, exit_code);
                    let gone = InterpreterEvent::Error {
                        name: "InterpreterExited".into(),
                        value: format!(
                            "the interpreter ended with exit code {code}; its variables are lost"
                        ),
                        traceback: String::new(),
                    };
                    drop(run.events.send(gone).await);
                }
            }
        }
        why
    }
}

/// Whether the client is told that the code has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TellEnd {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ended,
    WorkerGone,
}

#[derive(Debug)]
struct Worker {
    running: Running,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    /// What has come of the next lines.
    pending: Vec<u8>,
    /// Code that was told last, and whether it was told to the end.
    told: u64,
}

impl Worker {
    async fn start(machine: &Arc<Machine>, cwd: PathBuf) -> Result<Self> {
        let spec = CommandSpec {
            argv: Vec::new(),
            env: machine.environment([]),
            cwd: cwd.clone(),
            input: Input::Piped,
            output: Output::Separate,
            disconnect: OnDisconnect::Kill,
        };
        let argvs = ["python3", "python"].map(|python| {
            let argv = [python, "-u", "-c", WORKER];
            argv.map(Into::into).to_vec()
        });
        let mut running = match machine.start_first(spec, &argvs).await {
            Ok(running) => running,
            Err(error) => {
                let reason = not_started(machine, &cwd, error).await?;
                return Err(ApiError::bad_request(format!(
                    "the interpreter could not be started, it needs `python3` in the sandbox: {reason}"
                )));
            }
        };
        // Before the worker has moved its streams there is nothing to be said on this one.
        drop(running.stderr.take());
        match (running.stdin.take(), running.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok(Self {
                running,
                stdin,
                stdout,
                pending: Vec::new(),
                told: 0,
            }),
            (_, _) => Err(ApiError::bad_request("the interpreter has no pipes")),
        }
    }

    fn kill(&self) {
        // One that has ended needs no signal.
        drop(self.running.kill());
    }

    /// Has the code run, and passes on what it says. May be cancelled, and called again for the same run.
    async fn run(&mut self, id: u64, run: &Run, tell_end: TellEnd) -> Outcome {
        if self.told < id {
            self.told = id;
            let request = Request {
                id,
                code: &run.code.text,
                envs: &run.code.envs,
            };
            let Ok(mut line) = serde_json::to_vec(&request) else {
                return Outcome::WorkerGone;
            };
            line.push(b'\n');
            if write_all(&self.stdin, &line).await.is_err() {
                return Outcome::WorkerGone;
            }
        }
        while let Some(line) = self.line().await {
            if line.id != Some(id) {
                continue;
            }
            let event = match line.kind.as_str() {
                "stdout" => InterpreterEvent::Stdout { text: line.text },
                "stderr" => InterpreterEvent::Stderr { text: line.text },
                "error" => InterpreterEvent::Error {
                    name: line.name,
                    value: line.value,
                    traceback: line.traceback,
                },
                "end" => {
                    let end = match line.text.as_str() {
                        "interrupted" => InterpreterEnd::Interrupted,
                        _ => InterpreterEnd::Completed,
                    };
                    let event = InterpreterEvent::Control { text: end };
                    match tell_end {
                        // A client that is gone interrupts; the rest is for nobody.
                        TellEnd::Yes => drop(run.events.send(event).await),
                        TellEnd::No => {}
                    }
                    return Outcome::Ended;
                }
                _ => continue,
            };
            drop(run.events.send(event).await);
        }
        Outcome::WorkerGone
    }

    /// Interrupts the code as Ctrl-C would.
    async fn interrupt(&mut self, id: u64, run: &Run) -> Outcome {
        drop(self.running.job().signal(SIGINT, Reach::Group));
        // The timeout is told by how the connection closes: clients take an end for a success.
        let ending = self.run(id, run, TellEnd::No);
        let ended = tokio::time::timeout(INTERRUPT_PATIENCE, ending).await;
        ended.unwrap_or(Outcome::WorkerGone)
    }

    /// The next line that can be read; none when the worker is gone or says more than it can.
    async fn line(&mut self) -> Option<Line> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(at) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=at).collect();
                if let Ok(line) = serde_json::from_slice(&line) {
                    return Some(line);
                }
                continue;
            }
            if self.pending.len() > LINE_BYTES_MAX {
                return None;
            }
            match self.stdout.read(&mut chunk).await {
                Ok(count @ 1..) => self
                    .pending
                    .extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}
