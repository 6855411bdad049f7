//! One command in a session of its own: started, followed, fed, and ended with all that it started.
//!
//! ```text
//! prepare ──▶ Running ──mark──────────────▶ ended
//!                │                            ▲
//!                └──timeout, kill──▶ Ending ──┘   killed; what is still on its way is waited for, for [`DRAIN`]
//! ```
//!
//! Daytona has no timeout for commands of sessions, and deleting a session does not reach what has left its process group.
//! So all processes of a command carry its id in their environment, and are killed by that.
//!
//! **Invariants:** a command whose future is dropped is killed; its session is deleted, unless it left something running
//! that is meant to live on; memory is bounded by the caps of the two outputs.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use holm_daytona_client::{FollowedLog, InputEcho, Upload};
use holm_sandbox::{
    Exec, ExecOutcome, Interrupt, OutputSink, Result, SandboxError, Stdin, shell_quote,
};
use tokio::time::Instant;

use super::again::again;
use super::errors::{COMMAND_MISSING, COMMAND_NOT_EXECUTABLE, refused};
use super::input::Feed;
use super::inside;
use super::outputs::{How, Left, Outputs};
use super::sandbox::Inner;
use super::script::{self, INLINE_BYTES_MAX};

/// For what is on its way when a command has been killed.
const DRAIN: Duration = Duration::from_secs(2);
/// Between two looks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);
/// How often a log that broke off is followed anew.
const FOLLOWS_MAX: u32 = 5;
const FOLLOW_PAUSE: Duration = Duration::from_millis(300);
const KILLED: i32 = 137;
/// A backend that is told no exit code reports a failure.
const UNKNOWN: i32 = 1;

/// Runs a command whose `cwd` is absolute and confined already.
pub(super) async fn run(
    inner: &Arc<Inner>,
    mut exec: Exec,
    cwd: std::path::PathBuf,
    sink: Option<Box<dyn OutputSink>>,
) -> Result<ExecOutcome> {
    let id = holm_sandbox_linux::random_hex();
    let mut command = Command {
        guard: Guard::new(inner, &id),
        interrupts: exec.interrupts.take(),
        program: exec.argv.first().cloned().unwrap_or_default(),
        given_cwd: exec.cwd.clone().unwrap_or_else(|| cwd.clone()),
        outputs: Outputs::new(&exec, &id, inner.redactor(&exec), sink),
        deadline: None,
    };
    let started = Instant::now();
    let (cmd_id, feed) = command.start(&mut exec, &cwd).await?;
    command.deadline = exec
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let how = command.watch(&cmd_id, feed).await?;
    command.finish(&cmd_id, how, started.elapsed()).await
}

struct Command {
    guard: Guard,
    interrupts: Option<Receiver<Interrupt>>,
    program: std::ffi::OsString,
    given_cwd: std::path::PathBuf,
    outputs: Outputs,
    deadline: Option<Instant>,
}

impl Command {
    fn inner(&self) -> &Arc<Inner> {
        &self.guard.inner
    }

    /// Makes the session, brings along what the command needs, and starts it.
    async fn start(
        &mut self,
        exec: &mut Exec,
        cwd: &std::path::Path,
    ) -> Result<(String, Option<Feed>)> {
        let inner = Arc::clone(self.inner());
        let files = format!("{}/{}", inner.stage, self.guard.id);
        let script = script::command(exec, &self.guard.id, &inner.work_dir, cwd, &files)?;
        let is_inline = !script.is_secret && script.text.len() <= INLINE_BYTES_MAX;
        let mut uploads = Vec::new();
        let line = if is_inline {
            shell_quote(&["sh", "-c", &script.text])?
        } else {
            let path = format!("{files}.sh");
            let text = format!("rm -f -- \"$0\"\n{}", script.text);
            uploads.push(Upload::bytes(&path, text));
            shell_quote(&["sh", &path])?
        };
        let mut feed = None;
        match std::mem::take(&mut exec.stdin) {
            Stdin::Closed => {}
            Stdin::Bytes(bytes) => uploads.push(Upload::bytes(format!("{files}.in"), bytes)),
            Stdin::Reader(reader) => feed = Some(Feed::new(reader, files)),
        }
        let doing = "start a command";
        let sessions = inner.toolbox.sessions();
        let upload = inner.toolbox.files();
        let (made, uploaded) =
            tokio::join!(sessions.create(&self.guard.session), upload.upload(uploads));
        made.map_err(|error| inner.failed(doing, error))?;
        uploaded.map_err(|error| inner.failed(doing, error))?;
        let spawned = sessions.spawn(&self.guard.session, &line, InputEcho::Suppressed);
        let cmd_id = spawned.await.map_err(|error| inner.failed(doing, error))?;
        Ok((cmd_id, feed))
    }

    /// Follows the command to its end.
    async fn watch(&mut self, cmd_id: &str, feed: Option<Feed>) -> Result<How> {
        let inner = Arc::clone(self.inner());
        let (session, id) = (self.guard.session.clone(), self.guard.id.clone());
        let feeding = async {
            match feed {
                Some(feed) => feed.run(&inner.toolbox, &session, cmd_id).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(feeding);
        let mut is_fed = false;
        let mut log = follow(&inner, &session, cmd_id).await?;
        let (mut follows, mut is_last) = (1, false);
        let mut how = How::Ended;
        let mut until: Option<Instant> = None;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let next = until.or(self.deadline);
            tokio::select! {
                piece = log.next() => match piece {
                    Ok(Some(piece)) => self.outputs.take(piece),
                    Ok(None) if until.is_some() || is_last => return Ok(how),
                    broken => {
                        if follows >= FOLLOWS_MAX || until.is_some() || inner.is_torn_down() {
                            return match (broken, how) {
                                (Err(error), How::Ended) => {
                                    Err(inner.failed("follow a command", error))
                                }
                                (Ok(_), _) | (Err(_), How::TimedOut | How::Killed) => Ok(how),
                            };
                        }
                        // A goodbye that somebody in between may have said. After the command itself one look will do.
                        is_last = broken.is_ok() && is_over(&inner, &session, cmd_id).await;
                        follows += 1;
                        tokio::time::sleep(FOLLOW_PAUSE).await;
                        log = follow(&inner, &session, cmd_id).await?;
                        self.outputs.begin_again();
                    }
                },
                () = sleep_until(next) => {
                    if until.is_some() {
                        return Ok(how);
                    }
                    how = How::TimedOut;
                    kill(&inner, &id).await;
                    until = Instant::now().checked_add(DRAIN);
                }
                _ = looks.tick(), if self.interrupts.is_some() && until.is_none() => {
                    match self.interrupts.as_ref().map(Receiver::try_recv) {
                        Some(Ok(Interrupt::Drain)) => interrupt(&inner, self.outputs.pid).await,
                        Some(Ok(Interrupt::Kill)) => {
                            how = How::Killed;
                            kill(&inner, &id).await;
                            until = Instant::now().checked_add(DRAIN);
                        }
                        Some(Err(_)) | None => {}
                    }
                }
                () = &mut feeding, if !is_fed => is_fed = true,
            }
            if self.outputs.are_ended() || (until.is_some() && self.outputs.are_full()) {
                return Ok(how);
            }
        }
    }

    /// Tells how it went, and cleans up.
    async fn finish(mut self, cmd_id: &str, how: How, duration: Duration) -> Result<ExecOutcome> {
        let inner = Arc::clone(self.inner());
        let mut code = self.outputs.code;
        if code.is_none() && self.outputs.failure.is_none() && how == How::Ended {
            // Its shell was killed before it could say anything.
            let sessions = inner.toolbox.sessions();
            let found = sessions.command(&self.guard.session, cmd_id).await;
            code = found.ok().and_then(|command| command.exit_code);
        }
        if self.outputs.left == Left::Running && how == How::Ended {
            self.guard.keep_session().await;
        } else {
            self.guard.delete_session().await;
        }
        if let Some(failure) = self.outputs.failure {
            return Err(self.failure(failure));
        }
        let exit_code = match how {
            How::Ended => code.unwrap_or(UNKNOWN),
            How::TimedOut | How::Killed => code.filter(|code| *code != 0).unwrap_or(KILLED),
        };
        Ok(self.outputs.outcome(exit_code, how, duration))
    }

    fn failure(&self, code: i32) -> SandboxError {
        let program = self.program.to_string_lossy().into_owned();
        match code {
            COMMAND_MISSING => SandboxError::CommandNotFound { program },
            COMMAND_NOT_EXECUTABLE => SandboxError::CommandNotExecutable {
                program,
                source: std::io::ErrorKind::PermissionDenied.into(),
            },
            code => refused(code, "enter", &self.inner().work_dir, &self.given_cwd, ""),
        }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn follow(inner: &Inner, session: &str, cmd_id: &str) -> Result<FollowedLog> {
    let followed = inner.toolbox.sessions().follow(session, cmd_id).await;
    followed.map_err(|error| inner.failed("follow a command", error))
}

/// Whether the server knows the command's exit code.
async fn is_over(inner: &Inner, session: &str, cmd_id: &str) -> bool {
    let found = inner.toolbox.sessions().command(session, cmd_id).await;
    found.is_ok_and(|command| command.exit_code.is_some())
}

/// As Ctrl-C in a terminal would.
async fn interrupt(inner: &Inner, pid: Option<u32>) {
    let Some(command) = pid.and_then(|pid| script::interrupt(pid).ok()) else {
        return;
    };
    if let Err(error) = inside::run(&inner.toolbox, "interrupt a command", command).await {
        tracing::warn!(sandbox = inner.id, %error, "a command could not be interrupted");
    }
}

/// Kills all processes that have the id in their environment, until there is none.
async fn kill(inner: &Inner, id: &str) {
    let Ok(command) = script::kill(id) else {
        return;
    };
    let end = || inside::run(&inner.toolbox, "end a command", command.clone());
    if let Err(error) = again(end).await
        && !inner.is_torn_down()
    {
        tracing::warn!(sandbox = inner.id, %error, "a command could not be ended");
    }
}

/// Ends what it guards when it is dropped, unless that was done in order.
#[derive(Debug)]
struct Guard {
    inner: Arc<Inner>,
    id: String,
    session: String,
    is_armed: bool,
}

impl Guard {
    fn new(inner: &Arc<Inner>, id: &str) -> Self {
        Self {
            inner: Arc::clone(inner),
            id: id.to_owned(),
            session: format!("exec-{id}"),
            is_armed: true,
        }
    }

    async fn delete_session(&mut self) {
        delete_session(&self.inner, &self.session).await;
        self.is_armed = false;
    }

    /// What the command left behind lives on with its session.
    async fn keep_session(&mut self) {
        self.is_armed = false;
        if let Some(oldest) = self.inner.keep_session(self.session.clone()) {
            delete_session(&self.inner, &oldest).await;
        }
    }
}

async fn delete_session(inner: &Inner, session: &str) {
    if let Err(error) = inner.toolbox.sessions().delete(session).await
        && !inner.is_torn_down()
    {
        tracing::debug!(sandbox = inner.id, %error, "a session was not deleted");
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if !self.is_armed || self.inner.is_torn_down() {
            return;
        }
        let (inner, id, session) = (
            Arc::clone(&self.inner),
            self.id.clone(),
            self.session.clone(),
        );
        drop(runtime.spawn(async move {
            kill(&inner, &id).await;
            delete_session(&inner, &session).await;
            // What was just being started when its future was dropped.
            kill(&inner, &id).await;
        }));
    }
}
