//! One channel: a shell, a command or the box's SFTP server; or a port of the box.
//!
//! ```text
//! requests (terminal, variables) ──▶ shell, command or SFTP ──▶ its end, or the client's
//! ```
//!
//! What the client started ends with its channel: first by a hang-up, then by force. What it put into the background
//! and left behind is not looked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::pending;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use holm_sandbox_linux::{
    EngineError, OnDisconnect, Reach, TerminalSize, make_nonblocking, resize_terminal,
};
use russh::server::{ChannelOpenHandle, Msg};
use russh::{Channel, ChannelMsg, ChannelOpenFailure, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::machines::{CommandSpec, Input, Machine, Output, Running, exit_code};
use crate::sandboxes::Sandbox;

/// The first that a box has.
const SHELLS: [&str; 2] = ["bash", "sh"];
/// Where Debian, Fedora and Alpine have it.
const SFTP_SERVERS: [&str; 3] = [
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
];
const VARIABLES_MAX: usize = 128;
const VARIABLE_BYTES_MAX: usize = 32 * 1024;
const CHUNK_BYTES: usize = 32 * 1024;
/// How long more output is awaited after a command has ended: something in the background may hold its pipe open.
const QUIET: Duration = Duration::from_millis(200);
/// How long a program may take to end after a hang-up.
const HANG_UP: Duration = Duration::from_secs(1);
/// As `ssh` says it of its own failures.
const EXIT_FAILED: u32 = 255;
const EXIT_NOT_FOUND: u32 = 127;
const STDERR: u32 = 1;
const SIGHUP: i32 = 1;

/// What the client asked for.
#[derive(Debug)]
enum What {
    Shell,
    Command(OsString),
    Sftp,
}

/// How it is to be started.
#[derive(Debug, Default)]
struct Wishes {
    variables: BTreeMap<String, String>,
    terminal: Option<TerminalSize>,
}

/// A command with both ends of its streams.
struct Started {
    running: Running,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    terminal: Option<OwnedFd>,
}

/// Serves one channel to its end.
pub(super) async fn run(channel: Channel<Msg>, sandbox: &Arc<Sandbox>, gone: CancellationToken) {
    let (mut reading, writing) = channel.split();
    let _awake = sandbox.activity.begin();
    let mut wishes = Wishes::default();
    let asked = tokio::select! {
        asked = wishes.read(&mut reading) => asked,
        () = gone.cancelled() => None,
    };
    let Some(what) = asked else {
        return;
    };
    let status = match start(sandbox, &what, &wishes).await {
        Ok(started) => attend(started, &mut reading, &writing, &gone).await,
        Err(failure) => {
            let text = format!("{}\n", failure.message);
            drop(writing.extended_data_bytes(STDERR, text).await);
            Some(failure.status)
        }
    };
    if let Some(status) = status {
        // The client may have gone meanwhile.
        drop(writing.exit_status(status).await);
        drop(writing.eof().await);
    }
    drop(writing.close().await);
}

impl Wishes {
    /// Collects what is wished until something is to be started.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "messages of the protocol that may come and mean nothing here; the list is open"
    )]
    async fn read(&mut self, reading: &mut ChannelReadHalf) -> Option<What> {
        loop {
            match reading.wait().await? {
                ChannelMsg::RequestPty {
                    term,
                    col_width,
                    row_height,
                    ..
                } => {
                    self.set("TERM", &term);
                    self.terminal = Some(size(col_width, row_height));
                }
                ChannelMsg::SetEnv {
                    variable_name,
                    variable_value,
                    ..
                } => self.set(&variable_name, &variable_value),
                ChannelMsg::RequestShell { .. } => return Some(What::Shell),
                ChannelMsg::Exec { command, .. } => {
                    return Some(What::Command(OsString::from_vec(command)));
                }
                ChannelMsg::RequestSubsystem { name, .. } if name == "sftp" => {
                    return Some(What::Sftp);
                }
                ChannelMsg::Close => return None,
                // Nothing runs yet that it could concern.
                _ => {}
            }
        }
    }

    /// Keeps a variable, if it is one that a shell could have set.
    fn set(&mut self, name: &str, value: &str) {
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_fine = is_name
            && !value.contains('\0')
            && name.len() + value.len() <= VARIABLE_BYTES_MAX
            && self.variables.len() < VARIABLES_MAX;
        if is_fine {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }
}

fn size(columns: u32, rows: u32) -> TerminalSize {
    let side = |cells: u32| u16::try_from(cells).unwrap_or(u16::MAX);
    TerminalSize {
        rows: side(rows),
        columns: side(columns),
    }
}

/// Why nothing was started, for the person at the other end.
struct Failure {
    message: String,
    status: u32,
}

async fn start(sandbox: &Arc<Sandbox>, what: &What, wishes: &Wishes) -> Result<Started, Failure> {
    let machine = sandbox.machine().map_err(|error| Failure {
        message: error.message,
        status: EXIT_FAILED,
    })?;
    let mut failed = None;
    for argv in argvs(what) {
        match start_one(&machine, argv, wishes).await {
            Ok(started) => return Ok(started),
            Err(error @ EngineError::CommandNotFound { .. }) => failed = Some(error),
            Err(error) => {
                return Err(Failure {
                    message: crate::error::chain(&error),
                    status: EXIT_FAILED,
                });
            }
        }
    }
    let message = match what {
        What::Sftp => {
            "the sandbox has no SFTP server: install openssh-sftp-server in it, or in its image"
                .to_owned()
        }
        What::Shell | What::Command(_) => failed
            .as_ref()
            .map_or_else(String::new, |error| crate::error::chain(error)),
    };
    Err(Failure {
        message,
        status: EXIT_NOT_FOUND,
    })
}

/// What to try, one after the other.
fn argvs(what: &What) -> Vec<Vec<OsString>> {
    match what {
        What::Sftp => SFTP_SERVERS
            .iter()
            .map(|server| vec![server.into()])
            .collect(),
        What::Shell => SHELLS
            .iter()
            .map(|shell| vec![shell.into(), "-l".into()])
            .collect(),
        What::Command(text) => SHELLS
            .iter()
            .map(|shell| vec![shell.into(), "-c".into(), text.clone()])
            .collect(),
    }
}

async fn start_one(
    machine: &Arc<Machine>,
    argv: Vec<OsString>,
    wishes: &Wishes,
) -> Result<Started, EngineError> {
    let spec = CommandSpec {
        argv,
        env: machine.environment(&wishes.variables),
        cwd: machine.work_dir().to_path_buf(),
        input: Input::Piped,
        output: Output::Separate,
        disconnect: OnDisconnect::Kill,
    };
    let Some(size) = wishes.terminal else {
        let mut running = machine.start(spec).await?;
        return Ok(Started {
            stdin: running.stdin.take(),
            stdout: running.stdout.take(),
            stderr: running.stderr.take(),
            terminal: None,
            running,
        });
    };
    let (running, terminal) = machine.start_on_terminal(spec, size).await?;
    let ends = || {
        make_nonblocking(terminal.as_fd())?;
        // Pipes in name only: readable and writable mean the same for a terminal.
        let reading = pipe::Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?;
        let typing = pipe::Sender::from_owned_fd_unchecked(terminal.try_clone()?)?;
        std::io::Result::Ok((reading, typing))
    };
    let (reading, typing) = ends().map_err(|source| EngineError::Control {
        doing: "use a terminal of",
        id: machine.id.clone(),
        source,
    })?;
    Ok(Started {
        running,
        stdin: Some(typing),
        stdout: Some(reading),
        stderr: None,
        terminal: Some(terminal),
    })
}

/// Carries everything to and fro until the command or the client has ended. None: nobody is there to be told.
async fn attend(
    started: Started,
    reading: &mut ChannelReadHalf,
    writing: &ChannelWriteHalf<Msg>,
    gone: &CancellationToken,
) -> Option<u32> {
    let Started {
        running,
        stdin,
        stdout,
        stderr,
        terminal,
    } = started;
    let ended = CancellationToken::new();
    let output = async |from: Option<pipe::Receiver>, stream: Option<u32>| {
        let Some(mut from) = from else { return };
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Some(bytes) = read_some(&mut from, &mut chunk, &ended).await {
            let bytes = bytes.to_vec();
            let sent = match stream {
                None => writing.data_bytes(bytes).await,
                Some(stream) => writing.extended_data_bytes(stream, bytes).await,
            };
            if sent.is_err() {
                // The connection has ended, which `gone` tells.
                pending::<()>().await;
            }
        }
    };
    let work = async {
        let watched = async {
            let exit = running.wait().await;
            ended.cancel();
            exit
        };
        let (exit, (), ()) =
            tokio::join!(watched, output(stdout, None), output(stderr, Some(STDERR)));
        exit
    };
    let exit = tokio::select! {
        exit = work => Some(exit),
        () = feed(reading, stdin, terminal.as_ref(), &running) => None,
        () = gone.cancelled() => None,
    };
    match exit {
        Some(Ok(exit)) => Some(u32::try_from(exit_code(exit)).unwrap_or(EXIT_FAILED)),
        Some(Err(_)) => Some(EXIT_FAILED),
        None => {
            hang_up(&running).await;
            None
        }
    }
}

/// The next piece of output, or none at its end.
async fn read_some<'a>(
    from: &mut pipe::Receiver,
    chunk: &'a mut [u8],
    ended: &CancellationToken,
) -> Option<&'a [u8]> {
    let quiet = async {
        ended.cancelled().await;
        tokio::time::sleep(QUIET).await;
    };
    let count = tokio::select! {
        // A terminal that nobody has open any more answers with an error.
        read = from.read(chunk) => read.ok()?,
        () = quiet => 0,
    };
    chunk.get(..count).filter(|bytes| !bytes.is_empty())
}

/// Hands input, signals and sizes on, until the client closes the channel.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "messages of the protocol that may come and mean nothing here; the list is open"
)]
async fn feed(
    reading: &mut ChannelReadHalf,
    mut stdin: Option<pipe::Sender>,
    terminal: Option<&OwnedFd>,
    running: &Running,
) {
    while let Some(message) = reading.wait().await {
        match message {
            ChannelMsg::Data { data } => {
                let refused = match &mut stdin {
                    Some(stdin) => stdin.write_all(&data).await.is_err(),
                    None => false,
                };
                if refused {
                    // It reads no more; the rest goes nowhere.
                    stdin = None;
                }
            }
            // A terminal is not at its end because nobody types.
            ChannelMsg::Eof if terminal.is_none() => stdin = None,
            ChannelMsg::WindowChange {
                col_width,
                row_height,
                ..
            } => {
                if let Some(terminal) = terminal {
                    drop(resize_terminal(
                        terminal.as_fd(),
                        size(col_width, row_height),
                    ));
                }
            }
            ChannelMsg::Signal { signal } => {
                if let Some(number) = number(&signal) {
                    // One that has ended needs no signal.
                    drop(running.job().signal(number, Reach::Group));
                }
            }
            ChannelMsg::Close => return,
            _ => {}
        }
    }
}

/// Asks the program to end, and leaves the rest to the end of its job.
async fn hang_up(running: &Running) {
    drop(running.job().signal(SIGHUP, Reach::Group));
    drop(tokio::time::timeout(HANG_UP, running.wait()).await);
}

fn number(signal: &Sig) -> Option<i32> {
    Some(match signal {
        Sig::HUP => SIGHUP,
        Sig::INT => 2,
        Sig::QUIT => 3,
        Sig::ILL => 4,
        Sig::ABRT => 6,
        Sig::FPE => 8,
        Sig::KILL => 9,
        Sig::USR1 => 10,
        Sig::SEGV => 11,
        Sig::PIPE => 13,
        Sig::ALRM => 14,
        Sig::TERM => 15,
        Sig::Custom(_) => return None,
    })
}

/// Connects a channel to a port of the box, until one side has enough.
pub(super) async fn tunnel(
    channel: Channel<Msg>,
    reply: ChannelOpenHandle,
    sandbox: &Arc<Sandbox>,
    port: u16,
) {
    let _awake = sandbox.activity.begin();
    let Some(mut stream) = connect(sandbox, port).await else {
        reply.reject(ChannelOpenFailure::ConnectFailed).await;
        return;
    };
    reply.accept().await;
    let mut channel = channel.into_stream();
    // Sides that hang up in the middle are usual.
    drop(tokio::io::copy_bidirectional(&mut channel, &mut stream).await);
}

async fn connect(sandbox: &Arc<Sandbox>, port: u16) -> Option<tokio::net::TcpStream> {
    let machine = sandbox.machine().ok()?;
    let connected = tokio::task::spawn_blocking(move || machine.inner().connect(port)).await;
    let socket = connected.ok()?.ok()?;
    tokio::net::TcpStream::from_std(TcpStream::from(socket)).ok()
}
