//! Who makes a snapshot, and whether it still lives.
//!
//! A maker holds the lock of a file that is called like its snapshot's row, from before there is the row until it is finished. The
//! kernel releases the lock with the process, however that ends: a row that is being made, and whose file nobody holds, was
//! abandoned.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use holm_daytona_wire::snapshot::SnapshotState;
use holm_store::Store;

use super::{OperatorError, Result};
use crate::config::ServerConfig;
use crate::records::SnapshotRecord;

/// Dropped when the snapshot is finished, or will never be.
#[derive(Debug)]
pub(super) struct Maker {
    path: PathBuf,
    _locked: File,
}

impl Maker {
    pub(super) fn begin(config: &ServerConfig, snapshot: &str) -> Result<Self> {
        let path = config.makers().join(snapshot);
        let locked = lock(&path).map_err(|source| failed(&path, source))?;
        Ok(Self {
            path,
            _locked: locked,
        })
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the lock of a snapshot was left behind");
        }
    }
}

fn lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    loop {
        let file = File::create(path)?;
        file.lock()?;
        // Who clears up may have taken it away before it was locked.
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// Removes the rows of snapshots whose makers were killed, and gives them out. What they had made is then nobody's, and removed by
/// the server.
pub fn remove_abandoned(config: &ServerConfig, store: &Store) -> Result<Vec<SnapshotRecord>> {
    let mut removed = Vec::new();
    for snapshot in store.all::<SnapshotRecord>()? {
        let path = config.makers().join(&snapshot.id);
        if snapshot.state != SnapshotState::Snapshotting || is_held(&path)? {
            continue;
        }
        let is_removed = store.write(|transaction| {
            let now: Option<SnapshotRecord> = transaction.get(&snapshot.id)?;
            // It may have been finished since we looked.
            if now.is_none_or(|now| now.state != SnapshotState::Snapshotting) {
                return Ok::<_, OperatorError>(false);
            }
            Ok(transaction.delete::<SnapshotRecord>(&snapshot.id)?)
        })?;
        if is_removed {
            removed.push(snapshot);
        }
    }
    remove_unheld(&config.makers())?;
    Ok(removed)
}

fn is_held(path: &Path) -> Result<bool> {
    match File::open(path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(failed(path, source)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(failed(path, source)),
    }
}

/// Removes the files of makers that are gone.
fn remove_unheld(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed(folder, source)),
    };
    for entry in entries {
        let path = entry.map_err(|source| failed(folder, source))?.path();
        let Ok(file) = File::open(&path) else {
            continue;
        };
        // Removed while it is locked: who wants it next sees that it is gone.
        if file.try_lock().is_ok()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::debug!(%error, "the lock of a snapshot was left behind");
        }
    }
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> OperatorError {
    OperatorError::Lock {
        path: path.to_owned(),
        source,
    }
}
