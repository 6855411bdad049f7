//! What the client costs, beside a bare request of the same bytes and beside the official SDKs: `cargo xtask bench daytona`.
//!
//! The real program serves. All of them do the same to the same sandbox, one after the other in each round, and each
//! round begins with another one.
//!
//! - `--page FILE` writes the tables as a page; a relative path counts from this package's folder.
//! - `HOLM_BENCH_HOLM`: the program that serves. `HOLM_BENCH_DIR`: where all data goes.
//! - `HOLM_BENCH_ROUNDS` (200), `HOLM_BENCH_TRANSFERS` (20), `HOLM_BENCH_MIB` (100): less or more.
//! - `HOLM_BENCH_PYTHON`, `HOLM_BENCH_TYPESCRIPT`: an interpreter with the SDK, and a folder with its modules.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program, and its tables are its product"
)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

#[path = "daytona/bare.rs"]
mod bare;
#[path = "daytona/contestants.rs"]
mod contestants;
#[path = "daytona/report.rs"]
mod report;
#[path = "daytona/rounds.rs"]
mod rounds;
#[path = "daytona/sdk.rs"]
mod sdk;
#[path = "daytona/subject.rs"]
mod subject;

fn main() -> Result<()> {
    let page = page()?;
    let folder = match std::env::var_os("HOLM_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join("holm-bench"),
    };
    let folder = folder.join(format!("daytona-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    let outcome = run(&folder, page.as_deref());
    let removed = std::fs::remove_dir_all(&folder).context("remove the data");
    // If both failed, the first is the cause.
    outcome.and(removed)
}

fn run(folder: &Path, page: Option<&Path>) -> Result<()> {
    let mut report = report::Report::default();
    report.say(&machine()?);
    let count = rounds::Count {
        commands: number("HOLM_BENCH_ROUNDS", 200)?,
        transfers: number("HOLM_BENCH_TRANSFERS", 20)?,
        bytes: number("HOLM_BENCH_MIB", 100)? << 20,
    };
    let subject = subject::Subject::start(&folder.join("data"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(rounds::run(&subject, folder, count, &mut report))?;
    subject.stop()?;
    report.finish(page)
}

/// What was asked for on the command line.
fn page() -> Result<Option<PathBuf>> {
    let mut page = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo says this to every benchmark.
            "--bench" => {}
            "--page" => page = Some(arguments.next().context("--page FILE")?.into()),
            other => bail!("unknown argument `{other}`"),
        }
    }
    Ok(page)
}

/// What the numbers were measured on, and what else ran there.
fn machine() -> Result<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split_ascii_whitespace().next().unwrap_or_default();
    let processors = std::thread::available_parallelism()?;
    Ok(format!(
        "Linux {}, {processors} processors, load average {load} before the run.\n",
        kernel.trim()
    ))
}

fn number(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("read {name}")),
        Err(_) => Ok(default),
    }
}
