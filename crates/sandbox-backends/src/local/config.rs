//! What the local backend is told about its host. The library reads no environment: `crates/cli` does.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where things are kept, and the caller's surroundings.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Holm's own state: boxes, cached checkouts, skeletons. Private to the user.
    pub data_dir: PathBuf,
    /// Where worktrees are made (`harness-<runId>`).
    pub temp_dir: PathBuf,
    /// The home whose toolchains boxes may use.
    pub home: Option<PathBuf>,
    /// The caller's environment: what plain commands inherit, and where a box's `PATH` comes from.
    pub environment: Vec<(OsString, OsString)>,
    pub cache: CacheLimits,
    /// How many boxes are prepared ahead of time; zero turns that off.
    pub prepared_boxes: usize,
}

/// How much the cached checkouts may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    pub entries_max: usize,
    pub bytes_max: u64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            entries_max: 32,
            bytes_max: 16 << 30,
        }
    }
}

impl LocalConfig {
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str())
    }

    pub(crate) fn boxes_dir(&self) -> PathBuf {
        self.data_dir.join("boxes")
    }

    pub(crate) fn checkouts_dir(&self) -> PathBuf {
        self.data_dir.join("checkouts")
    }

    /// Files of sandboxes whose work no branch could hold.
    pub(crate) fn leftovers_dir(&self) -> PathBuf {
        self.data_dir.join("leftovers")
    }

    pub(crate) fn base_dir(&self) -> PathBuf {
        self.data_dir.join("base")
    }
}
