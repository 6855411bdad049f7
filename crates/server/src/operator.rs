//! What an operator does to a server's snapshots from beside it, whether or not it runs.
//!
//! A snapshot of the operator is for all organisations; one that is made from a sandbox is for the sandbox's. The row
//! comes first, as `snapshotting`, so that a running server does not take the files for something that nobody needs. The row of a
//! maker that was killed is found and removed by [`remove_abandoned`], at the next start of the server and by the next command.

mod maker;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use holm_daytona_wire::sandbox::SandboxState;
use holm_daytona_wire::snapshot::SnapshotState;
use holm_images::{Cancel, Images, ImagesError, ImportedImage, Progress, RegistryOptions, Watch};
use holm_sandbox_linux::{Durability, EngineError, LayerOptions, copy_layer};
use holm_store::{Store, StoreError};

use crate::api::{checked_snapshot_name, sizes};
use crate::builtin;
use crate::clock;
use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::records::{Foundation, OrganizationRecord, Resources, SandboxRecord, SnapshotRecord};
use crate::snapshots::add_snapshot;
use maker::Maker;

pub use maker::remove_abandoned;

/// An import that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(6 * 60 * 60);

/// What a snapshot is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotSource {
    /// A root file system as an archive, perhaps compressed.
    Tar(PathBuf),
    /// A folder with an OCI layout.
    OciLayout(PathBuf),
    /// A sandbox that is stopped, by its id.
    Sandbox(String),
    /// A suite of Debian.
    Debootstrap(String),
    /// An image of a registry.
    Image(String),
}

/// A snapshot to be made.
#[derive(Debug, Clone)]
pub struct OperatorSnapshot {
    pub name: String,
    pub source: SnapshotSource,
    /// Daytona's defaults where nothing is said.
    pub cpu: Option<u32>,
    pub memory_gib: Option<u32>,
    pub disk_gib: Option<u32>,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("could not use the store")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("could not make the image of snapshot `{name}`")]
    Image {
        name: String,
        #[source]
        source: ImagesError,
    },
    #[error("could not copy the files of sandbox `{id}`")]
    Copy {
        id: String,
        #[source]
        source: EngineError,
    },
    #[error("could not open `{path}`")]
    Lock {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("a server uses the data folder `{path}`")]
    InUse { path: PathBuf },
    #[error("there is no sandbox `{id}`")]
    UnknownSandbox { id: String },
    #[error("sandbox `{id}` is {state}")]
    NotStopped { id: String, state: SandboxState },
    #[error("there is no snapshot `{name}`")]
    Unknown { name: String },
    #[error("snapshot `{name}` was removed while it was made")]
    RemovedMeanwhile { name: String },
    #[error("{count} snapshots are called `{name}`")]
    Ambiguous { name: String, count: usize },
    #[error("snapshot `{name}` belongs to every server")]
    BuiltIn { name: String },
    #[error("{message}")]
    Refused { message: String },
}

impl OperatorError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store { source } => source.hint().map(Into::into),
            Self::InUse { .. } => Some(
                "stop the server first, or ask it: `POST /api/sandbox/ID/snapshot` does the same"
                    .into(),
            ),
            Self::NotStopped { .. } => {
                Some("start the server and stop the sandbox; its files have to keep still".into())
            }
            Self::UnknownSandbox { .. } => Some(
                "sandboxes are named by their ids here, as `GET /api/sandbox` lists them".into(),
            ),
            Self::Ambiguous { .. } => {
                Some("use its id, which `holm snapshot list --json` shows".into())
            }
            Self::Unknown { .. } => Some("`holm snapshot list` shows those that exist".into()),
            Self::BuiltIn { .. } => Some("it costs nothing: it is the host's own system".into()),
            Self::Image { .. }
            | Self::Copy { .. }
            | Self::Lock { .. }
            | Self::RemovedMeanwhile { .. }
            | Self::Refused { .. } => None,
        }
    }
}

impl From<ApiError> for OperatorError {
    fn from(error: ApiError) -> Self {
        Self::Refused {
            message: error.message,
        }
    }
}

type Result<T, E = OperatorError> = std::result::Result<T, E>;

/// Makes a snapshot. `progress` is told what goes on, line by line.
pub fn create_snapshot(
    config: &ServerConfig,
    store: &Store,
    new: &OperatorSnapshot,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<SnapshotRecord> {
    let (mut record, _lock) = match &new.source {
        SnapshotSource::Sandbox(id) => {
            let (record, lock) = of_sandbox(config, store, new, id)?;
            (record, Some(lock))
        }
        SnapshotSource::Tar(_)
        | SnapshotSource::OciLayout(_)
        | SnapshotSource::Debootstrap(_)
        | SnapshotSource::Image(_) => (general(new)?, None),
    };
    let _maker = Maker::begin(config, &record.id)?;
    add_snapshot(store, &record)?;
    match fill(config, new, &mut record, progress) {
        Ok(()) => {
            record.state = SnapshotState::Active;
            record.updated_at = clock::now();
            store.write(|transaction| {
                if transaction.get::<SnapshotRecord>(&record.id)?.is_none() {
                    let name = record.name.clone();
                    return Err(OperatorError::RemovedMeanwhile { name });
                }
                Ok(transaction.put(&record)?)
            })?;
            Ok(record)
        }
        Err(error) => {
            // What was made for it has no name any more, and is removed by the server.
            store.delete::<SnapshotRecord>(&record.id)?;
            Err(error)
        }
    }
}

/// All snapshots, those of the server first.
pub fn list_snapshots(store: &Store) -> Result<Vec<(SnapshotRecord, Option<String>)>> {
    let organizations: Vec<OrganizationRecord> = store.all()?;
    let snapshots: Vec<SnapshotRecord> = store.all()?;
    let with_owner = |snapshot: SnapshotRecord| {
        let owner = organizations
            .iter()
            .find(|organization| organization.id == snapshot.organization)
            .map(|organization| organization.name.clone());
        (snapshot, owner)
    };
    Ok(snapshots.into_iter().map(with_owner).collect())
}

/// Removes a snapshot by its id, or by its name if only one organisation has one of that name. Sandboxes that were
/// made from it stay.
pub fn remove_snapshot(store: &Store, id_or_name: &str) -> Result<SnapshotRecord> {
    let unknown = || OperatorError::Unknown {
        name: id_or_name.to_owned(),
    };
    let mut all: Vec<SnapshotRecord> = store.all()?;
    // Ids first: a name is whatever its organisation chose, also the id of another's.
    if all.iter().any(|snapshot| snapshot.id == id_or_name) {
        all.retain(|snapshot| snapshot.id == id_or_name);
    } else {
        all.retain(|snapshot| snapshot.name == id_or_name);
    }
    let count = all.len();
    let found = all.pop().ok_or_else(unknown)?;
    if count > 1 {
        return Err(OperatorError::Ambiguous {
            name: found.name,
            count,
        });
    }
    if found.organization.is_empty() && builtin::has(&found.name) {
        return Err(OperatorError::BuiltIn { name: found.name });
    }
    if !store.delete::<SnapshotRecord>(&found.id)? {
        return Err(unknown());
    }
    Ok(found)
}

fn general(new: &OperatorSnapshot) -> Result<SnapshotRecord> {
    let now = clock::now();
    Ok(SnapshotRecord {
        id: uuid::Uuid::new_v4().to_string(),
        organization: String::new(),
        name: checked_snapshot_name(&new.name)?,
        state: SnapshotState::Snapshotting,
        foundation: Foundation::Host,
        layers: Vec::new(),
        layers_id_range: 0,
        image_name: match &new.source {
            SnapshotSource::Image(image) => Some(image.clone()),
            SnapshotSource::Tar(_)
            | SnapshotSource::OciLayout(_)
            | SnapshotSource::Sandbox(_)
            | SnapshotSource::Debootstrap(_) => None,
        },
        image_user: None,
        entrypoint: Vec::new(),
        dockerfile: None,
        resources: sizes(new.cpu, new.memory_gib, new.disk_gib)?,
        size_bytes: 0,
        error_reason: None,
        created_at: now,
        updated_at: now,
        last_used_at: None,
        source_sandbox: None,
    })
}

/// The record of a snapshot of a sandbox, with the lock that keeps servers from starting it meanwhile.
fn of_sandbox(
    config: &ServerConfig,
    store: &Store,
    new: &OperatorSnapshot,
    id: &str,
) -> Result<(SnapshotRecord, File)> {
    let path = config.lock_file();
    let opened = File::create(&path);
    let lock = opened.map_err(|source| OperatorError::Lock {
        path: path.clone(),
        source,
    })?;
    lock.try_lock().map_err(|_| OperatorError::InUse {
        path: config.data.clone(),
    })?;
    let found: Option<SandboxRecord> = store.get(id)?;
    let sandbox = found.ok_or_else(|| OperatorError::UnknownSandbox { id: id.to_owned() })?;
    let keeps_still = matches!(
        sandbox.state,
        SandboxState::Stopped | SandboxState::Archived
    );
    if !keeps_still {
        return Err(OperatorError::NotStopped {
            id: id.to_owned(),
            state: sandbox.state,
        });
    }
    let organization: Option<OrganizationRecord> = store.get(&sandbox.organization)?;
    let mut layers = vec![holm_sandbox_linux::random_hex()];
    layers.extend(sandbox.layers);
    let size = |given: Option<u32>, own: u32| Some(given.unwrap_or(own));
    let own = sandbox.resources;
    let resources: Resources = sizes(
        size(new.cpu, own.cpu),
        size(new.memory_gib, own.memory_gib),
        size(new.disk_gib, own.disk_gib),
    )?;
    let record = SnapshotRecord {
        organization: sandbox.organization,
        foundation: sandbox.foundation,
        layers,
        layers_id_range: organization.map_or(0, |organization| organization.id_range),
        image_user: Some(sandbox.user),
        resources,
        source_sandbox: Some(sandbox.id),
        ..general(new)?
    };
    Ok((record, lock))
}

/// Makes the files of a snapshot whose row is there.
fn fill(
    config: &ServerConfig,
    new: &OperatorSnapshot,
    record: &mut SnapshotRecord,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    if let SnapshotSource::Sandbox(id) = &new.source {
        let layer = record.layers.first().map(String::as_str);
        let from = config.box_directory(id).join("root-upper");
        let to = config.layers().join(layer.unwrap_or_default());
        let options = LayerOptions {
            owners: None,
            bytes_max: None,
            durability: Durability::Durable,
        };
        let copied = copy_layer(&from, &to, &options);
        let id = id.clone();
        record.size_bytes = copied
            .map_err(|source| OperatorError::Copy { id, source })?
            .bytes;
        return Ok(());
    }
    let image = import(config, new, &record.id, progress);
    let image = image.map_err(|source| OperatorError::Image {
        name: new.name.clone(),
        source,
    })?;
    record.foundation = Foundation::Image { image: image.name };
    record.size_bytes = image.bytes;
    record.image_user = image.config.user;
    record.entrypoint = image.config.entrypoint;
    Ok(())
}

fn import(
    config: &ServerConfig,
    new: &OperatorSnapshot,
    id: &str,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<ImportedImage, ImagesError> {
    let images = Images::open(&config.images())?;
    let cancel = Cancel::new();
    let told = |made: Progress<'_>| match made {
        Progress::Line(line) => progress(line),
        Progress::Downloaded { .. } | Progress::Unpacked { .. } => {}
    };
    let watch = Watch {
        cancel: &cancel,
        deadline: Instant::now() + PATIENCE,
        progress: &told,
    };
    match &new.source {
        SnapshotSource::Tar(path) => images.from_tar(id, path, &watch),
        SnapshotSource::OciLayout(path) => images.from_oci_layout(id, path, &watch),
        SnapshotSource::Debootstrap(suite) => images.debootstrap(id, suite, None, &watch),
        SnapshotSource::Image(image) => images.pull(id, image, &RegistryOptions::default(), &watch),
        SnapshotSource::Sandbox(sandbox) => Err(ImagesError::NotFound {
            name: sandbox.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a snapshot and gives its id.
    fn add(store: &Store, organization: &str, name: &str) -> String {
        let new = OperatorSnapshot {
            name: name.to_owned(),
            source: SnapshotSource::Image("image".into()),
            cpu: None,
            memory_gib: None,
            disk_gib: None,
        };
        let record = SnapshotRecord {
            organization: organization.to_owned(),
            ..general(&new).unwrap()
        };
        store.put(&record).unwrap();
        record.id
    }

    #[test]
    fn nobody_elses_snapshot_is_removed_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("holm.db")).unwrap();
        let [ours, theirs] = ["one", "two"].map(|owner| add(&store, owner, "tools"));
        // Called what another's id is.
        let posing = add(&store, "two", &ours);
        let refused = remove_snapshot(&store, "tools").unwrap_err();
        assert_eq!(refused.to_string(), "2 snapshots are called `tools`");
        assert_eq!(remove_snapshot(&store, &ours).unwrap().id, ours);
        assert_eq!(remove_snapshot(&store, "tools").unwrap().id, theirs);
        assert_eq!(remove_snapshot(&store, &ours).unwrap().id, posing);
        assert!(remove_snapshot(&store, "tools").is_err());
    }
}
