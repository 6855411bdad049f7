//! What a provider is told. Nothing is read from the environment here.

use std::time::Duration;

use holm_daytona_client::Settings;
use sha2::{Digest as _, Sha256};

use super::paths::LocalRoot;

/// Minutes without use until a sandbox is stopped, unless the configuration says otherwise.
pub const AUTO_STOP_MINUTES_DEFAULT: u32 = 30;
/// Minutes after which a sandbox that was stopped is deleted. The longest that a pause at work may take.
const AUTO_DELETE_MINUTES_DEFAULT: u32 = 24 * 60;

/// Where sandboxes are made, and how.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Address, key and deadlines.
    pub settings: Settings,
    /// `None` is the server's own.
    pub snapshot: Option<String>,
    pub target: Option<String>,
    /// Minutes without use until the sandbox is stopped; it is started again when it is needed. 0 is never.
    pub auto_stop_minutes: u32,
    /// Minutes after which a stopped sandbox is deleted, which only matters if this process was killed; `None` is never.
    pub auto_delete_minutes: Option<u32>,
    /// The folder for files, below the home folder of the sandbox's user.
    pub workspace: String,
    pub local_roots: Vec<LocalRoot>,
    pub labels: Vec<(String, String)>,
    /// All of the start, from the first request to a sandbox that can be used.
    pub start_timeout: Duration,
    /// A file that is longer is not held in memory.
    pub file_bytes_max: usize,
}

impl ProviderConfig {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            snapshot: None,
            target: None,
            auto_stop_minutes: AUTO_STOP_MINUTES_DEFAULT,
            auto_delete_minutes: Some(AUTO_DELETE_MINUTES_DEFAULT),
            workspace: "workspace".to_owned(),
            local_roots: Vec::new(),
            labels: Vec::new(),
            start_timeout: Duration::from_secs(120),
            file_bytes_max: 64 * 1024 * 1024,
        }
    }

    /// The same for the same configuration, key and all; it tells nothing about the key.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let Self {
            settings,
            snapshot,
            target,
            auto_stop_minutes,
            auto_delete_minutes,
            workspace,
            local_roots,
            labels,
            start_timeout,
            file_bytes_max,
        } = self;
        let mut hash = Sha256::new();
        // Keys do not print, so it goes in apart.
        hash.update(Sha256::digest(settings.api_key.expose()));
        hash.update(format!(
            "{settings:?} {snapshot:?} {target:?} {auto_stop_minutes} {auto_delete_minutes:?} {workspace:?} {local_roots:?} \
             {labels:?} {start_timeout:?} {file_bytes_max}"
        ));
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_002_configuration_defaults() {
        let config = ProviderConfig::new(Settings::new("http://x/api", "key"));
        assert_eq!(config.auto_stop_minutes, 30);
        assert_eq!(config.workspace, "workspace");
        assert_eq!(config.snapshot, None);
    }

    #[test]
    fn every_difference_is_another_configuration() {
        let config = |key: &str| ProviderConfig::new(Settings::new("http://x/api", key));
        let first = config("one").fingerprint();
        assert_eq!(first, config("one").fingerprint());
        assert_ne!(first, config("two").fingerprint());
        let mut other = config("one");
        other.auto_stop_minutes = 0;
        assert_ne!(first, other.fingerprint());
    }
}
