//! How fast streams are: `cargo xtask bench threads`.
//!
//! - Parts: the store without HTTP (`s`), a million streams (`f`); `--only s` runs some. A part is a module with a function that
//!   puts its rows into the [`report::Report`]; those over HTTP drive the real program (`HOLM_BENCH_HOLM`) from outside.
//! - `--page FILE` writes the tables as a page; a relative path counts from this package's folder.
//! - `HOLM_BENCH_DIR`: where all data goes.
//! - `HOLM_BENCH_SECONDS` (5), `HOLM_BENCH_STREAMS` (1000000): less or more.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark is a program, and its tables are its product"
)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

#[path = "threads/million.rs"]
mod million;
#[path = "threads/report.rs"]
mod report;
#[path = "threads/store.rs"]
mod store;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [million::ROLE, role, folder, count] =
        *arguments.iter().map(String::as_str).collect::<Vec<_>>()
    {
        return million::play(role, Path::new(folder), count.parse()?);
    }
    let options = Options::parse(arguments)?;
    let folder = match std::env::var_os("HOLM_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join("holm-bench"),
    };
    let folder = folder.join(format!("threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    let outcome = run(&options, &folder);
    let removed = std::fs::remove_dir_all(&folder).context("remove the data");
    // If both failed, the first is the cause.
    outcome.and(removed)
}

fn run(options: &Options, folder: &Path) -> Result<()> {
    let mut report = report::Report::default();
    report.say(&machine()?);
    let part = |name: &str| -> Result<PathBuf> {
        let folder = folder.join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    };
    if options.wants('s') {
        let seconds = number("HOLM_BENCH_SECONDS", 5)?;
        store::run(&part("store")?, seconds, &mut report)?;
    }
    if options.wants('f') {
        let count = number("HOLM_BENCH_STREAMS", 1_000_000)?;
        million::run(&part("million")?, count, &mut report)?;
    }
    report.finish(options.page.as_deref())
}

/// What was asked for on the command line.
#[derive(Debug, Default)]
struct Options {
    page: Option<PathBuf>,
    only: Option<String>,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo says this to every benchmark.
                "--bench" => {}
                "--page" => options.page = Some(arguments.next().context("--page FILE")?.into()),
                "--only" => options.only = Some(arguments.next().context("--only s,f")?),
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
