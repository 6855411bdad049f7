//! What was promised and is not confirmed yet, on disk.
//!
//! ```text
//! spool.log:  Header  Entry Entry Entry  Epoch  Sealed(seq, count)  Entry  Acknowledged(seq)  Sealed …
//! ```
//!
//! - An entry is promised when it is synced. A batch is sent when its limits (`Sealed`) are synced: a number never stands for
//!   other entries than it did before, whatever dies in between.
//! - `Acknowledged` is not synced: if it is lost, the batch is sent again, and the server knows it.
//! - Each life of a spool has an epoch of its own, so that of two users (of a copy, or of another spool for the same producer) the
//!   later one wins and the other one is told. It begins with the first batch that is sealed in that life: a batch that the
//!   server may have seen keeps its epoch and its number, or it could be stored twice. An epoch is a time in microseconds.
//! - What is confirmed is taken out by writing the rest anew and renaming it.
//! - Entries leave some room behind them on the disk. The records that send them go there: a disk that is full of entries could not
//!   be emptied otherwise.
//!
//! **Invariant:** after a failure to sync nobody can say what is on the disk: the spool is not used any more.

mod contents;
mod open;
mod record;
mod room;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use holm_thread_log::{ContentType, ProducerId, StreamName};
use serde::{Deserialize, Serialize};

use contents::Contents;
use record::Record;

/// What a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Each entry is one JSON value.
    Json,
    /// Entries are bytes, which the stream joins.
    Bytes,
}

impl Kind {
    pub fn of(content_type: &ContentType) -> Self {
        if content_type.is_json() {
            Self::Json
        } else {
            Self::Bytes
        }
    }
}

/// How much a spool takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    /// All that is not confirmed.
    pub pending_bytes_max: u64,
    pub entry_bytes_max: usize,
    /// One request; an entry that is larger goes alone.
    pub batch_bytes_max: usize,
    pub batch_entries_max: u32,
    /// How much that is confirmed may lie in the file, and at least as much as is not.
    pub confirmed_bytes_max: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            pending_bytes_max: 256 << 20,
            entry_bytes_max: 8 << 20,
            batch_bytes_max: 512 << 10,
            batch_entries_max: 1_000,
            confirmed_bytes_max: 1 << 20,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("could not {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the spool `{}` is in use by another process", path.display())]
    InUse { path: PathBuf },
    /// Whole, and not what was written: not a matter of a crash.
    #[error("the spool `{}` is damaged at byte {at}", path.display())]
    Damaged { path: PathBuf, at: u64 },
    #[error("the spool `{}` is of version {version}, and this program knows version {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("the spool `{}` is for {what} `{found}`, not for `{wanted}`", path.display())]
    OfAnother {
        path: PathBuf,
        what: &'static str,
        found: String,
        wanted: String,
    },
    #[error(
        "the spool is full: {pending_bytes} of {bytes_max} bytes are not confirmed by the server yet"
    )]
    Full { pending_bytes: u64, bytes_max: u64 },
    #[error("an entry of {bytes} bytes is too large: at most {bytes_max}")]
    EntryTooLarge { bytes: usize, bytes_max: usize },
    #[error("an entry is empty")]
    EntryEmpty,
    #[error("an entry is not valid JSON")]
    EntryJson {
        #[source]
        source: serde_json::Error,
    },
    /// An earlier failure left it unknown what is on the disk.
    #[error("the spool had a failure and is not used any more; open it again")]
    Unusable,
}

impl SpoolError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some("one process at a time uses a spool: end the other one, or use another folder".into()),
            Self::Damaged { path, .. } => Some(format!(
                "the disk has changed what was written. Nothing was removed: keep `{}` for what can be read of it, and begin with a new folder",
                path.display()
            )),
            Self::Full { .. } => Some("see whether the server can be reached; entries are taken again when it confirms some".into()),
            Self::OfAnother { .. } => Some("use a folder of its own for each stream and producer".into()),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(
                "make room on the disk of the spool; what it has taken over is kept, and sent when the server is reached".into(),
            ),
            Self::Io { .. }
            | Self::Version { .. }
            | Self::EntryTooLarge { .. }
            | Self::EntryEmpty
            | Self::EntryJson { .. }
            | Self::Unusable => None,
        }
    }
}

const VERSION: u32 = 1;
const LOG_NAME: &str = "spool.log";
const NEW_NAME: &str = "spool.new";
const LOCK_NAME: &str = "lock";

/// The first record of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    version: u32,
    stream: String,
    producer: String,
    kind: Kind,
    epoch: u64,
    /// The number of the next batch.
    next_seq: u64,
    /// How many entries were confirmed before this file was written.
    entries_before: u64,
}

/// What is sent as one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) entries: Vec<Bytes>,
    pub(crate) sealed: Sealed,
}

/// Whether the server may have seen a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// Not even tried.
    JustNow,
    Before,
}

/// Whose spool this is to be.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) stream: StreamName,
    /// `None`: a new spool makes one up, an old one has one.
    pub(crate) producer: Option<ProducerId>,
    pub(crate) kind: Kind,
}

/// An open spool, and its one user.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    file: File,
    /// Where the next record goes.
    end: u64,
    /// Up to where the disk has given room to the file.
    room_end: u64,
    contents: Contents,
    limits: SpoolLimits,
    health: Health,
    life: Life,
    /// Held as long as the spool is open.
    _lock: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Well,
    Broken,
}

/// Whose epoch the next batch gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Nothing was sealed in it yet.
    New {
        epoch: u64,
    },
    Begun,
}

impl Spool {
    pub(crate) fn producer(&self) -> &str {
        &self.contents.header.producer
    }

    /// How many entries were ever taken over.
    pub(crate) fn accepted(&self) -> u64 {
        self.contents.acknowledged() + self.contents.pending.count
    }

    /// How many of them the server has confirmed.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.contents.acknowledged()
    }

    pub(crate) fn pending_bytes(&self) -> u64 {
        self.contents.pending.bytes
    }

    /// Writes entries, all or none. They are promised after [`Spool::sync`].
    pub(crate) fn append(&mut self, entries: &[Bytes]) -> Result<(), SpoolError> {
        self.check_health()?;
        let mut bytes = Vec::new();
        for entry in entries {
            self.check_entry(entry)?;
            record::write(&mut bytes, &Record::Entry(entry.clone()));
        }
        let added = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let pending_bytes = self.contents.pending.bytes;
        let bytes_max = self.limits.pending_bytes_max;
        if pending_bytes.saturating_add(added) > bytes_max {
            return Err(SpoolError::Full {
                pending_bytes,
                bytes_max,
            });
        }
        self.make_room(added)?;
        self.write(&bytes)?;
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        self.contents.pending.add(count, added);
        Ok(())
    }

    fn check_entry(&self, entry: &Bytes) -> Result<(), SpoolError> {
        let bytes_max = self.limits.entry_bytes_max;
        if entry.len() > bytes_max {
            return Err(SpoolError::EntryTooLarge {
                bytes: entry.len(),
                bytes_max,
            });
        }
        if entry.is_empty() {
            return Err(SpoolError::EntryEmpty);
        }
        match self.contents.header.kind {
            Kind::Json => serde_json::from_slice::<&serde_json::value::RawValue>(entry)
                .map(drop)
                .map_err(|source| SpoolError::EntryJson { source }),
            Kind::Bytes => Ok(()),
        }
    }

    pub(crate) fn sync(&mut self) -> Result<(), SpoolError> {
        self.check_health()?;
        let synced = self.file.sync_data();
        synced.map_err(|source| self.broken("sync", source))
    }

    /// The batch that is to be confirmed next: the one that was not, or a new one. `None`: all is confirmed.
    /// What was appended has to be synced before.
    pub(crate) fn next_batch(&mut self) -> Result<Option<Batch>, SpoolError> {
        self.check_health()?;
        let (count, sealed) = match self.contents.sealed {
            Some(count) => (count, Sealed::Before),
            None => (self.limits.batch_entries_max, Sealed::JustNow),
        };
        let bytes_max = match sealed {
            Sealed::Before => usize::MAX,
            Sealed::JustNow => self.limits.batch_bytes_max,
        };
        let read = contents::read_entries(&self.file, self.contents.first, self.end, |taken| {
            taken.count < count && (taken.count == 0 || taken.bytes < bytes_max)
        });
        let entries = read.map_err(|error| error.into_spool_error(&self.log_path()))?;
        let Ok(found) = u32::try_from(entries.len()) else {
            return Err(SpoolError::Unusable);
        };
        if found == 0 {
            return Ok(None);
        }
        if sealed == Sealed::Before && found != count {
            return Err(SpoolError::Damaged {
                path: self.log_path(),
                at: self.contents.first,
            });
        }
        if sealed == Sealed::JustNow {
            self.seal(found)?;
        }
        Ok(Some(Batch {
            epoch: self.contents.header.epoch,
            seq: self.contents.header.next_seq,
            entries,
            sealed,
        }))
    }

    /// Fixes what the next batch is, and its epoch, before anybody else can see it.
    fn seal(&mut self, count: u32) -> Result<(), SpoolError> {
        let header = &self.contents.header;
        let mut bytes = Vec::new();
        let (epoch, seq) = match self.life {
            Life::New { epoch } => {
                // Clocks go back at times; epochs do not.
                let epoch = epoch.max(header.epoch.saturating_add(1));
                record::write(&mut bytes, &Record::Epoch { epoch });
                (epoch, 0)
            }
            Life::Begun => (header.epoch, header.next_seq),
        };
        record::write(&mut bytes, &Record::Sealed { seq, count });
        self.write(&bytes)?;
        self.sync()?;
        self.contents.header.epoch = epoch;
        self.contents.header.next_seq = seq;
        self.contents.sealed = Some(count);
        self.life = Life::Begun;
        Ok(())
    }

    /// The server has the batch that [`Spool::next_batch`] gave.
    pub(crate) fn acknowledge(&mut self) -> Result<(), SpoolError> {
        self.check_health()?;
        if self.contents.sealed.is_none() {
            return Ok(());
        }
        let seq = self.contents.header.next_seq;
        let mut bytes = Vec::new();
        record::write(&mut bytes, &Record::Acknowledged { seq });
        self.write(&bytes)?;
        let passed = self.contents.pass_batch(&self.file, self.end);
        passed.map_err(|error| error.into_spool_error(&self.log_path()))?;
        let confirmed = self.end.saturating_sub(self.contents.pending.bytes);
        if confirmed
            > self
                .limits
                .confirmed_bytes_max
                .max(self.contents.pending.bytes)
            && let Err(error) = self.compact()
        {
            // The old file does as well, if it is still the one; the next confirmation tries again.
            self.check_health()?;
            tracing::warn!(%error, "could not take confirmed entries out of a spool");
        }
        Ok(())
    }

    /// What is not confirmed is to be sent under new numbers. Right only when it is certain that the server has none of it.
    pub(crate) fn begin_again(&mut self, epoch: u64) -> Result<(), SpoolError> {
        self.contents.sealed = None;
        self.life = Life::New { epoch };
        self.compact()
    }

    /// Writes what is not confirmed to a new file, which takes the place of the old one.
    pub(crate) fn compact(&mut self) -> Result<(), SpoolError> {
        self.check_health()?;
        let contents = Contents {
            header: Header {
                entries_before: self.contents.acknowledged(),
                ..self.contents.header.clone()
            },
            ..self.contents.clone()
        };
        let prepared = open::prepare_file(&self.folder, &contents, |out| {
            contents::copy_entries(&self.file, self.contents.first, self.end, out)
        });
        let (file, end, first) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                // What is left of it is in nobody's way, and takes space.
                drop(remove_if_there(&self.folder.join(NEW_NAME)));
                return Err(error);
            }
        };
        if let Err(error) = open::put_in_place(&self.folder) {
            self.health = Health::Broken;
            return Err(error);
        }
        self.file = file;
        self.end = end;
        self.room_end = end;
        self.contents = Contents {
            first,
            acknowledged_here: 0,
            ..contents
        };
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        if let Err(source) = self.file.write_all_at(bytes, self.end) {
            // A part of it may be there, such as on a full disk: away with it, or the next record would follow rubbish.
            if self.file.set_len(self.end).is_err() {
                self.health = Health::Broken;
            }
            // The room went with it.
            self.room_end = self.end;
            return Err(SpoolError::Io {
                doing: "write to",
                path: self.log_path(),
                source,
            });
        }
        self.end += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn check_health(&self) -> Result<(), SpoolError> {
        match self.health {
            Health::Well => Ok(()),
            Health::Broken => Err(SpoolError::Unusable),
        }
    }

    fn broken(&mut self, doing: &'static str, source: io::Error) -> SpoolError {
        self.health = Health::Broken;
        SpoolError::Io {
            doing,
            path: self.log_path(),
            source,
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join(LOG_NAME)
    }
}

fn sync_folder(folder: &Path) -> Result<(), SpoolError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| SpoolError::Io {
        doing: "sync folder",
        path: folder.to_path_buf(),
        source,
    })
}

fn remove_if_there(path: &Path) -> Result<(), SpoolError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SpoolError::Io {
            doing: "remove",
            path: path.to_path_buf(),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
