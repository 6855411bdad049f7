//! Starts the box of a sandbox, for the first time or again.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use holm_images::{Images, ImagesError};
use holm_sandbox_linux::files::{ConfinedDir, FilesError, Resolve};
use holm_sandbox_linux::{
    Access, Base, BaseOptions, BoxSpec, Durability, Engine, EngineError, IdRange, ImageOptions,
    Lifetime, Limits, LinuxBox, MountSpec, Network, Owners, Power, ProcessIdentity, Profile,
    WIRE_VERSION,
};
use holm_store::{Store, StoreError};

use super::account::{Account, HOME, USER};
use super::activity::Activity;
use super::environment::{ImageSays, environment};
use super::ids::BoxIds;
use super::machine::Machine;
use super::outside::{self, BUNDLE_PLACE, GATEWAY_PORT, Outside};
use super::pins::Pins;
use super::trash::Trash;
use crate::config::ServerConfig;
use crate::error::ServeError;
use crate::records::{BoxRecord, Foundation, Resources, SandboxRecord, SecretRecord};
use crate::toolbox::ToolboxState;

/// Processes and threads of one sandbox: a fork bomb ends here.
const PROCESSES_MAX: u32 = 4_096;
const GIB: u64 = 1024 * 1024 * 1024;

/// Why a box does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error("could not start the box")]
    Engine {
        #[from]
        source: EngineError,
    },
    #[error("could not {doing} `{path}`")]
    Folder {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not prepare the files of the box")]
    Files {
        #[from]
        source: FilesError,
    },
    #[error("could not use the image of the sandbox")]
    Images {
        #[from]
        source: ImagesError,
    },
    #[error("could not open the way out of the box")]
    WayOut {
        #[source]
        source: io::Error,
    },
    #[error("could not write down that the box runs")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("could not use the part `{subpath}` of the volume for `{mount_path}`")]
    Volume {
        mount_path: String,
        subpath: String,
        #[source]
        source: FilesError,
    },
    #[error("the image has no user `{user}`")]
    NoSuchUser { user: String },
    #[error("the box ended right after its start")]
    EndedAtOnce,
}

/// What boxes are made with and from.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) config: ServerConfig,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Store>,
    pub(crate) pins: Arc<Pins>,
    pub(super) trash: Trash,
    pub(crate) outside: Outside,
    grounds: Mutex<HashMap<(IdRange, Foundation), Ground>>,
}

/// What a box stands on.
#[derive(Debug, Clone)]
struct Ground {
    base: Base,
    says: Arc<ImageSays>,
}

/// One box to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) record: &'a SandboxRecord,
    pub(crate) ids: IdRange,
    pub(crate) activity: &'a Arc<Activity>,
}

impl Making {
    pub(crate) fn new(
        config: ServerConfig,
        engine: Engine,
        store: Arc<Store>,
    ) -> Result<Self, ServeError> {
        let outside = Outside::open(&config.data, config.listen)?;
        Ok(Self {
            config,
            engine,
            store,
            pins: Arc::default(),
            trash: Trash::default(),
            outside,
            grounds: Mutex::default(),
        })
    }

    /// The range that an organisation's boxes have: without root there is only one.
    pub(crate) fn ids(&self, range: u16) -> IdRange {
        match self.engine.power() {
            Power::Root => IdRange::new(range).unwrap_or(IdRange::FIRST),
            Power::User { .. } => IdRange::FIRST,
        }
    }

    /// Unpacked images. Needs root.
    pub(crate) fn images(&self) -> Result<Images, ImagesError> {
        Images::open(&self.config.images())
    }

    fn ground(&self, ids: IdRange, foundation: &Foundation) -> Result<Ground, MakeError> {
        let mut grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (ids, foundation.clone());
        if let Some(ground) = grounds.get(&key) {
            return Ok(ground.clone());
        }
        let ground = match foundation {
            Foundation::Host => Ground {
                base: Base::Host(self.engine.host_base(&BaseOptions {
                    directory: self.config.bases(),
                    network: Network::None,
                    ids,
                    account: holm_sandbox_linux::Account::new(USER, Path::new(HOME))?,
                    toolchain_home: self.config.toolchain_home.clone(),
                })?),
                says: Arc::default(),
            },
            Foundation::Image { image } => {
                let image = self.images()?.get(image)?;
                let mut layers = image.layers;
                // The engine wants the uppermost first.
                layers.reverse();
                Ground {
                    base: Base::Image(self.engine.image_base(&ImageOptions {
                        directory: self.config.bases(),
                        network: Network::None,
                        layers,
                    })?),
                    says: Arc::new(ImageSays::of(&image.config)),
                }
            }
        };
        grounds.insert(key, ground.clone());
        Ok(ground)
    }

    /// Forgets a base whose image is about to be removed.
    pub(crate) fn forget_base(&self, foundation: &Foundation) {
        let mut grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        grounds.retain(|(_, known), _| known != foundation);
    }

    /// The box as the toolbox uses it. Called within the runtime.
    pub(crate) fn machine(
        &self,
        wanted: Wanted<'_>,
        inner: LinuxBox,
    ) -> Result<Machine, MakeError> {
        let record = wanted.record;
        let Ground { base, says } = self.ground(wanted.ids, &record.foundation)?;
        let inner = inner.with_users(base.command_users());
        let all = ConfinedDir::new(inner.root()?)?.resolving(Resolve::InRoot);
        let account = match &record.foundation {
            Foundation::Host => Account::of_host_base(),
            Foundation::Image { .. } => {
                Account::of_image(&all, &record.user).ok_or_else(|| MakeError::NoSuchUser {
                    user: record.user.clone(),
                })?
            }
        };
        let root = self.files_of(wanted.ids, &account, all);
        let listener = inner.bind(GATEWAY_PORT)?;
        let secrets = self.secrets(record)?;
        let mut environment = environment(&account, &base, &says, record);
        for (variable, secret) in &secrets {
            environment.insert(variable.clone(), secret.placeholder.clone());
        }
        let rules = secrets
            .iter()
            .filter_map(|(_, secret)| outside::rule(secret).ok())
            .collect();
        let way_out = self
            .outside
            .serve(listener, &record.network, rules)
            .map_err(|source| MakeError::WayOut { source })?;
        Ok(Machine {
            id: record.id.clone(),
            environment: RwLock::new(environment),
            work_dir: says.work_dir(&root, &account),
            account,
            ids: BoxIds {
                power: self.engine.power(),
                range: wanted.ids,
            },
            activity: Arc::clone(wanted.activity),
            directory: self.config.box_directory(&record.id),
            toolbox: ToolboxState::default(),
            inner: Arc::new(inner),
            root,
            way_out,
        })
    }

    /// The files of a box with the rights of its user. Root of an image may do everything there, and nothing of the
    /// host is in it.
    fn files_of(&self, ids: IdRange, account: &Account, all: ConfinedDir) -> ConfinedDir {
        let power = self.engine.power();
        match (power, account.uid) {
            (Power::User { .. }, _) => all,
            (Power::Root, 0) => {
                let root = power.box_root(ids);
                all.owned_by(root.uid, root.gid)
            }
            (Power::Root, _) => {
                let host = |inside| ids.host_id(inside).unwrap_or(ids.base());
                all.acting_as(host(account.uid), host(account.gid))
            }
        }
    }

    /// The secrets of a sandbox by the variables that stand for them.
    pub(crate) fn secrets(
        &self,
        record: &SandboxRecord,
    ) -> Result<Vec<(String, SecretRecord)>, StoreError> {
        let mut found = Vec::new();
        for (variable, name) in &record.secrets {
            if let Some(secret) = self.store.find_by_name(&record.organization, name)? {
                found.push((variable.clone(), secret));
            }
        }
        Ok(found)
    }
}

/// Starts the box of a record. `written_down` is called when the box exists and before it could outlive us.
pub(crate) fn make(
    making: &Making,
    wanted: Wanted<'_>,
    written_down: impl FnOnce(BoxRecord) -> Result<(), StoreError>,
) -> Result<Machine, MakeError> {
    let record = wanted.record;
    let directory = making.config.box_directory(&record.id);
    make_folder(&directory)?;
    let socket = directory.join("control");
    remove_if_there(&socket)?;
    let volumes = making.volume_mounts(record, wanted.ids)?;
    let mut mounts = volumes.mounts.clone();
    mounts.push(MountSpec::Bind {
        source: making.outside.bundle.clone(),
        place: BUNDLE_PLACE.into(),
        access: Access::ReadOnly,
        owners: Owners::AsOnHost,
    });
    let spec = BoxSpec {
        id: record.id.clone(),
        directory: directory.clone(),
        base: making.ground(wanted.ids, &record.foundation)?.base,
        layers: record
            .layers
            .iter()
            .map(|layer| making.config.layers().join(layer))
            .collect(),
        mounts,
        profile: match record.foundation {
            Foundation::Host => Profile::Strict,
            Foundation::Image { .. } => Profile::Image,
        },
        network: Network::None,
        limits: limits(record.resources),
        lifetime: Lifetime::UntilStopped,
        durability: Durability::Durable,
        ids: wanted.ids,
        hostname: None,
    };
    let inner = making.engine.create(&spec)?;
    // From here to `listen` the box ends with our connection to it: a crash leaves nothing behind.
    let process = ProcessIdentity::of(inner.pid()).ok_or(MakeError::EndedAtOnce)?;
    let machine = making.machine(wanted, inner)?;
    let finished = written_down(BoxRecord {
        process,
        wire_version: WIRE_VERSION,
    })
    .map_err(MakeError::from)
    .and_then(|()| Ok(machine.inner().listen(&socket)?));
    match finished {
        Ok(()) => Ok(machine),
        Err(error) => {
            // The first error is the one to tell.
            drop(machine.stop());
            Err(error)
        }
    }
}

/// Sizes as the kernel enforces them. Disk space has no limit of its own: the host's is the limit.
pub(crate) fn limits(resources: Resources) -> Limits {
    Limits {
        memory_bytes: Some(u64::from(resources.memory_gib) * GIB),
        cpu_millis: Some(resources.cpu.saturating_mul(1_000)),
        pids: Some(PROCESSES_MAX),
    }
}

pub(super) fn make_folder(path: &Path) -> Result<(), MakeError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        // A box that is started again keeps its layers.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(MakeError::Folder {
            doing: "make folder",
            path: path.to_path_buf(),
            source,
        }),
    }
}

fn remove_if_there(path: &Path) -> Result<(), MakeError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(MakeError::Folder {
            doing: "remove",
            path: path.to_path_buf(),
            source,
        }),
    }
}
