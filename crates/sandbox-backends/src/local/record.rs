//! What is written down about a sandbox, so that any later call can find it, use it, or clean it up.
//!
//! ```text
//! boxes/<id>/record.json    this record
//! boxes/<id>/owner.lock     held while the process that made a throwaway sandbox lives
//! boxes/<id>/control        the socket of a box that stays
//! ```
//!
//! A throwaway sandbox whose owner lock is free has lost its creator.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use holm_sandbox::{Result, RunId, SandboxError};
use holm_sandbox_linux::{Limits, Network, ProcessIdentity};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::checkout::{at, remove_tree, write};

/// The format of the record; one that is newer is left alone.
const RECORD_VERSION: u32 = 1;

/// A sandbox, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub run_id: RunId,
    pub name: Option<String>,
    pub created_unix_seconds: u64,
    pub stay: Stay,
    pub isolation: IsolationKind,
    pub network: Network,
    pub nested: bool,
    pub limits: RecordedLimits,
    #[serde(with = "path_text")]
    pub work_dir: PathBuf,
    pub source: SourceRecord,
    /// Init of the box, as last started.
    pub init: Option<InitRecord>,
    /// The cached checkout that the box stands on.
    pub checkout: Option<String>,
}

/// Whether a sandbox outlives the call that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stay {
    Throwaway,
    UntilRemoved,
}

/// How commands are kept apart from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationKind {
    Namespaces,
    None,
}

/// Limits; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLimits {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u32>,
    pub pids: Option<u32>,
}

impl From<RecordedLimits> for Limits {
    fn from(recorded: RecordedLimits) -> Self {
        let RecordedLimits {
            memory_bytes,
            cpu_millis,
            pids,
        } = recorded;
        Self {
            memory_bytes,
            cpu_millis,
            pids,
        }
    }
}

impl From<Limits> for RecordedLimits {
    fn from(limits: Limits) -> Self {
        let Limits {
            memory_bytes,
            cpu_millis,
            pids,
        } = limits;
        Self {
            memory_bytes,
            cpu_millis,
            pids,
        }
    }
}

/// Where a sandbox's files come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SourceRecord {
    Empty,
    Directory {
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    Repository {
        #[serde(with = "path_text")]
        path: PathBuf,
        branch: String,
        branch_given: bool,
        commit: String,
    },
}

/// Paths as text where they are text, and as bytes where they are not: a path may hold anything.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(match Either::deserialize(deserializer)? {
            Either::Text(text) => PathBuf::from(text),
            Either::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        })
    }
}

/// The box's init, and what it understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitRecord {
    #[serde(flatten)]
    pub process: ProcessIdentity,
    pub wire_version: u32,
}

impl Record {
    pub(crate) const fn version() -> u32 {
        RECORD_VERSION
    }

    pub(crate) fn save(&self, directory: &Path) -> Result<()> {
        let path = directory.join("record.json");
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| at("describe", &path)(error.into()))?;
        // Renamed into place: a reader sees the old one or the new one.
        let temporary = directory.join("record.json.new");
        write(&temporary, &text)?;
        fs::rename(&temporary, &path).map_err(at("rename", &temporary))
    }

    /// The record of a sandbox, or `None` where there is none that this version understands.
    pub(crate) fn load(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join("record.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at("read", &path)(error)),
        };
        let record: Self = serde_json::from_slice(&text).map_err(|error| SandboxError::Io {
            doing: "understand".into(),
            path: path.clone(),
            source: error.into(),
        })?;
        Ok((record.version == RECORD_VERSION).then_some(record))
    }

    /// What a user calls it.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.run_id.to_string())
    }
}

fn open_lock(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(at("open", path))
}

/// Waits for the lock of a file, which is made if it is missing, and holds it until the value is dropped.
pub(crate) fn lock_file(path: &Path) -> Result<File> {
    let file = open_lock(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| at("lock", path)(error.into()))?;
    Ok(file)
}

/// Keeps others from making sandboxes or judging them ownerless while the lock is held: a folder that
/// was made this instant is not yet locked by its creator.
pub(crate) fn lock_all(boxes: &Path) -> Result<File> {
    lock_file(&boxes.with_extension("lock"))
}

/// Where folders of sandboxes go to be removed. Half-removed ones must not look like sandboxes: their
/// lock may be gone and their record still there.
fn doomed_dir(boxes: &Path) -> PathBuf {
    boxes.with_file_name("doomed")
}

/// Removes the folder of a sandbox, which nobody can find from the first moment on.
pub(crate) fn remove_directory(directory: &Path) -> Result<()> {
    let (Some(boxes), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    let doomed = doomed_dir(boxes);
    fs::create_dir_all(&doomed).map_err(at("make folder", &doomed))?;
    let doomed = doomed.join(name);
    match fs::rename(directory, &doomed) {
        Ok(()) => remove_tree(&doomed),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at("rename", directory)(error)),
    }
}

/// Goes on with removals that were cut short. Others may be at the same, so what fails is left to them.
pub(crate) fn remove_doomed(boxes: &Path) {
    let Ok(entries) = fs::read_dir(doomed_dir(boxes)) else {
        return;
    };
    for entry in entries.flatten() {
        drop(remove_tree(&entry.path()));
    }
}

/// Takes the lock under which the box of a sandbox that stays is started and removed.
pub(crate) fn lock_start(directory: &Path) -> Result<File> {
    lock_file(&directory.join("start.lock"))
}

/// Takes the owner lock of a sandbox, or `None` while its creator holds it.
pub(crate) fn try_own(directory: &Path) -> Result<Option<File>> {
    let path = directory.join("owner.lock");
    let file = open_lock(&path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(at("lock", &path)(error.into())),
    }
}
