//! What a caller chooses when making a sandbox at Daytona. Nothing is read from the environment here.

use std::path::PathBuf;
use std::time::Duration;

use holm_daytona_client::{Client, DEFAULT_API_URL, Settings};
use holm_sandbox::{Result, SandboxError, Secret};

use super::errors::unusable;
use super::github::GitHub;

pub const DEFAULT_SNAPSHOT: &str = "daytona-medium";
pub const DEFAULT_TARGET: &str = "us";
/// What is said without a key, in the words of the seed.
pub const MISSING_KEY: &str =
    "Daytona API key required (set DAYTONA_API_KEY or pass opts.daytona.apiKey)";

/// Which run a sandbox is for.
pub const LABEL_RUN: &str = "holm.run";
/// Which thread it works on.
pub const LABEL_THREAD: &str = "holm.thread";
/// What it was made from.
pub const LABEL_ENVIRONMENT: &str = "holm.environment";
/// The repository that was cloned, as `owner/name`; what finding a sandbox again needs.
pub const LABEL_REPOSITORY: &str = "holm.repository";
/// The branch that was made.
pub const LABEL_BRANCH: &str = "holm.branch";

/// Where repositories are cloned to.
pub(super) const WORKSPACE: &str = "/home/daytona/workspace";
/// Minutes without use.
const AUTO_STOP_MINUTES: u32 = 30;

/// A sandbox to be made.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// `org/repo` or `https://github.com/org/repo`; `None` begins with an empty folder.
    pub repo: Option<String>,
    /// The branch that is made from the default branch and checked out.
    pub branch: String,
    /// How long cloning and pushing may take.
    pub operation_timeout: Option<Duration>,
    pub daytona: DaytonaOptions,
    /// For private repositories, and for pushing.
    pub github_token: Option<Secret>,
}

/// What is particular to Daytona.
#[derive(Debug, Clone, Default)]
pub struct DaytonaOptions {
    pub api_key: Option<Secret>,
    /// [`DEFAULT_API_URL`] if unset.
    pub api_url: Option<String>,
    /// [`DEFAULT_TARGET`] if unset.
    pub target: Option<String>,
    /// [`DEFAULT_SNAPSHOT`] if unset.
    pub snapshot: Option<String>,
    /// Applied by resizing, where the server can.
    pub resources: Option<Resources>,
    /// What the sandbox is called; the server's choice if unset.
    pub name: Option<String>,
    pub lifetime: Lifetime,
    /// Minutes without use until it is stopped, half an hour if unset; 0 means never.
    pub auto_stop_minutes: Option<u32>,
    pub labels: Labels,
    pub exec: ExecWay,
    /// IPv4 ranges that may be reached, separated by commas; the server's choice if unset.
    pub network_allow_list: Option<String>,
    pub github: GitHub,
    /// A folder of this machine where work that is nowhere else is kept at the end, as git bundles.
    pub bundles: Option<PathBuf>,
}

/// What the labels of a sandbox tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    pub run: Option<String>,
    pub thread: Option<String>,
    pub environment: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu: Option<u32>,
    /// GiB.
    pub memory: Option<u32>,
    /// GiB.
    pub disk: Option<u32>,
}

/// What becomes of a sandbox that nobody uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// It is stopped after half an hour, and deleted by that.
    #[default]
    Ephemeral,
    /// It is stopped after half an hour, and stays until it is deleted.
    UntilRemoved,
}

/// How commands are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecWay {
    /// In a session each: both outputs apart, as they come, and all of it ended at the timeout.
    #[default]
    Session,
    /// By one call, outputs merged. For debugging (`DAYTONA_SIMPLE_EXEC=1`).
    Simple,
}

impl DaytonaOptions {
    /// A client with these settings. Makes no call.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Invalid`] without a key, [`SandboxError::Backend`] for an address that is none.
    pub fn client(&self) -> Result<Client> {
        let settings = self.settings()?;
        Client::new(settings).map_err(unusable)
    }

    pub(super) fn settings(&self) -> Result<Settings> {
        let key = self.api_key.clone().filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| SandboxError::Invalid {
            what: MISSING_KEY.to_owned(),
            hint: "`holm key create` makes one for a server of your own".to_owned(),
        })?;
        let url = self.api_url.as_deref().unwrap_or(DEFAULT_API_URL);
        Ok(Settings::new(url, key))
    }

    /// Minutes until it is stopped, and minutes after that until it is deleted.
    pub(super) fn intervals(&self) -> (i32, i32) {
        let stop = self.auto_stop_minutes.unwrap_or(AUTO_STOP_MINUTES);
        let stop = i32::try_from(stop).unwrap_or(i32::MAX);
        match self.lifetime {
            Lifetime::Ephemeral => (stop, 0),
            Lifetime::UntilRemoved => (stop, -1),
        }
    }
}
