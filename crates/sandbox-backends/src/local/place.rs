//! Where commands run: in a box, or plainly on the host. Everything above sees no difference.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use holm_sandbox::{Capture, Redactor, StreamRedactor, exit_code_for_signal};
use holm_sandbox::{
    Exec, ExecOutcome, Interrupt, OutputSink, OutputStream, Result, SandboxError, Stdin,
};
use holm_sandbox_linux::plain::PlainCommand;
use holm_sandbox_linux::pump::{Cause, Ended, Interruption, Pump, Running, Source};
use holm_sandbox_linux::{
    Command, CommandUser, EngineError, Exit, LinuxBox, OnDisconnect, Reach, Streams,
};

use super::commands::Cancel;
use super::environment::{self, Environment};
use super::errors::engine_error;

/// Where commands run.
#[derive(Debug)]
pub(crate) enum Place {
    Boxed {
        inner: Box<LinuxBox>,
        environment: Environment,
    },
    Plain {
        environment: Environment,
    },
}

/// One command, ready to run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) argv: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: OwnedFd,
    pub(crate) timeout: Option<Duration>,
    pub(crate) interrupts: Option<Receiver<Interrupt>>,
    /// Ends the command from outside.
    pub(crate) cancel: Option<Cancel>,
}

impl Place {
    /// The environment that every command here begins with.
    pub(crate) fn environment(&self) -> Environment {
        match self {
            Self::Boxed { environment, .. } | Self::Plain { environment } => environment.clone(),
        }
    }

    /// Runs a command to its end and hands its output on as it comes.
    pub(crate) fn run(
        &self,
        run: Run,
        output: &mut dyn FnMut(Source, &[u8]),
    ) -> std::result::Result<Ended, EngineError> {
        let failed = |source| EngineError::Launch {
            stage: "make the standard streams".into(),
            program: run
                .argv
                .first()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            source,
        };
        let (stdout, stdout_inside) = io::pipe().map_err(failed)?;
        let (stderr, stderr_inside) = io::pipe().map_err(failed)?;
        let cancel = match (&run.interrupts, run.cancel) {
            (Some(_), None) => Some(Cancel::new().map_err(failed)?),
            (_, cancel) => cancel,
        };
        let deadline = run.timeout.map(|timeout| Instant::now() + timeout);
        let running: Box<dyn Running> = match self {
            Self::Boxed { inner, .. } => {
                let command = Command {
                    argv: run.argv,
                    env: run.environment,
                    cwd: run.cwd,
                    user: CommandUser::BoxUser,
                    disconnect: OnDisconnect::Kill,
                };
                let streams = [
                    run.stdin.as_fd(),
                    stdout_inside.as_fd(),
                    stderr_inside.as_fd(),
                ];
                let job = inner.start(&command, &Streams::Descriptors(streams))?;
                drop((run.stdin, stdout_inside, stderr_inside));
                Box::new(job)
            }
            Self::Plain { .. } => {
                let command = PlainCommand {
                    argv: run.argv,
                    env: run.environment,
                    cwd: run.cwd,
                    user: None,
                };
                Box::new(command.start([run.stdin, stdout_inside.into(), stderr_inside.into()])?)
            }
        };
        if let (Some(interrupts), Some(cancel)) = (run.interrupts, &cancel) {
            forward(interrupts, cancel.clone());
        }
        let pump = Pump {
            stdout: stdout.into(),
            stderr: stderr.into(),
            deadline,
            interruptions: cancel.as_ref().map(Cancel::reader),
        };
        let ended = pump.run(running.as_ref(), output);
        if let Self::Plain { .. } = self {
            // No box ends what the command left in the background.
            drop(running.signal(libc_sigkill(), Reach::Tree));
        }
        ended
    }

    /// Runs what a caller asked for, within the bounds that the contract sets.
    pub(crate) fn exec(
        &self,
        exec: Exec,
        cwd: PathBuf,
        sink: Option<Box<dyn OutputSink>>,
        cancel: Cancel,
    ) -> Result<ExecOutcome> {
        let mut redactor = match self {
            Self::Boxed { .. } => Redactor::default(),
            // A plain command inherits the caller's secrets, and could print them.
            Self::Plain { environment } => Redactor::from_env(environment.iter().cloned()),
        };
        for (key, secret) in &exec.secret_env {
            redactor = redactor.with_secret(key.as_str(), secret);
        }
        let mut environment = self.environment();
        let plain = exec
            .env
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.clone()));
        environment::extend(&mut environment, plain);
        let secret = exec.secret_env.iter().map(|(key, secret)| {
            (
                OsString::from(key.as_str()),
                OsString::from(secret.expose()),
            )
        });
        environment::extend(&mut environment, secret);
        let started = Instant::now();
        let mut outputs = Outputs::new(exec.output_bytes_max, &redactor, sink);
        let run = Run {
            argv: exec.argv,
            environment,
            cwd,
            stdin: open_stdin(exec.stdin)?,
            timeout: exec.timeout,
            interrupts: exec.interrupts,
            cancel: Some(cancel),
        };
        let ended = self
            .run(run, &mut |source, piece| outputs.push(source, piece))
            .map_err(engine_error)?;
        let (stdout, stderr, truncated) = outputs.finish();
        let (exit_code, signal) = match ended.exit {
            Exit::Code(code) => (code, None),
            Exit::Signal(signal) => (exit_code_for_signal(signal), Some(signal)),
            // Nobody knows how it ended, so it did not end well.
            Exit::Lost => (exit_code_for_signal(libc_sigkill()), Some(libc_sigkill())),
        };
        Ok(ExecOutcome {
            exit_code,
            signal,
            stdout,
            stderr,
            duration: started.elapsed(),
            timed_out: ended.cause == Cause::Deadline,
            truncated,
        })
    }
}

fn libc_sigkill() -> i32 {
    rustix::process::Signal::KILL.as_raw()
}

/// Both streams of a command: kept within bounds, and passed on if somebody listens.
struct Outputs {
    captures: [Capture; 2],
    live: Option<(Box<dyn OutputSink>, [StreamRedactor; 2])>,
}

impl Outputs {
    fn new(bytes_max: usize, redactor: &Redactor, sink: Option<Box<dyn OutputSink>>) -> Self {
        let capture = || Capture::new(bytes_max, redactor.clone());
        let stream = || StreamRedactor::new(redactor.clone());
        Self {
            captures: [capture(), capture()],
            live: sink.map(|sink| (sink, [stream(), stream()])),
        }
    }

    fn push(&mut self, source: Source, piece: &[u8]) {
        let (stream, [out, err]) = (stream_of(source), &mut self.captures);
        match source {
            Source::Stdout => out.push(piece),
            Source::Stderr => err.push(piece),
        }
        if let Some((sink, [out, err])) = &mut self.live {
            let redacted = match source {
                Source::Stdout => out.push(piece),
                Source::Stderr => err.push(piece),
            };
            if !redacted.is_empty() {
                sink.output(stream, &redacted);
            }
        }
    }

    fn finish(self) -> (Vec<u8>, Vec<u8>, bool) {
        if let Some((mut sink, [out, err])) = self.live {
            for (source, rest) in [
                (Source::Stdout, out.finish()),
                (Source::Stderr, err.finish()),
            ] {
                if !rest.is_empty() {
                    sink.output(stream_of(source), &rest);
                }
            }
        }
        let [out, err] = self.captures.map(Capture::finish);
        (out.bytes, err.bytes, out.truncated || err.truncated)
    }
}

fn stream_of(source: Source) -> OutputStream {
    match source {
        Source::Stdout => OutputStream::Stdout,
        Source::Stderr => OutputStream::Stderr,
    }
}

/// Turns what a caller gives as input into a descriptor. What needs copying is copied by a thread that
/// ends when the command stops reading.
fn open_stdin(stdin: Stdin) -> Result<OwnedFd> {
    let failed = |source: io::Error| SandboxError::Backend {
        doing: "open the command's input".into(),
        hint: None,
        source: source.into(),
    };
    let mut reader: Box<dyn Read + Send> = match stdin {
        Stdin::Closed => return Ok(File::open("/dev/null").map_err(failed)?.into()),
        Stdin::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
        Stdin::Reader(reader) => reader,
    };
    let (inside, mut writer) = io::pipe().map_err(failed)?;
    std::thread::Builder::new()
        .name("holm-stdin".into())
        .spawn(move || {
            let mut piece = [0; 64 * 1024];
            loop {
                match reader.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => {
                        // A command that does not read its input is free to.
                        if writer
                            .write_all(piece.get(..count).unwrap_or_default())
                            .is_err()
                        {
                            break;
                        }
                    }
                }
            }
        })
        .map_err(failed)?;
    Ok(inside.into())
}

/// Carries interruptions to the pump. Ends with the sender.
fn forward(interrupts: Receiver<Interrupt>, cancel: Cancel) {
    let carry = move || {
        while let Ok(interrupt) = interrupts.recv() {
            let interruption = match interrupt {
                Interrupt::Drain => Interruption::Drain,
                Interrupt::Kill => Interruption::Kill,
            };
            if cancel.send(interruption).is_err() {
                break;
            }
        }
    };
    // Without the thread the command cannot be interrupted, but it runs and ends all the same.
    drop(
        std::thread::Builder::new()
            .name("holm-interrupts".into())
            .spawn(carry),
    );
}
