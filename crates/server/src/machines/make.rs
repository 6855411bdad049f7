//! Starts the box of a sandbox, for the first time or again.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use holm_sandbox_linux::{
    Access, Base, BaseOptions, BoxSpec, Durability, Engine, EngineError, HostBase, IdRange,
    Lifetime, Limits, LinuxBox, MountSpec, Network, Owners, Power, ProcessIdentity, Profile,
    WIRE_VERSION,
};
use holm_store::StoreError;

use super::activity::Activity;
use super::ids::BoxIds;
use super::machine::{Account, Machine};
use crate::config::ServerConfig;
use crate::records::{BoxRecord, Resources, SandboxRecord};
use crate::toolbox::ToolboxState;

/// The user of boxes on the host's base, as Daytona's images have it.
const USER: &str = "daytona";
const HOME: &str = "/home/daytona";
/// Processes and threads of one sandbox: a fork bomb ends here.
const PROCESSES_MAX: u32 = 4_096;
const GIB: u64 = 1024 * 1024 * 1024;
/// What commands find programs by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    #[error("could not write down that the box runs")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("the box ended right after its start")]
    EndedAtOnce,
}

/// What boxes are made with and from.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) config: ServerConfig,
    pub(crate) engine: Engine,
    bases: Mutex<HashMap<IdRange, HostBase>>,
}

/// One box to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) record: &'a SandboxRecord,
    pub(crate) ids: IdRange,
    pub(crate) activity: &'a Arc<Activity>,
}

impl Making {
    pub(crate) fn new(config: ServerConfig, engine: Engine) -> Self {
        Self {
            config,
            engine,
            bases: Mutex::default(),
        }
    }

    /// The range that an organisation's boxes have: without root there is only one.
    pub(crate) fn ids(&self, range: u16) -> IdRange {
        match self.engine.power() {
            Power::Root => IdRange::new(range).unwrap_or(IdRange::FIRST),
            Power::User { .. } => IdRange::FIRST,
        }
    }

    fn host_base(&self, ids: IdRange) -> Result<HostBase, EngineError> {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = bases.get(&ids) {
            return Ok(base.clone());
        }
        let base = self.engine.host_base(&BaseOptions {
            directory: self.config.bases(),
            network: Network::None,
            ids,
            account: holm_sandbox_linux::Account::new(USER, Path::new(HOME))?,
            toolchain_home: self.config.toolchain_home.clone(),
        })?;
        bases.insert(ids, base.clone());
        Ok(base)
    }

    /// The user's ids on the host.
    pub(crate) fn account(&self) -> Account {
        Account {
            name: USER.to_owned(),
            uid: holm_sandbox_linux::BOX_USER,
            gid: holm_sandbox_linux::BOX_USER,
            home: HOME.into(),
        }
    }

    pub(crate) fn machine(
        &self,
        wanted: Wanted<'_>,
        inner: LinuxBox,
    ) -> Result<Machine, MakeError> {
        let root = inner.files(self.engine.power().box_user(wanted.ids))?;
        let account = self.account();
        let base = self.host_base(wanted.ids)?;
        Ok(Machine {
            id: wanted.record.id.clone(),
            environment: RwLock::new(environment(&account, &base, wanted.record)),
            account,
            ids: BoxIds {
                power: self.engine.power(),
                range: wanted.ids,
            },
            activity: Arc::clone(wanted.activity),
            directory: self.config.box_directory(&wanted.record.id),
            toolbox: ToolboxState::default(),
            inner: Arc::new(inner),
            root,
        })
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
    let spec = BoxSpec {
        id: record.id.clone(),
        directory: directory.clone(),
        base: Base::Host(making.host_base(wanted.ids)?),
        layers: Vec::new(),
        mounts: volume_mounts(&making.config, record),
        profile: Profile::Strict,
        network: Network::None,
        limits: limits(record.resources),
        lifetime: Lifetime::UntilStopped,
        durability: Durability::Durable,
        ids: wanted.ids,
        hostname: None,
    };
    let inner = making.engine.create(&spec)?;
    // From here to `listen` the box ends with our connection to it: a crash leaves nothing behind.
    let finished = ProcessIdentity::of(inner.pid())
        .ok_or(MakeError::EndedAtOnce)
        .and_then(|process| {
            written_down(BoxRecord {
                process,
                wire_version: WIRE_VERSION,
            })?;
            inner.listen(&socket)?;
            Ok(())
        });
    match finished {
        Ok(()) => making.machine(wanted, inner),
        Err(error) => {
            // The first error is the one to tell.
            drop(inner.stop());
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

fn volume_mounts(config: &ServerConfig, record: &SandboxRecord) -> Vec<MountSpec> {
    let mount = |volume: &crate::records::VolumeMount| {
        let mut source = config.volumes().join(&volume.volume_id);
        if let Some(subpath) = &volume.subpath {
            source.push(subpath);
        }
        MountSpec::Bind {
            source,
            place: volume.mount_path.clone().into(),
            access: Access::ReadWrite,
            owners: Owners::AsOnHost,
        }
    };
    record.volumes.iter().map(mount).collect()
}

fn environment(
    account: &Account,
    base: &HostBase,
    record: &SandboxRecord,
) -> BTreeMap<String, String> {
    let home = account.home.to_string_lossy().into_owned();
    let mut environment: BTreeMap<String, String> = [
        ("PATH", PATH),
        ("HOME", &home),
        ("USER", &account.name),
        ("LOGNAME", &account.name),
        ("SHELL", "/bin/bash"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("HOLM_SANDBOX", "1"),
        ("DAYTONA_SANDBOX_ID", &record.id),
        ("DAYTONA_SANDBOX_USER", &account.name),
        ("DAYTONA_ORGANIZATION_ID", &record.organization),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for toolchain in &base.toolchains {
        if let Some(variable) = toolchain.variable {
            let path = toolchain.path.to_string_lossy().into_owned();
            environment.insert(variable.to_owned(), path);
        }
    }
    environment.extend(record.env.clone());
    environment
}

fn make_folder(path: &Path) -> Result<(), MakeError> {
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
