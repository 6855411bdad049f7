//! `cargo xtask bench start`: how fast a box starts, beside its peers. `cargo xtask bench server`: how fast a server is.
//! `cargo xtask bench threads`: how fast streams are, beside the disk that they are on.
//! `cargo xtask bench daytona`: what the client of Daytona's API costs, beside a bare request and the official SDKs.
//!
//! As root, everything that is measured works on a fresh XFS in a loop image: the root file system of a
//! machine may be one on which creating files slows down while one measures (ext4 without a journal
//! does). The image is mounted in a mount namespace of its own, so that nothing stays behind even
//! when the benchmark is killed.
//!
//! `HOLM_BENCH_OPTIONS` holds options of the benchmark itself: `--only a,b` (not of `daytona`); of `start` also
//! `--json FILE` and `--profile-cold`; of the others also `--page FILE`.

use std::fs::{self, File};
use std::process::Command;

use crate::dist;
use crate::process::{Context as _, Outcome, cargo, program, run};
use crate::sdk;
use crate::setup::{self, Purpose};
use crate::workspace;

/// The hidden second half of the command, which runs in the mount namespace.
pub(crate) const IN_MOUNT_NAMESPACE: &str = "--in-mount-namespace";

/// Sparse: the image takes the space that the benchmark writes.
const IMAGE_SIZE_BYTES: u64 = 8 << 30;

/// What there is to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Start,
    Server,
    Threads,
    Daytona,
}

impl Benchmark {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "start" => Some(Self::Start),
            "server" => Some(Self::Server),
            "threads" => Some(Self::Threads),
            "daytona" => Some(Self::Daytona),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Server => "server",
            Self::Threads => "threads",
            Self::Daytona => "daytona",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Start => "holm-sandbox-backends",
            Self::Server | Self::Threads => "holm-server",
            Self::Daytona => "holm-daytona-client",
        }
    }

    fn command(self) -> Command {
        cargo(&["bench", "--package", self.package(), "--bench", self.name()])
    }
}

pub(crate) fn measure(benchmark: Benchmark) -> Outcome {
    // The program that users start is measured too, as it is shipped.
    dist::build()?;
    if !workspace::is_root() {
        eprintln!(
            "not root: measuring in the folder for temporary files, without XFS and without peers that \
             need root; do not compare these numbers with others"
        );
        return run(&mut prepared(benchmark)?);
    }
    setup::run(Purpose::Benchmarks)?;
    // Built outside, so that the namespace lives only as long as the measurement.
    run(benchmark.command().arg("--no-run"))?;

    let image = workspace::target().join("bench.xfs");
    // One that a killed run left may still be mounted by what that run started: it must not be written over.
    if image.exists() {
        fs::remove_file(&image).context(format_args!("remove `{}`", image.display()))?;
    }
    let file = File::create(&image).context(format_args!("create `{}`", image.display()))?;
    file.set_len(IMAGE_SIZE_BYTES)
        .context(format_args!("size `{}`", image.display()))?;
    let outcome = run(program("mkfs.xfs", &["-q", "-f"]).arg(&image)).and_then(|()| {
        let this = std::env::current_exe().context("find this program")?;
        let mut namespace = Command::new("unshare");
        namespace
            .args(["--mount", "--propagation", "private", "--"])
            .arg(this);
        run(namespace.args(["bench", benchmark.name(), IN_MOUNT_NAMESPACE]))
    });
    fs::remove_file(&image).context(format_args!("remove `{}`", image.display()))?;
    outcome
}

pub(crate) fn measure_in_mount_namespace(benchmark: Benchmark) -> Outcome {
    let image = workspace::target().join("bench.xfs");
    let folder = workspace::target().join("bench-xfs");
    fs::create_dir_all(&folder).context(format_args!("create `{}`", folder.display()))?;
    run(program("mount", &["-o", "loop"]).arg(&image).arg(&folder))?;
    let outcome =
        prepared(benchmark).and_then(|mut command| run(command.env("HOLM_BENCH_DIR", &folder)));
    run(program("umount", &["--lazy"]).arg(&folder))?;
    outcome
}

fn prepared(benchmark: Benchmark) -> Outcome<Command> {
    let mut command = benchmark.command();
    if let Some(installed) = sdk::installed_for_benchmarks() {
        command.env("HOLM_BENCH_PYTHON", installed.python);
        command.env("HOLM_BENCH_TYPESCRIPT", installed.typescript);
    }
    let stream_server = setup::stream_server();
    if stream_server.is_file() {
        command.env("HOLM_BENCH_DURABLE_STREAMS", stream_server);
    }
    // Built before; this only finds it again.
    command.env("HOLM_BENCH_HOLM", dist::build()?);
    if let Ok(options) = std::env::var("HOLM_BENCH_OPTIONS") {
        command.arg("--").args(options.split_ascii_whitespace());
    }
    Ok(command)
}
