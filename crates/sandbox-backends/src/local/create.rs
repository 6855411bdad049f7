//! Making a sandbox, from nothing to running, with nothing left behind if a step fails.
//!
//! The record is written before the first side effect: whatever happens after, the next call finds
//! the sandbox and can undo it.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use holm_sandbox::{Result, RunId, SandboxError};
use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::{EngineError, IdRange, Network, Prepared};

use super::checkout::{self, at, make_private_folder};
use super::environment;
use super::errors::{engine_error, files_error};
use super::options::{CreateOptions, IsolationChoice, Nesting, Source};
use super::place::Place;
use super::pool::Blank;
use super::record::{self, IsolationKind, Record, SourceRecord, Stay};
use super::repository::Repository;
use super::runtime::LocalRuntime;
use super::sandbox::LocalSandbox;
use super::start::{EngineOrSandbox, Layers, Lock, start_box, write_upper};
use super::worktree::{self, Files};

/// Why a sandbox was not made.
enum Failure {
    /// The host does not allow boxes; without isolation it may still work.
    HostLimit(EngineError),
    Other(SandboxError),
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::Other(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        if is_host_limit(&error) {
            Self::HostLimit(error)
        } else {
            Self::Other(engine_error(error))
        }
    }
}

impl From<EngineOrSandbox> for Failure {
    fn from(error: EngineOrSandbox) -> Self {
        match error {
            EngineOrSandbox::Engine(error) => error.into(),
            EngineOrSandbox::Sandbox(error) => error.into(),
        }
    }
}

/// Whether the kernel or its configuration stands in the way, rather than this sandbox's input.
fn is_host_limit(error: &EngineError) -> bool {
    if let EngineError::Step { source, .. } = error {
        let refusals = [
            std::io::ErrorKind::PermissionDenied,
            std::io::ErrorKind::Unsupported,
        ];
        return refusals.contains(&source.kind());
    }
    matches!(error, EngineError::HostLacks { .. })
}

/// Makes a sandbox as asked.
pub(crate) fn create(runtime: &Arc<LocalRuntime>, options: &CreateOptions) -> Result<LocalSandbox> {
    let created = create_as_asked(runtime, options);
    if created.is_err() {
        runtime.engine.expect_none();
    }
    created
}

fn create_as_asked(runtime: &Arc<LocalRuntime>, options: &CreateOptions) -> Result<LocalSandbox> {
    if let Some(name) = &options.name {
        check_name(runtime, name)?;
    }
    let kind = match options.isolation {
        IsolationChoice::Auto | IsolationChoice::Namespaces => IsolationKind::Namespaces,
        IsolationChoice::None => IsolationKind::None,
    };
    if kind == IsolationKind::Namespaces && runtime.pool.is_none() {
        runtime.engine.expect_box(options.network, IdRange::FIRST);
    }
    match (attempt(runtime, options, kind), options.isolation) {
        (Ok(sandbox), _) => Ok(sandbox),
        (Err(Failure::Other(error)), _) => Err(error),
        (Err(Failure::HostLimit(error)), IsolationChoice::Auto) => {
            let reason = error_chain(&error);
            let mut sandbox = match attempt(runtime, options, IsolationKind::None) {
                Ok(sandbox) => sandbox,
                Err(Failure::Other(error)) => return Err(error),
                Err(Failure::HostLimit(error)) => return Err(engine_error(error)),
            };
            sandbox.warn(format!(
                "this host does not allow isolated boxes, so commands run unprotected: {reason}"
            ));
            Ok(sandbox)
        }
        (Err(Failure::HostLimit(error)), IsolationChoice::Namespaces | IsolationChoice::None) => {
            Err(engine_error(error))
        }
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn check_name(runtime: &LocalRuntime, name: &str) -> Result<()> {
    let is_plain = !name.is_empty()
        && name.len() <= 63
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && name
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric);
    if !is_plain {
        return Err(SandboxError::Invalid {
            what: format!("`{name}` cannot be the name of a sandbox"),
            hint:
                "use up to 63 letters, digits, `-`, `_` and `.`, beginning with a letter or digit"
                    .into(),
        });
    }
    if runtime
        .records()?
        .iter()
        .any(|(_, record)| record.title() == name)
    {
        return Err(SandboxError::Invalid {
            what: format!("a sandbox named `{name}` exists already"),
            hint: format!("choose another name, or remove it: `holm sandbox rm {name}`"),
        });
    }
    Ok(())
}

fn attempt(
    runtime: &Arc<LocalRuntime>,
    options: &CreateOptions,
    isolation: IsolationKind,
) -> std::result::Result<LocalSandbox, Failure> {
    let boxes = runtime.config.boxes_dir();
    make_private_folder(&runtime.config.data_dir)?;
    make_private_folder(&boxes)?;
    let (run_id, directory, owner_lock, prepared) = match take_prepared(runtime, options, isolation)
    {
        Some(Blank {
            run_id,
            directory,
            owner,
            prepared,
        }) => (run_id, directory, owner, Some(prepared)),
        None => {
            let (run_id, directory, owner_lock) = new_directory(&boxes)?;
            (run_id, directory, owner_lock, None)
        }
    };
    let mut making = Making {
        runtime,
        directory: &directory,
        worktree: None,
        prepared,
    };
    match making.make(run_id, options, isolation) {
        Ok((record, place, files, warnings)) => Ok(LocalSandbox::new(
            runtime.clone(),
            directory,
            record,
            place,
            files,
            match options.stay {
                Stay::Throwaway => owner_lock,
                Stay::UntilRemoved => None,
            },
            warnings,
        )),
        Err(failure) => {
            making.undo();
            Err(failure)
        }
    }
}

/// A prepared box, where one of the prepared kind is wanted.
fn take_prepared(
    runtime: &LocalRuntime,
    options: &CreateOptions,
    isolation: IsolationKind,
) -> Option<Blank> {
    let is_prepared_kind = isolation == IsolationKind::Namespaces
        && options.stay == Stay::Throwaway
        && options.network == Network::None
        && options.nesting == Nesting::Forbidden;
    runtime.pool.as_ref().filter(|_| is_prepared_kind)?.take()
}

/// A new folder for a sandbox, owned by this process from the moment that others can see it.
pub(crate) fn new_directory(boxes: &Path) -> Result<(RunId, PathBuf, Option<Lock>)> {
    let _others_wait = record::lock_all(boxes)?;
    loop {
        let digits = holm_sandbox_linux::random_hex();
        let run_id: RunId = digits.get(..8).unwrap_or(&digits).parse()?;
        let directory = boxes.join(run_id.to_string());
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {
                let owner = record::try_own(&directory)?;
                return Ok((run_id, directory, owner));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at("make folder", &directory)(error)),
        }
    }
}

/// A sandbox in the making, and what must be undone if it fails.
struct Making<'a> {
    runtime: &'a Arc<LocalRuntime>,
    directory: &'a Path,
    worktree: Option<(Repository, PathBuf, String)>,
    prepared: Option<Prepared>,
}

type Made = (Record, Place, ConfinedDir, Vec<String>);

impl Making<'_> {
    fn make(
        &mut self,
        run_id: RunId,
        options: &CreateOptions,
        isolation: IsolationKind,
    ) -> std::result::Result<Made, Failure> {
        let config = &self.runtime.config;
        let temp_dir = fs::canonicalize(&config.temp_dir)
            .map_err(at("find the temp folder", &config.temp_dir))?;
        let worktree_dir = temp_dir.join(run_id.worktree_name());
        let (source, work_dir, repository) = match &options.source {
            Source::Empty => (SourceRecord::Empty, worktree_dir, None),
            Source::Directory(path) => {
                let path = fs::canonicalize(path).map_err(at("open the folder", path))?;
                if !path.is_dir() {
                    return Err(SandboxError::NotADirectory { path }.into());
                }
                (SourceRecord::Directory { path: path.clone() }, path, None)
            }
            Source::Repository { path, branch } => {
                let repository = Repository::open(config, path)?;
                let source = SourceRecord::Repository {
                    path: repository.path.clone(),
                    branch: branch.clone().unwrap_or_else(|| format!("holm/{run_id}")),
                    branch_given: branch.is_some(),
                    commit: repository.commit.clone(),
                };
                (source, worktree_dir, Some(repository))
            }
        };
        let mut record = Record {
            version: Record::version(),
            run_id,
            name: options.name.clone(),
            created_unix_seconds: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            stay: options.stay,
            isolation,
            network: options.network,
            nested: options.nesting == Nesting::Allowed,
            limits: options.limits.into(),
            work_dir,
            source,
            init: None,
            checkout: None,
        };
        record.save(self.directory)?;
        if let (Some(repository), SourceRecord::Repository { branch, .. }) =
            (&repository, &record.source)
        {
            let files = match isolation {
                IsolationKind::Namespaces => Files::InTheBox,
                IsolationKind::None => Files::CheckedOut,
            };
            worktree::add(config, repository, branch, &record.work_dir, files)?;
            self.worktree = Some((repository.clone(), record.work_dir.clone(), branch.clone()));
        }
        match isolation {
            IsolationKind::Namespaces => {
                let layers = match repository {
                    Some(repository) => {
                        let checkout = checkout::checkout(
                            config,
                            &repository,
                            self.runtime.engine.power(),
                            &temp_dir,
                            || self.runtime.pinned_checkouts(),
                        )?;
                        record.checkout = Some(checkout.key.clone());
                        let layers = Layers {
                            repository,
                            checkout,
                        };
                        write_upper(self.runtime, self.directory, &record, &layers)?;
                        Some(layers)
                    }
                    None => None,
                };
                let (place, files, warnings) = start_box(
                    self.runtime,
                    self.directory,
                    &mut record,
                    layers.as_ref(),
                    self.prepared.take(),
                )?;
                record.save(self.directory)?;
                Ok((record, place, files, warnings))
            }
            IsolationKind::None => {
                if record.source == SourceRecord::Empty {
                    fs::create_dir(&record.work_dir)
                        .map_err(at("make folder", &record.work_dir))?;
                }
                let files = ConfinedDir::open(&record.work_dir)
                    .map_err(|error| files_error(error, &record.work_dir))?;
                let environment = environment::plain(config);
                Ok((record, Place::Plain { environment }, files, Vec::new()))
            }
        }
    }

    /// Takes back what was done. Errors here would hide the one that matters; what stays is found by
    /// the next call through its record.
    fn undo(&mut self) {
        let config = &self.runtime.config;
        if let Some(prepared) = self.prepared.take() {
            self.runtime.engine.discard(prepared);
        }
        if let Some((repository, path, branch)) = &self.worktree {
            drop(worktree::remove(config, repository, path));
            drop(worktree::delete_unchanged_branch(
                config,
                repository,
                branch,
                &repository.commit,
            ));
        }
        drop(record::remove_directory(self.directory));
    }
}
