//! A command from its start to its end: fed, read, bounded in time and bytes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holm_daytona_wire::StringMap;
use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::files::EntryKind;
use holm_sandbox_linux::{EngineError, OnDisconnect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::buffers::{Buffers, Held, Room};
use crate::error::{ApiError, Result, chain};
use crate::machines::{CommandSpec, Input, Machine, Output, Running, exit_code};

/// The shells that a command is fed to: the first that the box has.
pub(in crate::toolbox) const SHELLS: [&str; 2] = ["bash", "sh"];
/// Stands where output was dropped.
pub(in crate::toolbox) const TRUNCATED: &str = "\n[truncated]\n";
/// How long output is awaited after the command has ended, when something that it left behind may still write.
const DRAIN: Duration = Duration::from_millis(100);
const CHUNK_BYTES: usize = 64 * 1024;

/// What to run.
#[derive(Debug)]
pub(in crate::toolbox) struct Job<'a> {
    /// In order of preference; the first whose program exists is taken.
    pub(in crate::toolbox) argvs: Vec<Vec<OsString>>,
    pub(in crate::toolbox) input: Vec<u8>,
    pub(in crate::toolbox) cwd: PathBuf,
    pub(in crate::toolbox) envs: &'a StringMap,
    pub(in crate::toolbox) timeout_seconds: Option<u64>,
    pub(in crate::toolbox) output_bytes_max: usize,
    pub(in crate::toolbox) buffers: &'a Buffers,
}

#[derive(Debug)]
pub(in crate::toolbox) struct Outcome {
    pub(in crate::toolbox) end: End,
    /// Both outputs in the order in which they were written.
    pub(in crate::toolbox) output: Vec<u8>,
    /// The memory of the output, to be kept until it was sent.
    pub(in crate::toolbox) held: Held,
    is_truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::toolbox) enum End {
    Exited(i32),
    TimedOut { seconds: u64 },
}

impl Outcome {
    pub(in crate::toolbox) fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.output).into_owned();
        if self.is_truncated {
            text.push_str(TRUNCATED);
        }
        text
    }
}

/// Runs a command to its end. Dropping the future ends the command.
///
/// One that cannot be started at all has the exit code -1 and says why, as Daytona does.
pub(in crate::toolbox) async fn run(machine: &Arc<Machine>, job: Job<'_>) -> Result<Outcome> {
    let spec = CommandSpec {
        argv: Vec::new(),
        env: machine.environment(job.envs),
        cwd: job.cwd.clone(),
        input: Input::Piped,
        output: Output::Merged,
        disconnect: OnDisconnect::Kill,
    };
    let mut running = match machine.start_first(spec, &job.argvs).await {
        Ok(running) => running,
        Err(error) => {
            return Ok(Outcome {
                output: not_started(machine, &job.cwd, error).await?.into_bytes(),
                end: End::Exited(-1),
                held: Held::default(),
                is_truncated: false,
            });
        }
    };
    let mut capture = Capture {
        output: Vec::new(),
        bytes_max: job.output_bytes_max,
        buffers: job.buffers,
        held: Held::default(),
        is_truncated: false,
    };
    let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
    let end = {
        let work = carry(&running, stdin, &job.input, stdout, &mut capture);
        match job.timeout_seconds {
            None => End::Exited(work.await?),
            Some(seconds) => match tokio::time::timeout(Duration::from_secs(seconds), work).await {
                Ok(code) => End::Exited(code?),
                Err(_elapsed) => {
                    // Nothing of it runs any more when the client hears of it.
                    running.kill_all(machine.inner()).await?;
                    End::TimedOut { seconds }
                }
            },
        }
    };
    Ok(Outcome {
        end,
        output: capture.output,
        held: capture.held,
        is_truncated: capture.is_truncated,
    })
}

/// Why a command could not be started, for its user. A folder that is not there is an error of the request.
pub(in crate::toolbox) async fn not_started(
    machine: &Arc<Machine>,
    cwd: &Path,
    error: EngineError,
) -> Result<String> {
    let is_about_the_command = matches!(
        error,
        EngineError::Launch { .. }
            | EngineError::CommandNotFound { .. }
            | EngineError::CommandNotExecutable { .. }
    );
    if !is_about_the_command {
        return Err(error.into());
    }
    let folder = cwd.to_path_buf();
    let found = machine.blocking(move |machine| {
        let found = machine.files().and_then(|files| files.metadata(&folder));
        Ok::<_, ApiError>(found.is_ok_and(|found| found.kind == EntryKind::Directory))
    });
    if found.await? {
        Ok(chain(&error))
    } else {
        Err(ApiError::bad_request(format!(
            "the working directory `{}` is no folder of the sandbox",
            cwd.display()
        )))
    }
}

/// Why a session or a terminal has no shell.
pub(in crate::toolbox) async fn no_shell(
    machine: &Arc<Machine>,
    cwd: &Path,
    error: EngineError,
) -> ApiError {
    if matches!(error, EngineError::CommandNotFound { .. }) {
        return ApiError::new(
            ErrorCode::UnprocessableEntity,
            "this needs a shell, and the sandbox has neither `bash` nor `sh`: use a snapshot that has one",
        );
    }
    match not_started(machine, cwd, error).await {
        Ok(reason) => ApiError::internal(
            format!("the shell could not be started: {reason}"),
            io::Error::other(reason),
        ),
        Err(error) => error,
    }
}

async fn carry(
    running: &Running,
    stdin: Option<pipe::Sender>,
    input: &[u8],
    stdout: Option<pipe::Receiver>,
    capture: &mut Capture<'_>,
) -> Result<i32> {
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input is none of our business.
            drop(stdin.write_all(input).await);
        }
    };
    let read = async {
        if let Some(mut stdout) = stdout {
            capture.read_all(&mut stdout).await;
        }
    };
    tokio::pin!(feed, read);
    let (mut is_fed, mut is_read) = (false, false);
    let exit = loop {
        tokio::select! {
            () = &mut feed, if !is_fed => is_fed = true,
            () = &mut read, if !is_read => is_read = true,
            exit = running.wait() => break exit?,
        }
    };
    if !is_read {
        drop(tokio::time::timeout(DRAIN, read).await);
    }
    Ok(exit_code(exit))
}

/// Output up to a bound.
struct Capture<'a> {
    output: Vec<u8>,
    bytes_max: usize,
    buffers: &'a Buffers,
    held: Held,
    is_truncated: bool,
}

impl Capture<'_> {
    async fn read_all(&mut self, from: &mut pipe::Receiver) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // A pipe that cannot be read has ended.
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            let mut room = self.bytes_max.saturating_sub(self.output.len());
            if self.buffers.grow(&mut self.held, count.min(room)) == Room::None {
                room = 0;
            }
            self.is_truncated |= count > room;
            let kept = chunk.get(..count.min(room)).unwrap_or_default();
            self.output.extend_from_slice(kept);
        }
    }
}
