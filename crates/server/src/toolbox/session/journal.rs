//! What is written down about a session, so that the server after this one finds it again.
//!
//! One line of JSON per event, appended in one write; a line that a crash cut off is ignored. The file is the host's, in
//! a folder that no box sees.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use holm_daytona_wire::session::SessionExecuteRequest;
use serde::{Deserialize, Serialize};

use crate::clock::Millis;

pub(super) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    Opened {
        version: u32,
        id: String,
        /// The folder inside the box in which its commands lie.
        control: PathBuf,
    },
    Queued {
        id: String,
        request: SessionExecuteRequest,
    },
    /// It is about to be given to the shell, and its pipes are parked.
    Started {
        id: String,
        at: Millis,
        ticks: u64,
    },
    Ended {
        id: String,
        code: i32,
    },
}

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self {
            path,
            file: Mutex::new(file),
        })
    }

    pub(super) fn append(&self, entry: &Entry) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line(entry)?)
    }

    /// Keeps only these entries, which are asked for while nothing else is written.
    pub(super) fn rewrite(&self, entries: impl FnOnce() -> Vec<Entry>) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = Vec::new();
        for entry in entries() {
            text.extend(line(&entry)?);
        }
        let new = self.path.with_extension("new");
        // Left by a crash.
        drop(std::fs::remove_file(&new));
        let mut written = open(&new)?;
        written.write_all(&text)?;
        std::fs::rename(&new, &self.path)?;
        *file = written;
        Ok(())
    }

    pub(super) fn read(path: &Path) -> io::Result<Vec<Entry>> {
        let text = std::fs::read(path)?;
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_as_if_it_had_not_been_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let ended = |id: &str| Entry::Ended {
            id: id.to_owned(),
            code: 0,
        };
        let journal = Journal::open(path.clone()).unwrap();
        journal.append(&ended("a")).unwrap();
        journal.rewrite(|| vec![ended("b")]).unwrap();
        journal.append(&ended("c")).unwrap();
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"ended\":{\"id\":\"d\"")
            .unwrap();
        assert_eq!(Journal::read(&path).unwrap(), [ended("b"), ended("c")]);
    }
}
