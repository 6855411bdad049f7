//! A reader's position on disk: there in whole, or the one before it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use holm_thread_log::StreamName;
use serde::{Deserialize, Serialize};

use crate::reader::Position;
use crate::{ClientError, Result};

const VERSION: u32 = 1;
/// More is no cursor.
const BYTES_MAX: u64 = 4_096;

/// Where the position of one reader of one stream is kept.
#[derive(Debug, Clone)]
pub struct CursorFile {
    path: PathBuf,
    stream: StreamName,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    stream: String,
    #[serde(flatten)]
    position: Position,
}

impl CursorFile {
    pub fn new(path: impl Into<PathBuf>, stream: StreamName) -> Self {
        Self {
            path: path.into(),
            stream,
        }
    }

    /// What was saved last; `None` if nothing was.
    pub fn load(&self) -> Result<Option<Position>> {
        let text = match fs::metadata(&self.path) {
            Ok(found) if found.len() > BYTES_MAX => Err(io::Error::other("it is too large")),
            Ok(_) => fs::read(&self.path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error),
        };
        let text = text.map_err(|source| self.failed("read", source))?;
        let stored: Stored = serde_json::from_slice(&text)
            .map_err(|error| self.failed("understand", error.into()))?;
        if stored.version != VERSION || stored.stream != self.stream.as_str() {
            let found = io::Error::other(format!(
                "it is of version {} and for stream `{}`",
                stored.version, stored.stream
            ));
            return Err(self.failed("use", found));
        }
        Ok(Some(stored.position))
    }

    /// Saves a position. It survives a power cut, as does the one before it until then.
    pub fn save(&self, position: &Position) -> Result<()> {
        let stored = Stored {
            version: VERSION,
            stream: self.stream.to_string(),
            position: position.clone(),
        };
        let text =
            serde_json::to_vec(&stored).map_err(|error| self.failed("write", error.into()))?;
        self.replace(&text)
            .map_err(|source| self.failed("write", source))
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        let mut file = File::create(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failed(&self, doing: &str, source: io::Error) -> ClientError {
        ClientError::CursorFile {
            doing: format!("{doing} the cursor `{}`", self.path.display()),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_found_again_and_belongs_to_its_stream() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cursor.json");
        let cursor = CursorFile::new(&path, "a".parse().unwrap());
        assert_eq!(cursor.load().unwrap(), None);
        let position = Position {
            offset: "17".into(),
            skip: 2,
        };
        cursor.save(&position).unwrap();
        assert_eq!(cursor.load().unwrap(), Some(position));
        assert!(CursorFile::new(&path, "b".parse().unwrap()).load().is_err());
        for wrong in ["", "{", "{}", &"x".repeat(5_000)] {
            fs::write(&path, wrong).unwrap();
            assert!(cursor.load().is_err(), "{wrong}");
        }
    }
}
