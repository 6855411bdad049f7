//! `cargo xtask bench start`: how fast a box starts, beside its peers.
//!
//! As root, everything that is measured works on a fresh XFS in a loop image: the root file system of a
//! machine may be one on which creating files slows down while one measures (ext4 without a journal
//! does). The image is mounted in a mount namespace of its own, so that nothing stays behind even
//! when the benchmark is killed.
//!
//! `HOLM_BENCH_OPTIONS` holds options of the benchmark itself: `--only a,b`, `--json FILE`,
//! `--profile-cold`.

use std::fs::{self, File};
use std::process::Command;

use crate::dist;
use crate::process::{Context as _, Outcome, cargo, program, run};
use crate::setup::{self, Purpose};
use crate::workspace;

/// The hidden second half of the command, which runs in the mount namespace.
pub(crate) const IN_MOUNT_NAMESPACE: &str = "--in-mount-namespace";

/// Sparse: the image takes the space that the benchmark writes.
const IMAGE_SIZE_BYTES: u64 = 8 << 30;

const BENCHMARK: &[&str] = &[
    "bench",
    "--package",
    "holm-sandbox-backends",
    "--bench",
    "start",
];

pub(crate) fn start() -> Outcome {
    // The program that users start is measured too, as it is shipped.
    dist::build()?;
    if !workspace::is_root() {
        eprintln!(
            "not root: measuring in the folder for temporary files, without XFS and without peers that \
             need root; do not compare these numbers with others"
        );
        return run(&mut benchmark()?);
    }
    setup::run(Purpose::Benchmarks)?;
    // Built outside, so that the namespace lives only as long as the measurement.
    run(cargo(BENCHMARK).arg("--no-run"))?;

    let image = workspace::target().join("bench.xfs");
    let file = File::create(&image).context(format_args!("create `{}`", image.display()))?;
    file.set_len(IMAGE_SIZE_BYTES)
        .context(format_args!("size `{}`", image.display()))?;
    let outcome = run(program("mkfs.xfs", &["-q", "-f"]).arg(&image)).and_then(|()| {
        let this = std::env::current_exe().context("find this program")?;
        let mut namespace = Command::new("unshare");
        namespace
            .args(["--mount", "--propagation", "private", "--"])
            .arg(this);
        run(namespace.args(["bench", "start", IN_MOUNT_NAMESPACE]))
    });
    fs::remove_file(&image).context(format_args!("remove `{}`", image.display()))?;
    outcome
}

pub(crate) fn start_in_mount_namespace() -> Outcome {
    let image = workspace::target().join("bench.xfs");
    let folder = workspace::target().join("bench-xfs");
    fs::create_dir_all(&folder).context(format_args!("create `{}`", folder.display()))?;
    run(program("mount", &["-o", "loop"]).arg(&image).arg(&folder))?;
    let outcome = benchmark().and_then(|mut command| run(command.env("HOLM_BENCH_DIR", &folder)));
    run(program("umount", &["--lazy"]).arg(&folder))?;
    outcome
}

fn benchmark() -> Outcome<Command> {
    let mut command = cargo(BENCHMARK);
    // Built before; this only finds it again.
    command.env("HOLM_BENCH_HOLM", dist::build()?);
    if let Ok(options) = std::env::var("HOLM_BENCH_OPTIONS") {
        command.arg("--").args(options.split_ascii_whitespace());
    }
    Ok(command)
}
