//! Where everything is measured: one folder for everybody's data, one runtime, the floor's program.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holm_sandbox_backends::local::{CacheLimits, LocalConfig, LocalRuntime};
use holm_sandbox_linux::{
    BoxSpec, CommandUser, Durability, Engine, Exit, HostBase, IdRange, Job, Lifetime, Limits,
    LinuxBox, Network, OnDisconnect, PreparedSpec, Profile, Streams, random_hex,
};

use crate::helper::compile_floor;

pub(crate) const TRUE: &str = "/bin/true";

/// The limits of every box here; peers that know limits get the same.
pub(crate) const LIMITS: Limits = Limits {
    memory_bytes: Some(2 << 30),
    cpu_millis: Some(2_000),
    pids: Some(1_024),
};

/// Boxes that the pooled runtime keeps ready.
pub(crate) const PREPARED_BOXES: usize = 2;
/// How long it may take to have them ready.
const PREPARING_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Lab {
    pub(crate) directory: PathBuf,
    pub(crate) runtime: Arc<LocalRuntime>,
    /// The same with boxes prepared ahead of time.
    pub(crate) pooled: Arc<LocalRuntime>,
    pub(crate) base: HostBase,
    pub(crate) floor: PathBuf,
    pub(crate) null: fs::File,
    /// The release build of the CLI, if there is one.
    pub(crate) holm: Option<PathBuf>,
}

/// A box at the engine's level, and the folder of its layers.
pub(crate) struct EngineBox {
    pub(crate) inner: LinuxBox,
    directory: PathBuf,
}

impl Lab {
    /// Starts the engine, so call it while this process is small.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        for name in ["boxes", "data", "tmp"] {
            make(&directory.join(name))?;
        }
        let config = LocalConfig {
            data_dir: directory.join("data"),
            temp_dir: directory.join("tmp"),
            home: std::env::var_os("HOME").map(PathBuf::from),
            environment: std::env::vars_os().collect(),
            cache: CacheLimits::default(),
            prepared_boxes: 0,
        };
        let runtime = LocalRuntime::start(config.clone())?;
        let pooled = LocalRuntime::start(LocalConfig {
            prepared_boxes: PREPARED_BOXES,
            ..config
        })?;
        let base = runtime.base(Network::None)?;
        let floor = directory.join("floor");
        compile_floor(&floor)?;
        make_skeleton(&directory.join("floor-data/skeleton"))?;
        Ok(Self {
            directory: directory.to_owned(),
            runtime,
            pooled,
            base,
            floor,
            null: fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")?,
            holm: find_holm(),
        })
    }

    pub(crate) fn floor_data(&self) -> PathBuf {
        self.directory.join("floor-data")
    }

    pub(crate) fn spec(&self) -> BoxSpec {
        let id = format!("bench-{}", random_hex());
        BoxSpec {
            directory: self.directory.join("boxes").join(&id),
            id,
            base: self.base.clone().into(),
            layers: Vec::new(),
            mounts: Vec::new(),
            profile: Profile::Strict,
            network: Network::None,
            limits: LIMITS,
            lifetime: Lifetime::WithCreator,
            durability: Durability::Volatile,
            ids: IdRange::FIRST,
            hostname: None,
        }
    }

    /// A box from nothing, its folder included.
    pub(crate) fn create(&self, spec: &BoxSpec) -> Result<EngineBox> {
        self.create_by(self.runtime.engine(), spec)
    }

    pub(crate) fn create_by(&self, engine: &Engine, spec: &BoxSpec) -> Result<EngineBox> {
        make(&spec.directory)?;
        Ok(EngineBox {
            inner: engine.create(spec)?,
            directory: spec.directory.clone(),
        })
    }

    /// A box whose common part is made outside the clock; its start is what `started` says.
    pub(crate) fn create_prepared(&self, spec: &BoxSpec) -> Result<(EngineBox, Instant)> {
        make(&spec.directory)?;
        let engine = self.runtime.engine();
        let prepared = engine.prepare(PreparedSpec::from(spec))?;
        let started = Instant::now();
        let inner = engine.claim(prepared, spec)?;
        let directory = spec.directory.clone();
        Ok((EngineBox { inner, directory }, started))
    }

    /// Waits until the pool is full, so that filling it is not measured.
    pub(crate) fn await_pool(&self) -> Result<()> {
        let until = Instant::now() + PREPARING_MAX;
        while self.pooled.prepared_boxes() < PREPARED_BOXES {
            if Instant::now() > until {
                bail!("the pool does not fill");
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The CLI with all of its data in our folder.
    pub(crate) fn holm_command(&self, holm: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(holm);
        command
            .args(arguments)
            .env("HOLM_DATA_DIR", self.directory.join("cli-data"))
            .env("TMPDIR", self.directory.join("tmp"));
        command
    }

    /// Starts a command in a box, without output.
    pub(crate) fn start_in(&self, inner: &LinuxBox, argv: &[&str]) -> Result<Job> {
        let command = holm_sandbox_linux::Command {
            argv: argv.iter().map(Into::into).collect(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            cwd: "/".into(),
            user: CommandUser::BoxUser,
            disconnect: OnDisconnect::Kill,
        };
        let null = self.null.as_fd();
        Ok(inner.start(&command, &Streams::Descriptors([null, null, null]))?)
    }

    /// Runs a command in a box to its end, without output.
    pub(crate) fn run_in(&self, inner: &LinuxBox, argv: &[&str]) -> Result<()> {
        match self.start_in(inner, argv)?.wait()? {
            Exit::Code(0) => Ok(()),
            exit @ (Exit::Code(_) | Exit::Signal(_) | Exit::Lost) => {
                bail!("`{argv:?}` in a box ended with {exit:?}")
            }
        }
    }
}

impl EngineBox {
    pub(crate) fn end(self) -> Result<()> {
        self.inner.stop()?;
        remove(&self.directory)
    }
}

/// How long a command takes as a process of its own; it must succeed.
pub(crate) fn time_process(command: &mut Command) -> Result<Duration> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("start {command:?}"))?;
    let elapsed = started.elapsed();
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(elapsed)
}

/// Runs a command that is not measured; what it says is kept for the error.
pub(crate) fn run_quietly(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("make folder `{}`", path.display()))
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::remove_dir_all(path) {
        // Overlayfs keeps a folder that nobody may enter; only root does all the same.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path).and_then(|()| fs::remove_dir_all(path))
        }
        outcome => outcome,
    };
    removed.with_context(|| format!("remove `{}`", path.display()))
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Looks a program up as a shell does.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// The CLI stands beside the folder of this benchmark in Cargo's target folder.
fn find_holm() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HOLM_BENCH_HOLM") {
        return Some(path.into());
    }
    let this = std::env::current_exe().ok()?;
    let holm = this.parent()?.parent()?.join("holm");
    holm.is_file().then_some(holm)
}

/// The empty root over which the floor mounts, with the links that this host has at its root.
pub(crate) fn make_skeleton(root: &Path) -> Result<()> {
    if root.exists() {
        return Ok(());
    }
    for name in ["proc", "tmp", "run", "dev"] {
        make(&root.join(name))?;
    }
    for name in [
        "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt",
    ] {
        let host = Path::new("/").join(name);
        let place = root.join(name);
        if let Ok(target) = fs::read_link(&host) {
            symlink(target, place)?;
        } else if host.is_dir() {
            make(&place)?;
        }
    }
    Ok(())
}
