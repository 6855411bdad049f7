//! How fast streams are: `cargo xtask bench threads`.
//!
//! - Parts: the store without HTTP (`s`); over HTTP, beside the official server and over Postgres, appends (`a`: both tables),
//!   catch-up reads (`c`), the delay to a follower (`d`), idle followers (`e`); a million streams (`f`). `--only s,d` runs some.
//! - `HOLM_BENCH_HOLM`: the program to measure. `HOLM_BENCH_DURABLE_STREAMS`: the official server.
//! - `--page FILE` writes the tables as a page; a relative path counts from this package's folder.
//! - `HOLM_BENCH_DIR`: where all data goes.
//! - `HOLM_BENCH_SECONDS` (5), `HOLM_BENCH_FOLLOWERS` (10000), `HOLM_BENCH_STREAMS` (1000000): less or more.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark is a program, and its tables are its product"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

#[path = "threads/appends.rs"]
mod appends;
#[path = "threads/followers.rs"]
mod followers;
#[path = "threads/http.rs"]
mod http;
#[path = "threads/million.rs"]
mod million;
#[path = "threads/reads.rs"]
mod reads;
#[path = "threads/report.rs"]
mod report;
#[path = "threads/servers.rs"]
mod servers;
#[path = "threads/store.rs"]
mod store;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [million::ROLE, count, place] = *arguments.iter().map(String::as_str).collect::<Vec<_>>()
    {
        return million::play(count.parse()?, place);
    }
    let options = Options::parse(arguments)?;
    let folder = match std::env::var_os("HOLM_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join("holm-bench"),
    };
    let folder = folder.join(format!("threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    // Postgres runs as a user of its own.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    let outcome = tokio::runtime::Runtime::new()?.block_on(run(&options, &folder));
    let removed = std::fs::remove_dir_all(&folder).context("remove the data");
    // If both failed, the first is the cause.
    outcome.and(removed)
}

async fn run(options: &Options, folder: &Path) -> Result<()> {
    let mut report = report::Report::default();
    report.say(&machine()?);
    let part = |name: &str| -> Result<PathBuf> {
        let folder = folder.join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    };
    let duration = Duration::from_secs(u64::try_from(number("HOLM_BENCH_SECONDS", 5)?)?);
    if options.wants('s') {
        store::run(&part("store")?, duration, &mut report).await?;
    }
    if "acde".chars().any(|part| options.wants(part)) {
        over_http(options, &part("servers")?, duration, &mut report).await?;
    }
    if options.wants('f') {
        let count = number("HOLM_BENCH_STREAMS", 1_000_000)?;
        million::run(&part("million")?, count, &mut report).await?;
    }
    report.finish(options.page.as_deref())
}

/// What is measured from outside, over sockets.
async fn over_http(
    options: &Options,
    folder: &Path,
    duration: Duration,
    report: &mut report::Report,
) -> Result<()> {
    let servers = servers::start_all(folder, report)?;
    if options.wants('a') {
        appends::run(&servers, folder, duration, report).await?;
    }
    if options.wants('c') {
        reads::run(&servers, report).await?;
    }
    if options.wants('d') {
        followers::delay(&servers, report).await?;
    }
    drop(servers);
    if options.wants('e') {
        holm_sandbox_linux::raise_descriptor_limit()?;
        let folder = folder.join("idle");
        std::fs::create_dir(&folder)?;
        let count = number("HOLM_BENCH_FOLLOWERS", 10_000)?;
        for server in servers::start_all(&folder, report)? {
            followers::idle(&server, count, report).await?;
        }
    }
    Ok(())
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
                "--only" => options.only = Some(arguments.next().context("--only s,a,c,d,e,f")?),
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
