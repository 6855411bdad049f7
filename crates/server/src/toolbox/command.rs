//! Runs a command in a box to its end and gives what it printed. For the toolbox's own needs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::{EngineError, OnDisconnect};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use crate::error::{ApiError, Result};
use crate::machines::{CommandSpec, Input, Machine, Output, Running, exit_code};

const STDOUT_BYTES_MAX: u64 = 32 * 1024 * 1024;
const STDERR_BYTES_MAX: u64 = 64 * 1024;
/// How long a command may take that talks to nobody.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);

/// How long its output is read after its end.
const GRACE: Duration = Duration::from_secs(1);

/// A command to run.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) argv: Vec<OsString>,
    /// On top of the machine's own.
    pub(super) env: Vec<(String, String)>,
    /// The work directory if none is given.
    pub(super) cwd: Option<PathBuf>,
    pub(super) stdin: Vec<u8>,
    pub(super) timeout: Duration,
}

impl Wanted {
    pub(super) fn new(argv: Vec<OsString>) -> Self {
        Self {
            argv,
            env: Vec::new(),
            cwd: None,
            stdin: Vec::new(),
            timeout: TIMEOUT,
        }
    }
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) exit_code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs a command. It is ended when its time is over, or when nobody waits for it any longer.
pub(super) async fn collect(machine: &Arc<Machine>, wanted: Wanted) -> Result<Collected> {
    let more = wanted.env.iter().map(|(name, value)| (name, value));
    let spec = CommandSpec {
        env: machine.environment(more),
        cwd: wanted
            .cwd
            .unwrap_or_else(|| machine.work_dir().to_path_buf()),
        argv: wanted.argv,
        input: Input::Piped,
        output: Output::Separate,
        disconnect: OnDisconnect::Kill,
    };
    let mut running = match machine.start(spec).await {
        Ok(running) => running,
        Err(EngineError::CommandNotFound { program }) => {
            return Err(ApiError::new(
                ErrorCode::UnprocessableEntity,
                format!(
                    "`{program}` is not installed in this sandbox: install it, or use a snapshot that has it"
                ),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    match tokio::time::timeout(wanted.timeout, talk(&mut running, &wanted.stdin)).await {
        Ok(Ok(collected)) => Ok(collected),
        Ok(Err(error)) => {
            // The first error is the one to tell.
            drop(running.kill());
            Err(error)
        }
        Err(_elapsed) => {
            drop(running.kill());
            Err(ApiError::new(
                ErrorCode::RequestTimeout,
                format!("it took more than {} seconds", wanted.timeout.as_secs()),
            ))
        }
    }
}

async fn talk(running: &mut Running, input: &[u8]) -> Result<Collected> {
    let (stdin, from_stdout, from_stderr) = (
        running.stdin.take(),
        running.stdout.take(),
        running.stderr.take(),
    );
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit = {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command may end without reading what it is told.
                drop(stdin.write_all(input).await);
            }
            Ok(())
        };
        let mut streams = pin!(async {
            tokio::try_join!(
                write,
                read(from_stdout, &mut stdout, STDOUT_BYTES_MAX),
                read_beginning(from_stderr, &mut stderr, STDERR_BYTES_MAX),
            )
        });
        tokio::select! {
            read = &mut streams => {
                read?;
                running.wait().await?
            }
            exit = running.wait() => {
                // What the command left running may hold its streams open for ever.
                if let Ok(read) = tokio::time::timeout(GRACE, streams).await {
                    read?;
                }
                exit?
            }
        }
    };
    Ok(Collected {
        exit_code: exit_code(exit),
        stdout,
        stderr,
    })
}

/// Everything until the end, which must not be too much.
async fn read(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    bytes_max: u64,
) -> Result<()> {
    if let Some(from) = from {
        // What was read before an error is all there is.
        drop(from.take(bytes_max + 1).read_to_end(into).await);
    }
    if u64::try_from(into.len()).is_ok_and(|length| length <= bytes_max) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the answer has more than {bytes_max} bytes"
    )))
}

/// The first bytes; the others are read so that nobody waits to write them.
async fn read_beginning(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    bytes_max: u64,
) -> Result<()> {
    if let Some(mut from) = from {
        drop((&mut from).take(bytes_max).read_to_end(into).await);
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    Ok(())
}
