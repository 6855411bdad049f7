//! How fast a server is, beside what it stands on: `cargo xtask bench server`.
//!
//! The real program serves, with its data in one folder; everything is measured from outside, over sockets.
//!
//! - Parts: memory (`m`), time to interactive (`a`), the same through the SDKs (`b`), commands (`c`), transfers (`d`);
//!   `--only a,c` runs some.
//! - `--page FILE` writes the tables as a page; a relative path counts from this package's folder.
//! - `HOLM_BENCH_HOLM`: the program to measure. `HOLM_BENCH_DIR`: where all data goes.
//! - `HOLM_BENCH_ROUNDS` (200), `HOLM_BENCH_BOXES` (1000), `HOLM_BENCH_MIB` (1024): less or more.
//! - `HOLM_BENCH_PYTHON`, `HOLM_BENCH_TYPESCRIPT`: an interpreter with the SDK, and a folder with its modules.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program, and its tables are its product"
)]

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

#[path = "server/commands.rs"]
mod commands;
#[path = "server/floor.rs"]
mod floor;
#[path = "server/http.rs"]
mod http;
#[path = "server/interactive.rs"]
mod interactive;
#[path = "server/memory.rs"]
mod memory;
#[path = "server/report.rs"]
mod report;
#[path = "server/sdk.rs"]
mod sdk;
#[path = "server/subject.rs"]
mod subject;
#[path = "server/transfer.rs"]
mod transfer;

fn main() -> Result<()> {
    let options = Options::parse()?;
    let folder = match std::env::var_os("HOLM_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join("holm-bench"),
    };
    let folder = folder.join(format!("server-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    let outcome = run(&options, &folder);
    let removed = std::fs::remove_dir_all(&folder).context("remove the data");
    // If both failed, the first is the cause.
    outcome.and(removed)
}

fn run(options: &Options, folder: &std::path::Path) -> Result<()> {
    let mut report = report::Report::default();
    report.say(&machine()?);
    let rounds = number("HOLM_BENCH_ROUNDS", 200)?;
    if options.wants('m') {
        memory::run(folder, number("HOLM_BENCH_BOXES", 1_000)?, &mut report)?;
    }
    let subject = subject::Subject::start(&folder.join("data"))?;
    if options.wants('a') {
        interactive::run(&subject, rounds, &mut report)?;
    }
    if options.wants('b') {
        sdk::run(&subject, rounds, &mut report)?;
    }
    if options.wants('c') {
        commands::run(&subject, rounds, &mut report)?;
    }
    if options.wants('d') {
        let bytes = u64::try_from(number("HOLM_BENCH_MIB", 1_024)?)? << 20;
        transfer::run(&subject, folder, bytes, &mut report)?;
    }
    subject.stop()?;
    report.finish(options.page.as_deref())
}

/// What was asked for on the command line.
#[derive(Debug, Default)]
struct Options {
    page: Option<PathBuf>,
    only: Option<String>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo says this to every benchmark.
                "--bench" => {}
                "--page" => options.page = Some(arguments.next().context("--page FILE")?.into()),
                "--only" => options.only = Some(arguments.next().context("--only a,b,c,d,m")?),
                other => bail!("unknown argument `{other}`"),
            }
        }
        Ok(options)
    }

    fn wants(&self, part: char) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(part))
    }
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

/// A number from the environment.
fn number(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("read {name}=`{text}`")),
        Err(_) => Ok(default),
    }
}
