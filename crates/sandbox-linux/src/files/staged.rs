//! A file that is written piece by piece and appears at its end.
//!
//! For content that comes in at a stranger's pace: between two pieces no thread has to wait. The pieces may come from
//! different threads.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::acting::{ActAs, begin};
use super::write::{Target, Temporary};
use super::{ConfinedDir, FilesError, Owner, WriteOptions, names};

/// New content for a path. Until [`commit`](Self::commit) the old content stays; dropped before, nothing has happened but
/// that missing parents were made.
#[derive(Debug)]
pub struct StagedFile {
    directory: OwnedFd,
    name: PathBuf,
    /// The path for error messages.
    shown: PathBuf,
    owner: Option<Owner>,
    act_as: Option<ActAs>,
    options: WriteOptions,
    mode: u32,
    file: File,
    /// Gone once the file has its name.
    temporary: Option<PathBuf>,
    bytes: u64,
}

impl ConfinedDir {
    /// Begins what [`write_from`](Self::write_from) does at once.
    pub fn stage(&self, path: &Path, options: WriteOptions) -> Result<StagedFile, FilesError> {
        let (parent, name) = names::split(path)?;
        let directory = {
            let _acting = self.act(path)?;
            self.open_or_create_dirs(parent)
                .map_err(|error| error.naming(path))?
        };
        let target = Target {
            directory: directory.as_fd(),
            name,
            shown: path,
            owner: self.owner,
            act_as: self.act_as,
        };
        let (mode, file, temporary) = target.begin(options.permissions)?;
        let temporary = temporary.keep();
        Ok(StagedFile {
            name: name.to_path_buf(),
            shown: path.to_path_buf(),
            owner: self.owner,
            act_as: self.act_as,
            directory,
            options,
            mode,
            file,
            temporary,
            bytes: 0,
        })
    }
}

impl StagedFile {
    /// Appends to the new content.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), FilesError> {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        let bytes = self.bytes;
        if let Some(bytes_max) = self
            .options
            .bytes_max
            .filter(|bytes_max| bytes > *bytes_max)
        {
            return Err(FilesError::TooLarge {
                path: self.shown.clone(),
                bytes_max,
            });
        }
        let _acting = begin(self.act_as, &self.shown)?;
        self.file
            .write_all(piece)
            .map_err(|source| FilesError::from_io("write", &self.shown, source))
    }

    /// Puts the new content in the place of the old. Returns the number of its bytes.
    pub fn commit(mut self) -> Result<u64, FilesError> {
        let temporary = self.temporary.take();
        let target = Target {
            directory: self.directory.as_fd(),
            name: &self.name,
            shown: &self.shown,
            owner: self.owner,
            act_as: self.act_as,
        };
        if let Some(temporary) = temporary {
            let temporary = Temporary::new(self.directory.as_fd(), temporary, self.act_as);
            target.end(&self.file, temporary, self.options, self.mode)?;
        }
        Ok(self.bytes)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            drop(Temporary::new(
                self.directory.as_fd(),
                temporary,
                self.act_as,
            ));
        }
    }
}
