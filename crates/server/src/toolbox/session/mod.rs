//! Sessions: shells that live on between commands, and between lives of the server.
//!
//! ```text
//! exec ──▶ queue ──▶ driver ──line──▶ shell ──▶ command ──named pipes──▶ pump ──▶ log file ──▶ readers, followers
//! ```
//!
//! - [`driver`] owns a session's shell and gives it one command after the other.
//! - [`control`] is the folder in the box where a command and its pipes lie.
//! - [`log`] is what was printed, in a file of the host, bounded, followed without polling.
//! - [`journal`] and [`resume`] bring all of it over a restart of the server.

mod command;
mod control;
mod driver;
mod follow;
mod journal;
mod log;
mod resume;
mod routes;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_daytona_wire::error::ErrorCode;
use holm_sandbox_linux::{OnDisconnect, Reach};
use tokio::sync::{mpsc, watch};

use self::control::{Control, ControlError};
use self::driver::{QUEUE_MAX, Session, held_name, output_name, shell_name};
use self::journal::Journal;
use super::execute::{SHELLS, no_shell};
use crate::error::{ApiError, Result};
use crate::machines::{CommandSpec, Input, Machine, Output, Running, SIGKILL, write_all};

pub(super) use routes::router;

/// How long processes of a session may take to end after they were asked to.
const GRACE: Duration = Duration::from_secs(5);
const SIGTERM: i32 = 15;
/// Its own outputs are nobody's: those of its commands are redirected one by one.
const FIRST_LINE: &str = "exec >/dev/null 2>&1\n";
const ID_BYTES_MAX: usize = 128;

/// The sessions of one running box.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<String, Slot>>,
}

/// A name that is taken, and the session that has it when it has started.
#[derive(Debug, Clone)]
enum Slot {
    Starting,
    Open(Arc<Session>),
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Vec<Arc<Session>> {
        let all = self.all();
        let open = |slot: &Slot| match slot {
            Slot::Open(session) => Some(Arc::clone(session)),
            Slot::Starting => None,
        };
        all.values().filter_map(open).collect()
    }

    fn find(&self, id: &str) -> Result<Arc<Session>> {
        match self.all().get(id) {
            Some(Slot::Open(session)) => Ok(Arc::clone(session)),
            Some(Slot::Starting) | None => Err(not_found()),
        }
    }

    /// Shells that wait for a command.
    pub(crate) fn waiting_processes(&self) -> u64 {
        let idle = self
            .list()
            .iter()
            .filter(|session| session.is_idle())
            .count();
        u64::try_from(idle).unwrap_or(u64::MAX)
    }

    async fn create(&self, machine: &Arc<Machine>, id: &str, sessions_max: usize) -> Result<()> {
        check_id(id)?;
        {
            let mut all = self.all();
            if all.contains_key(id) {
                return Err(ApiError::conflict(format!("session '{id}' already exists")));
            }
            if all.len() >= sessions_max {
                return Err(ApiError::new(
                    ErrorCode::TooManyRequests,
                    format!("the sandbox has {sessions_max} sessions already: delete one first"),
                ));
            }
            all.insert(id.to_owned(), Slot::Starting);
        }
        let (machine, id) = (Arc::clone(machine), id.to_owned());
        // Not cancelled with the request, which would leave a name that nobody has.
        let started = tokio::spawn(async move {
            let started = start(&machine, &id).await;
            let mut all = machine.toolbox.sessions.all();
            match started {
                Ok(session) => {
                    all.insert(id, Slot::Open(session));
                    Ok(())
                }
                Err(error) => {
                    all.remove(&id);
                    Err(error)
                }
            }
        });
        started.await?
    }

    async fn delete(&self, id: &str) -> Result<()> {
        let session = self.find(id)?;
        self.all().remove(id);
        // Not cancelled with the request either.
        tokio::spawn(async move { end(&session).await }).await?
    }

    /// Forgets all sessions: their box is about to end.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.all());
        for slot in all.into_values() {
            if let Slot::Open(session) = slot {
                let folder = session.folder.clone();
                drop(tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await);
            }
        }
    }

    /// Finds the sessions of an earlier life of the server.
    pub(crate) async fn resume(&self, machine: &Arc<Machine>) {
        let folders = fs::read_dir(machine.directory.join("sessions"));
        for entry in folders.into_iter().flatten().flatten() {
            let (folder, home) = (entry.path(), Arc::clone(machine.inner()));
            let Some(key) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let looking = folder.clone();
            let found =
                tokio::task::spawn_blocking(move || resume::resume(&home, looking, key)).await;
            match found {
                Ok(Ok(Some(resumed))) => {
                    let session = resumed.session;
                    let slot = Slot::Open(Arc::clone(&session));
                    self.all().insert(session.id.clone(), slot);
                    let driving = session.drive(
                        Arc::clone(machine),
                        resumed.stdin,
                        resumed.queue,
                        resumed.in_flight,
                    );
                    drop(tokio::spawn(driving));
                }
                Ok(Ok(None)) => {
                    // Of a box that has ended.
                    drop(tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await);
                }
                Ok(Err(error)) => {
                    let error = crate::error::chain(&error);
                    tracing::error!(sandbox = machine.id, error, "a session was not found again");
                }
                Err(error) => tracing::error!(sandbox = machine.id, %error, "a session is lost"),
            }
        }
    }
}

fn not_found() -> ApiError {
    ApiError::not_found("session not found")
}

/// Ids stand in paths and in messages.
fn check_id(id: &str) -> Result<()> {
    let problem = if id.is_empty() {
        "sessionId is required".to_owned()
    } else if id.len() > ID_BYTES_MAX {
        format!("sessionId is longer than {ID_BYTES_MAX} bytes")
    } else if id.contains('/') || id.chars().any(char::is_control) || [".", ".."].contains(&id) {
        "sessionId may hold neither `/` nor control characters, and is not `.` or `..`".to_owned()
    } else if id == "entrypoint" {
        "the sessionId `entrypoint` is reserved".to_owned()
    } else {
        return Ok(());
    };
    Err(ApiError::bad_request(problem))
}

async fn start(machine: &Arc<Machine>, id: &str) -> Result<Arc<Session>> {
    let spec = CommandSpec {
        argv: Vec::new(),
        env: machine.environment([]),
        cwd: machine.work_dir().to_path_buf(),
        input: Input::Piped,
        output: Output::Merged,
        disconnect: OnDisconnect::Keep,
    };
    let shells = SHELLS.map(|shell| vec![shell.into()]);
    let mut shell = match machine.start_first(spec, &shells).await {
        Ok(shell) => shell,
        Err(error) => return Err(no_shell(machine, machine.work_dir(), error).await),
    };
    let lost = || io::Error::from(io::ErrorKind::BrokenPipe);
    let failed = |error| ApiError::internal("the session could not be started", error);
    let stdin = shell.stdin.take().ok_or_else(lost).map_err(failed)?;
    let written = write_all(&stdin, FIRST_LINE.as_bytes()).await;
    written.map_err(failed)?;
    let (id, key) = (id.to_owned(), uuid::Uuid::new_v4().to_string());
    let (queue, waiting) = mpsc::channel(QUEUE_MAX);
    let home = Arc::clone(machine.inner());
    let folder = machine.directory.join("sessions").join(&key);
    let opening = tokio::task::spawn_blocking(move || {
        let control = Control::make(&home)?;
        make_folder(&folder)?;
        let session = Session {
            journal: Journal::open(folder.join("journal"))?,
            id,
            key,
            home,
            control,
            folder,
            budget: Arc::default(),
            shell,
            commands: Mutex::default(),
            queue,
            ended: watch::Sender::new(None),
        };
        session.journal.append(&session.opened())?;
        let name = shell_name(&session.key);
        let job = session.shell.job();
        job.park(&session.home, &name, &[stdin.as_fd()])?;
        Ok::<_, ControlError>((Arc::new(session), stdin))
    });
    let (session, stdin) = opening
        .await?
        .map_err(|error| ApiError::internal("the session could not be started", error))?;
    let driving = Arc::clone(&session).drive(Arc::clone(machine), stdin, waiting, None);
    drop(tokio::spawn(driving));
    Ok(session)
}

fn make_folder(folder: &PathBuf) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Asks all processes of a session to end, waits a little, kills what is left, and removes every trace.
async fn end(session: &Arc<Session>) -> Result<()> {
    signal(&session.shell, SIGTERM);
    let is_over = async {
        // The shell ends at once; what still holds an output is given the time that it has.
        drop(session.shell.wait().await);
        while session
            .commands()
            .iter()
            .any(|command| command.is_logging())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    drop(tokio::time::timeout(GRACE, is_over).await);
    signal(&session.shell, SIGKILL);
    let session = Arc::clone(session);
    tokio::task::spawn_blocking(move || {
        let mut names = vec![shell_name(&session.key)];
        let commands = session.commands().clone();
        for command in commands.iter().filter(|command| command.is_logging()) {
            names.extend([output_name(&command.id), held_name(&command.id)]);
        }
        for name in names {
            // The box is ending: then nothing is parked any more.
            drop(session.home.unpark(&name));
        }
        if let Err(error) = session.control.remove_all(&session.home) {
            tracing::warn!(session = session.id, %error, "a session's folder in its box stays");
        }
        fs::remove_dir_all(&session.folder)
    })
    .await?
    .map_err(|error| ApiError::internal("the session's logs could not be removed", error))
}

fn signal(shell: &Running, signal: i32) {
    // One that has ended needs no signal.
    drop(shell.job().signal(signal, Reach::Tree));
}
