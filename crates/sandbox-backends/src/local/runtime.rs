//! The local backend of one process: engine, configuration, and the sandboxes of all processes.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use holm_sandbox::{Result, SandboxError, TeardownReport, UncommittedWork};
use holm_sandbox_linux::cgroup::CgroupError;
use holm_sandbox_linux::{
    Account, BaseOptions, Engine, HostBase, IdRange, Limits, LinuxBox, Network, WIRE_VERSION,
};
use rustix::process::Signal;

use super::checkout::{at, make_private_folder};
use super::config::LocalConfig;
use super::create;
use super::environment;
use super::errors::engine_error;
use super::harvest::{self, Remains};
use super::options::CreateOptions;
use super::place::Place;
use super::pool::{self, Pool};
use super::record::{self, IsolationKind, Record, SourceRecord, Stay};
use super::sandbox::LocalSandbox;
use super::start::{Layers, open_files, start_box};
use holm_sandbox_linux::files::ConfinedDir;

/// The local backend. Make one per process, early: its spawner is as big as the process is then.
#[derive(Debug)]
pub struct LocalRuntime {
    pub(crate) config: LocalConfig,
    pub(crate) engine: Engine,
    bases: Mutex<HashMap<Network, HostBase>>,
    pub(crate) pool: Option<Pool>,
}

/// A sandbox in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub record: Record,
    pub state: State,
    pub directory: PathBuf,
}

/// Whether a sandbox can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its box runs.
    Running,
    /// Its box has ended; it starts again when it is used.
    Stopped,
    /// It needs no box.
    Plain,
}

/// A sandbox whose creator was killed, and what became of it.
#[derive(Debug)]
pub struct Reaped {
    pub record: Record,
    pub report: TeardownReport,
}

impl LocalRuntime {
    /// Starts the engine. Call it before the process has threads or much memory.
    pub fn start(config: LocalConfig) -> Result<Arc<Self>> {
        let engine = Engine::start().map_err(engine_error)?;
        let (pool, wake) = match config.prepared_boxes {
            0 => (None, None),
            size => {
                make_private_folder(&config.data_dir)?;
                make_private_folder(&config.boxes_dir())?;
                let (pool, wake) = Pool::start(size);
                (Some(pool), Some(wake))
            }
        };
        let runtime = Arc::new(Self {
            config,
            engine,
            bases: Mutex::default(),
            pool,
        });
        if let Some(wake) = wake {
            pool::keep_full(&runtime, wake).map_err(|source| SandboxError::Backend {
                doing: "start the thread that prepares boxes".into(),
                hint: None,
                source: source.into(),
            })?;
            runtime.prepare_boxes();
        }
        Ok(runtime)
    }

    /// Has the pool filled up, in the background.
    fn prepare_boxes(&self) {
        if let Some(pool) = &self.pool {
            pool.wake();
        }
    }

    /// How many boxes are prepared at this moment.
    pub fn prepared_boxes(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::ready)
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn config(&self) -> &LocalConfig {
        &self.config
    }

    /// Makes a sandbox.
    pub fn create(self: &Arc<Self>, options: &CreateOptions) -> Result<LocalSandbox> {
        create::create(self, options)
    }

    /// The base of boxes with this network.
    pub fn base(&self, network: Network) -> Result<HostBase> {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = bases.get(&network) {
            return Ok(base.clone());
        }
        let base = self
            .engine
            .host_base(&BaseOptions {
                directory: self.config.base_dir(),
                network,
                ids: IdRange::FIRST,
                account: Account::holm(),
                toolchain_home: self.config.home.clone(),
            })
            .map_err(engine_error)?;
        bases.insert(network, base.clone());
        Ok(base)
    }

    /// Every sandbox that is written down.
    pub(crate) fn records(&self) -> Result<Vec<(PathBuf, Record)>> {
        let boxes = self.config.boxes_dir();
        let entries = match fs::read_dir(&boxes) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at("read folder", &boxes)(error)),
        };
        let mut records = Vec::new();
        for entry in entries {
            let directory = entry.map_err(at("read folder", &boxes))?.path();
            if let Some(record) = Record::load(&directory)? {
                records.push((directory, record));
            }
        }
        records.sort_by_key(|(_, record)| (record.created_unix_seconds, record.run_id.to_string()));
        Ok(records)
    }

    /// Checkouts that a sandbox stands on, whether it runs or not.
    pub(crate) fn pinned_checkouts(&self) -> Result<Vec<String>> {
        Ok(self
            .records()?
            .into_iter()
            .filter_map(|(_, record)| record.checkout)
            .collect())
    }

    /// The sandboxes of this user.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let records = self.records()?.into_iter();
        Ok(records
            .map(|(directory, record)| Listed {
                state: state_of(&record),
                record,
                directory,
            })
            .collect())
    }

    fn find(&self, name: &str) -> Result<(PathBuf, Record)> {
        let mut records = self.records()?;
        let position = records
            .iter()
            .position(|(_, record)| record.title() == name || record.run_id.to_string() == name);
        match position {
            Some(index) => Ok(records.swap_remove(index)),
            None => Err(SandboxError::Invalid {
                what: format!("there is no sandbox named `{name}`"),
                hint: "`holm sandbox list` shows those that exist".into(),
            }),
        }
    }

    /// A sandbox that stays, by its name or id; its box is started again if it has ended.
    pub fn open(self: &Arc<Self>, name: &str) -> Result<LocalSandbox> {
        let (directory, record) = self.find(name)?;
        if record.stay == Stay::Throwaway {
            return Err(in_use(name));
        }
        // One caller starts the box, the others find it running.
        let _starting = record::lock_start(&directory)?;
        let (directory, mut record) = self.find(name)?;
        let (place, files, warnings) = match record.isolation {
            IsolationKind::None => {
                let files = ConfinedDir::open(&record.work_dir)
                    .map_err(|error| super::errors::files_error(error, &record.work_dir))?;
                (
                    Place::Plain {
                        environment: environment::plain(&self.config),
                    },
                    files,
                    Vec::new(),
                )
            }
            IsolationKind::Namespaces => match self.attach(&directory, &record)? {
                Some((place, files)) => (place, files, Vec::new()),
                None => {
                    let layers = match &record.source {
                        SourceRecord::Repository { .. } => Some(Layers::of(self, &record)?),
                        SourceRecord::Empty | SourceRecord::Directory { .. } => None,
                    };
                    let started = start_box(self, &directory, &mut record, layers.as_ref(), None)?;
                    record.save(&directory)?;
                    started
                }
            },
        };
        Ok(LocalSandbox::new(
            self.clone(),
            directory,
            record,
            place,
            files,
            None,
            warnings,
        ))
    }

    /// Connects to the box of a record, or `None` if it does not run.
    fn attach(&self, directory: &Path, record: &Record) -> Result<Option<(Place, ConfinedDir)>> {
        let Some(process) = running_init(record) else {
            // A box that was killed could not take its control groups along; the next one needs the name.
            self.remove_group(directory);
            return Ok(None);
        };
        let Some(init) = record.init.filter(|init| init.wire_version == WIRE_VERSION) else {
            // A box of another version cannot be spoken to; ending it loses no file.
            kill(&process);
            return Ok(None);
        };
        let failed = |source: CgroupError| SandboxError::Backend {
            doing: "find the limits of the sandbox".into(),
            hint: None,
            source: source.into(),
        };
        let id = record.run_id.to_string();
        let hierarchy = self.engine.hierarchy();
        let group = match hierarchy.open_existing(&id) {
            // Without root there may be no control groups at all.
            Err(CgroupError::NotFound { .. }) => hierarchy.create(&id, &Limits::default()),
            found => found,
        }
        .map_err(failed)?;
        let power = self.engine.power();
        let inner = LinuxBox::attach(
            &id,
            power,
            &directory.join("control"),
            init.process.pid,
            process,
            group,
        )
        .map_err(engine_error)?;
        let files = open_files(self, record, &inner)?;
        let environment = environment::inside_box(&self.config, &self.base(record.network)?);
        Ok(Some((
            Place::Boxed {
                inner: Box::new(inner),
                environment,
            },
            files,
        )))
    }

    /// Removes a sandbox that stays.
    pub fn remove(self: &Arc<Self>, name: &str, work: UncommittedWork) -> Result<TeardownReport> {
        let (directory, _) = self.find(name)?;
        let _nobody_starts = record::lock_start(&directory)?;
        let (directory, record) = self.find(name)?;
        let _owner = match (record.stay, record::try_own(&directory)?) {
            (Stay::Throwaway, None) => return Err(in_use(name)),
            (Stay::Throwaway | Stay::UntilRemoved, lock) => lock,
        };
        let place = match record.isolation {
            IsolationKind::Namespaces => self.attach(&directory, &record)?.map(|(place, _)| place),
            IsolationKind::None => None,
        };
        let remains = Remains {
            runtime: self,
            directory: &directory,
            record: &record,
        };
        Ok(harvest::end_remains(remains, place.as_ref(), work))
    }

    /// Finds sandboxes whose creator was killed, saves their work and removes them.
    pub fn reap(&self) -> Result<Vec<Reaped>> {
        let boxes = self.config.boxes_dir();
        let entries = match fs::read_dir(&boxes) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at("read folder", &boxes)(error)),
        };
        let mut ownerless = Vec::new();
        {
            let _nobody_creates = record::lock_all(&boxes)?;
            for entry in entries {
                let directory = entry.map_err(at("read folder", &boxes))?.path();
                if let Ok(Some(lock)) = record::try_own(&directory) {
                    ownerless.push((directory, lock));
                }
            }
        }
        record::remove_doomed(&boxes);
        let mut reaped = Vec::new();
        for (directory, _lock) in ownerless {
            match Record::load(&directory) {
                Ok(Some(record)) if record.stay == Stay::UntilRemoved => {}
                Ok(Some(record)) => {
                    self.remove_group(&directory);
                    if let Some(process) = running_init(&record) {
                        // It dies with its creator; a creator of the future might not see to that.
                        kill(&process);
                    }
                    let remains = Remains {
                        runtime: self,
                        directory: &directory,
                        record: &record,
                    };
                    let report = harvest::end_remains(remains, None, UncommittedWork::Keep);
                    reaped.push(Reaped { record, report });
                }
                // Killed before it had a record: nothing but a folder.
                Ok(None) if !directory.join("record.json").exists() => {
                    self.remove_group(&directory);
                    record::remove_directory(&directory)?;
                }
                // Written by another version, or unreadable: not ours to throw away.
                Ok(None) | Err(_) => {}
            }
        }
        Ok(reaped)
    }
}

fn in_use(name: &str) -> SandboxError {
    SandboxError::Invalid {
        what: format!("sandbox `{name}` belongs to a command that is still running"),
        hint: "wait for that command to end, or make one that stays: `holm sandbox create`".into(),
    }
}

/// Kills a box's init; one that has just ended is as good.
fn kill(process: &OwnedFd) {
    let _gone = rustix::process::pidfd_send_signal(process, Signal::KILL);
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        for blank in self.pool.iter().flat_map(Pool::drain) {
            self.engine.discard(blank.prepared);
            // What stays is an empty sandbox without a record, which the next call removes.
            drop(record::remove_directory(&blank.directory));
        }
    }
}

impl LocalRuntime {
    /// Removes the control groups that a killed creator left; those of a living box are in use and stay.
    fn remove_group(&self, directory: &Path) {
        let Some(id) = directory.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        if let Ok(group) = self.engine.hierarchy().open_existing(id) {
            // Busy means that somebody lives there.
            drop(group.remove());
        }
    }
}

fn state_of(record: &Record) -> State {
    match record.isolation {
        IsolationKind::None => State::Plain,
        IsolationKind::Namespaces if running_init(record).is_some() => State::Running,
        IsolationKind::Namespaces => State::Stopped,
    }
}

/// The init of a record, if that very process still runs.
fn running_init(record: &Record) -> Option<OwnedFd> {
    record.init?.process.open()
}
