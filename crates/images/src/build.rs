//! Builds Dockerfiles, with buildah when there is something to run.
//!
//! The steps of a Dockerfile are anybody's code, and buildah's `chroot` isolation, the one that works
//! everywhere, is none for root: it shares the host's `/proc`, control groups and network. So buildah itself runs
//! in bubblewrap, with a root of its own that holds `/usr` and the build's folder, and gives its steps a user namespace:
//!
//! ```text
//! bwrap: mount, pid, ipc, uts (and network) namespaces; no file of the host but /usr
//!   └─ buildah: root, keeps owners
//!        └─ RUN: root of a user namespace, whose ids nobody has; chroot; seccomp
//! ```
//!
//! Base images are pulled by us, verified, before: a build without network can start from a registry.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holm_sandbox_linux::cgroup::{self, BoxGroup, Hierarchy};

use crate::dockerfile::{Change, Dockerfile};
use crate::error::{ImagesError, Result};
use crate::program::{Bounds, PATH, Program};
use crate::registry::RegistryOptions;
use crate::store::{Images, ImportedImage};
use crate::tree::TreeWriter;
use crate::watch::{Progress, Watch};

const BUILDAH: Program = Program {
    name: "buildah",
    package: "buildah",
};
const BUBBLEWRAP: Program = Program {
    name: "bwrap",
    package: "bubblewrap",
};
/// Below the ids of boxes; above all ranges that systemd and shadow hand out.
const HOST_ID_BASE: u32 = 0x6fff_0000;
const HOST_ID_COUNT: u32 = 65_536;
/// The control group of all builds; boxes have another.
const GROUPS: &str = "holm-builds";
/// Stops a fork bomb in a step.
const PROCESSES_MAX: u32 = 4096;
/// What a program with the host's network needs to find and trust others.
const NETWORK_FILES: [&str; 5] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/ssl",
    "/etc/ca-certificates",
];

/// How a Dockerfile is built.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// For the images it starts from.
    pub registry: RegistryOptions,
    pub network: BuildNetwork,
    /// Of all steps together, where the host has control groups.
    pub memory_bytes_max: u64,
    /// 1000 is one processor; all of them without it.
    pub cpu_millis_max: Option<u32>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            registry: RegistryOptions::default(),
            network: BuildNetwork::default(),
            memory_bytes_max: 4 << 30,
            cpu_millis_max: None,
        }
    }
}

/// What the steps of a build can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BuildNetwork {
    #[default]
    None,
    /// All that the host can, its loopback included.
    Host,
}

impl Images {
    /// Builds a Dockerfile. `COPY` takes from the folder `context`. The log is told as [`Progress::Line`].
    ///
    /// A Dockerfile that starts from an image and only changes its configuration needs no builder.
    pub fn build(
        &self,
        name: &str,
        dockerfile: &str,
        context: Option<&Path>,
        options: &BuildOptions,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        self.check_name_is_free(name)?;
        let dockerfile = Dockerfile::parse(dockerfile)?;
        match dockerfile.description() {
            Some((base, changes)) => self.describe(name, base, changes, options, watch),
            None => self.run_builder(name, &dockerfile, context, options, watch),
        }
    }

    fn describe(
        &self,
        name: &str,
        base: &str,
        changes: Vec<Change>,
        options: &BuildOptions,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        (watch.progress)(Progress::Line(&format!("FROM {base}")));
        let staging = self.stage()?;
        let layout = staging.work().join("layout");
        let whole = self.pull_layout(base, &options.registry, &layout, watch)?;
        let (mut config, bytes) = self.unpack_layout(&staging, &layout, watch)?;
        let tree = TreeWriter::new(&staging.tree())?;
        for change in changes {
            let is_folder = matches!(change, Change::WorkingDir(_));
            change.apply(&mut config);
            if let Some(folder) = config.working_dir.as_deref().filter(|_| is_folder) {
                tree.make_folder(Path::new(folder))?;
            }
        }
        self.publish(
            name,
            &staging,
            format!("Dockerfile from {whole}"),
            config,
            bytes,
        )
    }

    fn run_builder(
        &self,
        name: &str,
        dockerfile: &Dockerfile<'_>,
        context: Option<&Path>,
        options: &BuildOptions,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        BUILDAH.check_installed()?;
        BUBBLEWRAP.check_installed()?;
        let staging = self.stage()?;
        let work = staging.work().join("build");
        prepare(&work)?;
        let bases = dockerfile.bases();
        for (index, base) in bases.iter().enumerate() {
            (watch.progress)(Progress::Line(&format!("pulling {base}")));
            let layout = work.join(format!("base-{index}"));
            self.pull_layout(base, &options.registry, &layout, watch)?;
        }
        let text = dockerfile.rebased(|base| format!("oci:/build/base-{base}"));
        write(&work.join("Dockerfile"), &text)?;
        let empty = work.join("context");
        let context = context.unwrap_or(&empty);
        let map = format!("0:{HOST_ID_BASE}:{HOST_ID_COUNT}");
        let flags = [
            "build".to_owned(),
            "--isolation=chroot".to_owned(),
            "--format=oci".to_owned(),
            "--layers=false".to_owned(),
            format!("--ulimit=nproc={PROCESSES_MAX}:{PROCESSES_MAX}"),
            format!("--userns-uid-map={map}"),
            format!("--userns-gid-map={map}"),
            "--file=/build/Dockerfile".to_owned(),
            "--tag=result".to_owned(),
            "/context".to_owned(),
        ];
        let group = BuildGroup::make(options, watch);
        let bounds = Bounds {
            free_bytes_min: self.limits.free_bytes_min,
            group: group.as_ref().map(|made| &made.group),
        };
        let push = ["push", "--quiet", "result", "oci:/build/result"].map(str::to_owned);
        for (arguments, network) in [
            (flags.as_slice(), options.network),
            (push.as_slice(), BuildNetwork::None),
        ] {
            let argv = in_bubblewrap(&work, context, network)
                .into_iter()
                .chain(arguments.iter().map(OsString::from))
                .collect();
            BUILDAH.run(argv, &work, bounds, watch)?;
        }
        let (config, bytes) = self.unpack_layout(&staging, &work.join("result"), watch)?;
        let source = match bases.first() {
            Some(base) => format!("Dockerfile from {base}"),
            None => "Dockerfile".to_owned(),
        };
        self.publish(name, &staging, source, config, bytes)
    }
}

/// The control group of one build, removed with all that is in it when it is dropped.
#[derive(Debug)]
struct BuildGroup {
    group: BoxGroup,
}

impl BuildGroup {
    /// `None`, and a line in the log, where the host has no control groups for us.
    fn make(options: &BuildOptions, watch: &Watch<'_>) -> Option<Self> {
        let limits = cgroup::Limits {
            memory_bytes: Some(options.memory_bytes_max),
            cpu_millis: options.cpu_millis_max,
            pids: Some(PROCESSES_MAX),
        };
        let name = format!(
            "{}-{}",
            std::process::id(),
            holm_sandbox_linux::random_hex()
        );
        let made = Hierarchy::detect_under(GROUPS).and_then(|groups| {
            sweep(&groups);
            groups.create(&name, &limits)
        });
        let tell = |what: &dyn std::fmt::Display| {
            let line = format!("this build is not limited in what it uses: {what}");
            (watch.progress)(Progress::Line(&line));
        };
        match made {
            Err(error) => {
                tell(&error);
                None
            }
            Ok(group) => {
                if let Some(missing) = group.unenforced().first() {
                    tell(&format!("{missing:?}"));
                }
                Some(Self { group })
            }
        }
    }
}

/// Removes groups of builds whose process died.
fn sweep(groups: &Hierarchy) {
    for name in groups.list().unwrap_or_default() {
        let creator = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(creator).exists()
            && let Ok(group) = groups.open_existing(&name)
        {
            drop(BuildGroup { group });
        }
    }
}

impl Drop for BuildGroup {
    fn drop(&mut self) {
        // An empty group that is left over holds nothing.
        drop(self.group.kill_all());
        drop(self.group.remove());
    }
}

/// The build's folder, as buildah in its own root finds it.
fn prepare(work: &Path) -> Result<()> {
    for folder in ["", "tmp", "storage", "run", "context", "containers"] {
        let folder = work.join(folder);
        // Steps run as other users; for users of the host it lies below a folder that is closed.
        fs::create_dir(&folder)
            .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)))
            .map_err(ImagesError::io("make", &folder))?;
    }
    write(&work.join("passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    write(&work.join("group"), "root:x:0:\n")?;
    // Digests are verified by us; signatures are a matter of the host's own containers.
    let policy = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
    write(&work.join("containers/policy.json"), policy)?;
    let registries = "unqualified-search-registries = [\"docker.io\"]\n";
    write(&work.join("containers/registries.conf"), registries)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(ImagesError::io("write", path))
}

/// `bwrap … buildah …`, up to buildah's own command.
fn in_bubblewrap(work: &Path, context: &Path, network: BuildNetwork) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        argv.extend(words.iter().map(|word| word.as_ref().to_owned()));
    };
    add(&[&"bwrap", &"--die-with-parent", &"--new-session"]);
    add(&[&"--unshare-pid", &"--unshare-ipc", &"--unshare-uts"]);
    // Mounting and changing owners takes them; steps get buildah's short list, in a user namespace.
    add(&[&"--cap-add", &"ALL", &"--clearenv"]);
    for (name, value) in [
        ("PATH", PATH),
        ("HOME", "/build/tmp"),
        ("TMPDIR", "/build/tmp"),
    ] {
        add(&[&"--setenv", &name, &value]);
    }
    add(&[&"--ro-bind", &"/usr", &"/usr"]);
    for link in ["bin", "sbin", "lib", "lib64"] {
        add(&[&"--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    for folder in ["/etc", "/sys", "/var", "/var/tmp"] {
        add(&[&"--perms", &"0755", &"--dir", &folder]);
    }
    for file in ["passwd", "group", "containers"] {
        add(&[&"--ro-bind", &work.join(file), &format!("/etc/{file}")]);
    }
    match network {
        BuildNetwork::None => add(&[&"--unshare-net"]),
        BuildNetwork::Host => {
            for file in NETWORK_FILES {
                add(&[&"--ro-bind-try", &file, &file]);
            }
        }
    }
    add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
    add(&[&"--tmpfs", &"/run", &"--tmpfs", &"/tmp"]);
    add(&[&"--bind", &work, &"/build"]);
    add(&[&"--ro-bind", &context, &"/context", &"--chdir", &"/build"]);
    // Overlays with mapped ids come out with wrong owners (buildah 1.28).
    add(&[&"buildah", &"--storage-driver=vfs"]);
    add(&[&"--root=/build/storage", &"--runroot=/build/run"]);
    argv
}
