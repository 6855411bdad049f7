//! One running box, as the toolbox uses it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use holm_sandbox_linux::files::{ConfinedDir, FilesError};
use holm_sandbox_linux::{EngineError, LinuxBox};

use super::account::Account;
use super::activity::Activity;
use super::ids::BoxIds;
use super::outside::WayOut;
use crate::error::{ApiError, Result};
use crate::records::SecretRecord;
use crate::toolbox::ToolboxState;

/// A running box with what the server keeps about it while it runs.
#[derive(Debug)]
pub struct Machine {
    /// The sandbox's id.
    pub id: String,
    pub account: Account,
    pub ids: BoxIds,
    pub activity: Arc<Activity>,
    /// A folder of the host for logs and the like; the box does not see it.
    pub directory: PathBuf,
    pub toolbox: ToolboxState,
    pub(super) inner: Arc<LinuxBox>,
    pub(super) root: ConfinedDir,
    pub(super) work_dir: PathBuf,
    pub(super) environment: RwLock<BTreeMap<String, String>>,
    pub(crate) way_out: WayOut,
}

impl Machine {
    /// The engine's side of it. Its calls block: see [`Machine::blocking`].
    pub fn inner(&self) -> &Arc<LinuxBox> {
        &self.inner
    }

    /// Where relative paths and commands begin.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// The box's whole root, with the power of the sandbox's user. Its calls block: see [`Machine::blocking`].
    pub fn files(&self) -> Result<ConfinedDir, FilesError> {
        self.root.try_clone()
    }

    /// A path as a client gave it, absolute inside the box: relative ones begin in the work directory, `~` is the home.
    pub fn absolute(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.account.home.clone(),
            Some(rest) if rest.starts_with('/') => {
                self.account.home.join(rest.trim_start_matches('/'))
            }
            Some(_) | None => self.work_dir().join(path),
        }
    }

    /// The environment that commands start with, with `more` on top.
    pub fn environment<'a>(
        &self,
        more: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Vec<(OsString, OsString)> {
        let environment = self
            .environment
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut environment = environment.clone();
        for (name, value) in more {
            environment.insert(name.clone(), value.clone());
        }
        environment
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// Changes the environment of commands that start from now on.
    pub fn change_environment(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut environment = self
            .environment
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut environment);
    }

    /// Puts the placeholders of these secrets into the environment of new commands, and lets the values out.
    pub(crate) fn use_secrets(&self, secrets: &[(String, SecretRecord)]) {
        self.change_environment(|environment| {
            for (variable, secret) in secrets {
                environment.insert(variable.clone(), secret.placeholder.clone());
            }
        });
        let rules = secrets
            .iter()
            .filter_map(|(_, secret)| super::outside::rule(secret).ok())
            .collect();
        self.way_out.set_secrets(rules);
    }

    /// Runs blocking work on the box away from the async workers.
    pub async fn blocking<T, E>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: Send + 'static,
        ApiError: From<E>,
    {
        let machine = Arc::clone(self);
        let result = tokio::task::spawn_blocking(move || work(&machine)).await?;
        Ok(result?)
    }

    /// Ends every process of the box.
    pub(crate) fn stop(&self) -> Result<(), EngineError> {
        self.inner.stop()
    }
}
