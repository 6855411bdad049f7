//! Finds a session of an earlier life of the server again.
//!
//! The journal says what was queued, started and ended; the box's init has the shell, and the pipes of commands that
//! were started. A command that was queued is run now. One that was started is told to the shell a second time, which
//! runs it only if the first telling was not heard, and awaited.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use holm_sandbox_linux::LinuxBox;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::command::{Command, How, State};
use super::control::{Control, ControlError, Held, Outputs};
use super::driver::{InFlight, QUEUE_MAX, Session, held_name, output_name, shell_name};
use super::journal::{Entry, Journal, VERSION};
use super::log::{Budget, Log, Phase};
use crate::machines::Running;

/// A session that was found, and how it goes on.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) session: Arc<Session>,
    pub(super) stdin: pipe::Sender,
    pub(super) queue: mpsc::Receiver<Arc<Command>>,
    pub(super) in_flight: Option<InFlight>,
}

/// What a journal says.
#[derive(Debug, Default)]
struct Told {
    id: String,
    control: PathBuf,
    /// In the order of their coming.
    commands: Vec<(String, holm_daytona_wire::session::SessionExecuteRequest)>,
    started: BTreeMap<String, (i64, u64)>,
    ended: BTreeMap<String, i32>,
}

fn told(entries: Vec<Entry>) -> Option<Told> {
    let mut told = Told::default();
    let mut is_ours = false;
    for entry in entries {
        match entry {
            Entry::Opened {
                version,
                id,
                control,
            } => {
                is_ours = version == VERSION;
                (told.id, told.control) = (id, control);
            }
            Entry::Queued { id, request } => {
                if !told.commands.iter().any(|(known, _)| *known == id) {
                    told.commands.push((id, request));
                }
            }
            Entry::Started { id, at, ticks } => drop(told.started.insert(id, (at, ticks))),
            Entry::Ended { id, code } => drop(told.ended.insert(id, code)),
        }
    }
    is_ours.then_some(told)
}

/// Finds the session whose folder this is; none if its shell belongs to another box. Blocks, inside the runtime.
pub(super) fn resume(
    home: &Arc<LinuxBox>,
    folder: PathBuf,
    key: String,
) -> Result<Option<Resumed>, ControlError> {
    let journal = folder.join("journal");
    let Some(told) = told(Journal::read(&journal)?) else {
        return Ok(None);
    };
    let Some((job, extra)) = home.resume(&shell_name(&key))? else {
        return Ok(None);
    };
    let stdin = extra.into_iter().next().ok_or(io::ErrorKind::InvalidData);
    let stdin = stdin.map_err(io::Error::from)?;
    let (queue, waiting) = mpsc::channel(QUEUE_MAX);
    let session = Arc::new(Session {
        control: Control::open(home, told.control.clone())?,
        id: told.id.clone(),
        key,
        home: Arc::clone(home),
        journal: Journal::open(journal)?,
        folder,
        budget: Arc::new(Budget::default()),
        shell: Running::resumed(job)?,
        commands: Mutex::default(),
        queue,
        ended: watch::Sender::new(None),
    });
    let mut in_flight = None;
    for (id, request) in &told.commands {
        let code = told.ended.get(id).copied();
        let (state, phase) = match code {
            Some(code) => {
                let how = How::Exited;
                (State::Ended { code, how }, Phase::Ended)
            }
            None => (State::Queued, Phase::Open),
        };
        let log = Log::open(session.log_path(id), Arc::clone(&session.budget), phase)?;
        let command = Arc::new(Command::new(id.clone(), request.clone(), log, state));
        session.commands().push(Arc::clone(&command));
        let outputs = home.fetch(&output_name(id))?;
        let outputs = outputs.and_then(|parked| Outputs::found_again(parked.descriptors));
        match (code, told.started.get(id)) {
            (Some(code), _) => {
                // What it left behind may still write.
                command.code.get_or_init(|| code);
                drop(outputs.map(|outputs| session.pump(&command, outputs)));
            }
            (None, None) => {
                if session.queue.try_send(Arc::clone(&command)).is_err() {
                    command.end(-1, How::NeverRan);
                }
            }
            (None, Some(&(started_at, ticks))) => {
                command.started.get_or_init(|| (started_at, ticks));
                let held = home.fetch(&held_name(id))?;
                let held = held.and_then(|parked| Held::found_again(parked.descriptors));
                match (outputs, held) {
                    (Some(outputs), Some(held)) => {
                        in_flight = Some(InFlight {
                            pump: session.pump(&command, outputs),
                            command,
                            held,
                            started_at,
                            ticks,
                        });
                    }
                    // Its end was being written down when the server died, and its exit code is lost.
                    (_, _) => command.end(-1, How::Exited),
                }
            }
        }
    }
    Ok(Some(Resumed {
        session,
        stdin: pipe::Sender::from_owned_fd(stdin)?,
        queue: waiting,
        in_flight,
    }))
}
