//! Terminals: shells on terminals of their own, which several clients may look at, and which outlive them and the server.

mod routes;
mod socket;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::pty::PtySessionInfo;
use holm_sandbox_linux::TerminalSize;
use tokio::sync::OnceCell;

use self::terminal::{Description, Terminal};
use super::execute::no_shell;
use crate::error::{ApiError, Result};
use crate::machines::{Machine, Running};

pub(super) use routes::router;

/// The terminals of one running box.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    all: Mutex<BTreeMap<String, Arc<Slot>>>,
}

/// A terminal that somebody made; it may not have been started yet.
#[derive(Debug)]
struct Slot {
    /// Names its file on the host and what is parked for it.
    key: String,
    description: Mutex<Description>,
    terminal: OnceCell<Arc<Terminal>>,
}

impl Slot {
    fn description(&self) -> MutexGuard<'_, Description> {
        self.description
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> PtySessionInfo {
        let is_active = self.terminal.get().is_some_and(|found| found.is_active());
        self.description().shown(is_active)
    }

    /// The terminal, started if it was not.
    async fn started(self: &Arc<Self>, machine: &Arc<Machine>) -> Result<Arc<Terminal>> {
        let start = || async {
            let description = self.description().clone();
            let (terminal, reading) = match Terminal::start(machine, &description).await {
                Ok(started) => started,
                Err(error) => {
                    let cwd = Path::new(&description.cwd);
                    return Err(no_shell(machine, cwd, error).await);
                }
            };
            let (parking, key) = (Arc::clone(&terminal), self.key.clone());
            machine
                .blocking(move |machine| {
                    let file = file(machine, &key);
                    write_down(&file, &description).map_err(|error| {
                        ApiError::internal("the terminal could not be written down", error)
                    })?;
                    parking.park(machine, &parked_name(&key))?;
                    Ok::<_, ApiError>(())
                })
                .await?;
            self.carry(machine, Arc::clone(&terminal), reading);
            Ok(terminal)
        };
        self.terminal.get_or_try_init(start).await.cloned()
    }

    /// Shows the terminal's output in the background, and removes it at its end.
    fn carry(
        self: &Arc<Self>,
        machine: &Arc<Machine>,
        terminal: Arc<Terminal>,
        reading: tokio::net::unix::pipe::Receiver,
    ) {
        let (slot, machine) = (Arc::clone(self), Arc::clone(machine));
        drop(tokio::spawn(async move {
            terminal.carry(reading).await;
            machine.toolbox.terminals.forget(&slot);
            let removed = machine.blocking(move |machine| {
                drop(fs::remove_file(file(machine, &slot.key)));
                machine.inner().unpark(&parked_name(&slot.key))
            });
            // The box has ended: nothing is parked any more.
            drop(removed.await);
        }));
    }
}

impl Terminals {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Slot>> {
        let found = self.all().get(id).cloned();
        found.ok_or_else(|| ApiError::not_found(format!("PTY session {id} not found")))
    }

    /// Takes the name, unless another terminal has it.
    fn reserve(&self, description: Description, terminals_max: usize) -> Result<Arc<Slot>> {
        let mut all = self.all();
        let id = description.id.clone();
        if all.contains_key(&id) {
            return Err(ApiError::conflict(format!(
                "PTY session with ID '{id}' already exists"
            )));
        }
        if all.len() >= terminals_max {
            return Err(ApiError::new(
                ErrorCode::TooManyRequests,
                format!("the sandbox has {terminals_max} terminals already: close one first"),
            ));
        }
        let slot = Arc::new(Slot {
            key: uuid::Uuid::new_v4().to_string(),
            description: Mutex::new(description),
            terminal: OnceCell::new(),
        });
        all.insert(id, Arc::clone(&slot));
        Ok(slot)
    }

    /// Frees the name, unless another terminal has it by now.
    fn forget(&self, slot: &Arc<Slot>) {
        let id = slot.description().id.clone();
        let mut all = self.all();
        if all.get(&id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            all.remove(&id);
        }
    }

    /// Shells that were started; whatever they run counts by itself.
    pub(crate) fn waiting_processes(&self) -> u64 {
        let all = self.all();
        let is_active = |slot: &&Arc<Slot>| slot.terminal.get().is_some_and(|it| it.is_active());
        u64::try_from(all.values().filter(is_active).count()).unwrap_or(u64::MAX)
    }

    /// Forgets all terminals: their box is about to end.
    pub(crate) fn close(&self) {
        self.all().clear();
    }

    fn resize(&self, slot: &Slot, size: TerminalSize) -> Result<PtySessionInfo> {
        if let Some(terminal) = slot.terminal.get() {
            if !terminal.is_active() {
                return Err(ApiError::new(ErrorCode::Gone, "the terminal has ended"));
            }
            terminal
                .resize(size)
                .map_err(|error| ApiError::internal("the terminal could not be resized", error))?;
        }
        let mut description = slot.description();
        (description.columns, description.rows) = (size.columns, size.rows);
        drop(description);
        Ok(slot.shown())
    }

    /// Finds the terminals of an earlier life of the server.
    pub(crate) async fn resume(&self, machine: &Arc<Machine>) {
        let found = machine.blocking(|machine| Ok::<_, ApiError>(parked(machine)));
        for (key, description, terminal) in found.await.unwrap_or_default() {
            let Ok((terminal, reading)) = terminal else {
                continue;
            };
            let slot = Arc::new(Slot {
                key,
                terminal: OnceCell::new_with(Some(Arc::clone(&terminal))),
                description: Mutex::new(description),
            });
            let id = slot.description().id.clone();
            self.all().insert(id, Arc::clone(&slot));
            slot.carry(machine, terminal, reading);
        }
    }
}

type Found = (
    String,
    Description,
    io::Result<(Arc<Terminal>, tokio::net::unix::pipe::Receiver)>,
);

/// Blocks, inside the runtime.
fn parked(machine: &Machine) -> Vec<Found> {
    let mut found = Vec::new();
    let files = fs::read_dir(machine.directory.join("terminals"));
    for entry in files.into_iter().flatten().flatten() {
        let path = entry.path();
        let description = fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let key = path.file_stem().and_then(|key| key.to_str());
        let resumed = key.and_then(|key| machine.inner().resume(&parked_name(key)).ok().flatten());
        match (key, description, resumed) {
            (Some(key), Some(description), Some((job, mut extra))) if !extra.is_empty() => {
                let terminal = Running::resumed(job)
                    .and_then(|running| Terminal::new(running, extra.remove(0)));
                found.push((key.to_owned(), description, terminal));
            }
            // Of a box that has ended.
            (_, _, _) => drop(fs::remove_file(&path)),
        }
    }
    found
}

fn parked_name(key: &str) -> String {
    format!("terminal:{key}")
}

fn file(machine: &Machine, key: &str) -> PathBuf {
    machine
        .directory
        .join("terminals")
        .join(format!("{key}.json"))
}

fn write_down(path: &Path, description: &Description) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec(description)?)
}
