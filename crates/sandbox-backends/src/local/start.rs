//! Starting the box of a sandbox, for the first time or again: its layers, its mounts, its files.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use holm_sandbox::{Result, SandboxError};
use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::{
    Access, BoxSpec, Durability, EngineError, IdRange, Lifetime, LinuxBox, MountSpec, Owner,
    Owners, Power, Prepared, ProcessIdentity, Profile, UpperLayer, WIRE_VERSION,
};

use super::checkout::{self, Checkout, OBJECTS_PLACE, at, remove_tree, write};
use super::environment;
use super::errors::{engine_error, files_error};
use super::index;
use super::place::Place;
use super::private_git::CHANGES_PLACE;
use super::record::{InitRecord, Record, SourceRecord, Stay};
use super::repository::{Repository, owner_of};
use super::runtime::LocalRuntime;

/// What a sandbox on a repository stands on.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) repository: Repository,
    pub(crate) checkout: Checkout,
}

impl Layers {
    /// The layers of a sandbox that was made earlier.
    pub(crate) fn of(runtime: &LocalRuntime, record: &Record) -> Result<Self> {
        let gone = || SandboxError::Invalid {
            what: format!(
                "the files that sandbox `{}` stands on are gone",
                record.title()
            ),
            hint: "make a new sandbox".into(),
        };
        let SourceRecord::Repository { path, .. } = &record.source else {
            return Err(gone());
        };
        let repository = Repository::open(&runtime.config, path)?;
        let key = record.checkout.as_ref().ok_or_else(gone)?;
        let found = checkout::open(&runtime.config.checkouts_dir(), key)?;
        Ok(Self {
            repository,
            checkout: found.ok_or_else(gone)?,
        })
    }
}

/// The box's own layer over the checkout: its branch, and the refs as they are now.
pub(crate) fn write_upper(
    runtime: &LocalRuntime,
    directory: &Path,
    record: &Record,
    layers: &Layers,
) -> Result<()> {
    let SourceRecord::Repository { branch, commit, .. } = &record.source else {
        return Ok(());
    };
    let upper = directory.join("tree-upper");
    let git_dir = upper.join(".git");
    let reference = git_dir.join("refs/heads").join(branch);
    if let Some(parent) = reference.parent() {
        fs::create_dir_all(parent).map_err(at("make folder", parent))?;
    }
    write(&reference, format!("{commit}\n").as_bytes())?;
    write(
        &git_dir.join("HEAD"),
        format!("ref: refs/heads/{branch}\n").as_bytes(),
    )?;
    write(
        &git_dir.join("packed-refs"),
        &layers.repository.packed_refs(&runtime.config)?,
    )?;
    if let Some(offset) = layers.checkout.location_offset {
        let index = layers.checkout.tree.join(".git/index");
        index::copy_for(&record.run_id, &index, &git_dir.join("index"), offset)?;
    }
    match runtime.engine.power() {
        Power::Root => {
            let user = runtime.engine.power().box_user(IdRange::FIRST);
            lchown(&upper, Some(user.uid), Some(user.gid)).map_err(at("give away", &upper))?;
            // Only what was written above: the rest of the layer is the box's own.
            give_away(&git_dir, user)
        }
        Power::User { .. } => Ok(()),
    }
}

/// Gives a fresh tree of ours to the box's user, following no link.
fn give_away(path: &Path, owner: Owner) -> Result<()> {
    lchown(path, Some(owner.uid), Some(owner.gid)).map_err(at("give away", path))?;
    if fs::symlink_metadata(path)
        .map_err(at("look at", path))?
        .is_dir()
    {
        for entry in fs::read_dir(path).map_err(at("read folder", path))? {
            give_away(&entry.map_err(at("read folder", path))?.path(), owner)?;
        }
    }
    Ok(())
}

/// Starts the box of a record, for the first time or again.
pub(crate) fn start_box(
    runtime: &LocalRuntime,
    directory: &Path,
    record: &mut Record,
    layers: Option<&Layers>,
    prepared: Option<Prepared>,
) -> std::result::Result<(Place, ConfinedDir, Vec<String>), EngineOrSandbox> {
    let engine = &runtime.engine;
    let base = runtime.base(record.network)?;
    if prepared.is_none() {
        fresh_work_folder(&directory.join("root-work"))?;
    }
    let mounts = mounts(runtime, directory, record, layers)?;
    let spec = BoxSpec {
        id: record.run_id.to_string(),
        directory: directory.to_path_buf(),
        base: base.clone().into(),
        layers: Vec::new(),
        mounts,
        profile: if record.nested {
            Profile::Nested
        } else {
            Profile::Strict
        },
        network: record.network,
        limits: record.limits.into(),
        lifetime: match record.stay {
            Stay::Throwaway => Lifetime::WithCreator,
            Stay::UntilRemoved => Lifetime::UntilStopped,
        },
        durability: match record.stay {
            Stay::Throwaway => Durability::Volatile,
            Stay::UntilRemoved => Durability::Durable,
        },
        ids: IdRange::FIRST,
        hostname: None,
    };
    let inner = match prepared {
        Some(prepared) => engine.claim(prepared, &spec)?,
        None => engine.create(&spec)?,
    };
    match finish_box(
        runtime,
        directory,
        record,
        &inner,
        layers.map(|layers| &layers.checkout),
    ) {
        Ok(files) => {
            let warnings = inner
                .unenforced()
                .iter()
                .map(|missing| {
                    format!(
                        "the {} limit is not enforced: {}",
                        missing.limit, missing.reason
                    )
                })
                .collect();
            let environment = environment::inside_box(&runtime.config, &base);
            Ok((
                Place::Boxed {
                    inner: Box::new(inner),
                    environment,
                },
                files,
                warnings,
            ))
        }
        Err(error) => {
            // The first error is the one to tell.
            drop(inner.stop());
            Err(error)
        }
    }
}

fn finish_box(
    runtime: &LocalRuntime,
    directory: &Path,
    record: &mut Record,
    inner: &LinuxBox,
    checkout: Option<&Checkout>,
) -> std::result::Result<ConfinedDir, EngineOrSandbox> {
    if let Some(checkout) = checkout {
        inner.hold(&[checkout.lock.as_fd()])?;
    }
    match record.stay {
        Stay::UntilRemoved => {
            let socket = directory.join("control");
            if socket.exists() {
                fs::remove_file(&socket).map_err(at("remove", &socket))?;
            }
            inner.listen(&socket)?;
        }
        Stay::Throwaway => {}
    }
    record.init = ProcessIdentity::of(inner.pid()).map(|process| InitRecord {
        process,
        wire_version: WIRE_VERSION,
    });
    open_files(runtime, record, inner)
}

/// The work directory inside the box, for file operations from outside.
pub(crate) fn open_files(
    runtime: &LocalRuntime,
    record: &Record,
    inner: &LinuxBox,
) -> std::result::Result<ConfinedDir, EngineOrSandbox> {
    if let SourceRecord::Directory { path } = &record.source {
        // The folder itself, not the box's view of it: there, its owner's ids are shifted and root's do
        // not exist.
        let files = ConfinedDir::open(path).map_err(|error| files_error(error, path))?;
        return Ok(match runtime.engine.power() {
            Power::Root => {
                let owner = owner_of(path)?;
                files.owned_by(owner.uid, owner.gid)
            }
            Power::User { .. } => files,
        });
    }
    let root = inner.root()?;
    let inside = record
        .work_dir
        .strip_prefix("/")
        .unwrap_or(&record.work_dir);
    let files = ConfinedDir::new(root)
        .and_then(|root| root.subdir(inside))
        .map_err(|error| files_error(error, &record.work_dir))?;
    Ok(match runtime.engine.power() {
        Power::Root => {
            let user = runtime.engine.power().box_user(IdRange::FIRST);
            files.owned_by(user.uid, user.gid)
        }
        Power::User { .. } => files,
    })
}

/// Overlayfs refuses the work folder of a volatile mount that was not unmounted; it holds nothing
/// that is needed.
fn fresh_work_folder(path: &Path) -> Result<()> {
    remove_tree(path)?;
    fs::create_dir(path).map_err(at("make folder", path))
}

fn mounts(
    runtime: &LocalRuntime,
    directory: &Path,
    record: &Record,
    layers: Option<&Layers>,
) -> Result<Vec<MountSpec>> {
    let power = runtime.engine.power();
    let mut mounts = Vec::new();
    match (&record.source, layers) {
        (SourceRecord::Empty, _) => {
            let work = directory.join("work");
            if !work.is_dir() {
                fs::create_dir(&work).map_err(at("make folder", &work))?;
                let user = power.box_user(IdRange::FIRST);
                lchown(&work, Some(user.uid), Some(user.gid)).map_err(at("give away", &work))?;
            }
            mounts.push(MountSpec::Bind {
                source: work,
                place: record.work_dir.clone(),
                access: Access::ReadWrite,
                owners: Owners::AsOnHost,
            });
        }
        (SourceRecord::Directory { path }, _) => {
            let owner = owner_of(path)?;
            mounts.push(MountSpec::Bind {
                source: path.clone(),
                place: record.work_dir.clone(),
                access: Access::ReadWrite,
                owners: Owners::BoxUserIs {
                    uid: owner.uid,
                    gid: owner.gid,
                },
            });
        }
        (
            SourceRecord::Repository { .. },
            Some(Layers {
                repository,
                checkout,
            }),
        ) => {
            fresh_work_folder(&directory.join("tree-work"))?;
            mounts.push(MountSpec::Overlay {
                place: record.work_dir.clone(),
                lower: vec![checkout.tree.clone()],
                upper: UpperLayer {
                    upper: directory.join("tree-upper"),
                    work: directory.join("tree-work"),
                },
            });
            // Read-only, and the box's own: it may know what it has changed.
            mounts.push(MountSpec::Bind {
                source: directory.join("tree-upper"),
                place: PathBuf::from(CHANGES_PLACE),
                access: Access::ReadOnly,
                owners: Owners::AsOnHost,
            });
            for (index, objects) in repository.object_dirs.iter().enumerate() {
                let owner = owner_of(objects)?;
                mounts.push(MountSpec::Bind {
                    source: objects.clone(),
                    place: Path::new(OBJECTS_PLACE).join(index.to_string()),
                    access: Access::ReadOnly,
                    owners: Owners::BoxUserIs {
                        uid: owner.uid,
                        gid: owner.gid,
                    },
                });
            }
        }
        (SourceRecord::Repository { path, .. }, None) => {
            return Err(SandboxError::Invalid {
                what: format!("the checkout of `{}` is gone", path.display()),
                hint: "make a new sandbox".into(),
            });
        }
    }
    if let Power::User { .. } = power {
        mounts.iter().try_for_each(refuse_odd_paths)?;
    }
    Ok(mounts)
}

/// The engine is told of mounts in text where it has no descriptors for them.
fn refuse_odd_paths(mount: &MountSpec) -> Result<()> {
    let (MountSpec::Bind {
        source: path,
        place,
        ..
    }
    | MountSpec::Overlay {
        place: path,
        upper: UpperLayer { upper: place, .. },
        ..
    }) = mount;
    match [path, place]
        .into_iter()
        .find(|path| path.to_str().is_none())
    {
        None => Ok(()),
        Some(path) => Err(SandboxError::Invalid {
            what: format!("path `{}` is not valid UTF-8", path.display()),
            hint: "rename it, or use `--isolation none`".into(),
        }),
    }
}

/// An error of either layer, on its way to the caller.
pub(crate) enum EngineOrSandbox {
    Engine(EngineError),
    Sandbox(SandboxError),
}

impl From<EngineError> for EngineOrSandbox {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<SandboxError> for EngineOrSandbox {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

impl From<EngineOrSandbox> for SandboxError {
    fn from(error: EngineOrSandbox) -> Self {
        match error {
            EngineOrSandbox::Engine(error) => engine_error(error),
            EngineOrSandbox::Sandbox(error) => error,
        }
    }
}

/// Keeps a lock file open for as long as a value lives.
pub(crate) type Lock = File;
