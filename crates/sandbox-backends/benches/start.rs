//! How fast a box starts, beside its peers: `cargo xtask bench start`.
//!
//! One run, everything interleaved in random order, everybody's data in one folder, so that the ratios
//! in the tables are worth something even where the times are not.
//!
//! - Parts: a new box (`a`), a living one (`b`), a checkout (`c`), many boxes (`d`); `--only a,b` runs some.
//! - `--json FILE` writes the raw numbers; a relative path counts from this package's folder.
//! - `--profile-cold` shows where the time of a cold start goes instead.
//! - `HOLM_BENCH_DIR`: everybody's data. `HOLM_BENCH_ROUNDS` (200), `HOLM_BENCH_BOXES` (1000): less or more.
//! - `HOLM_BENCH_HOLM`: the CLI to measure, if not the one in Cargo's target folder.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program, and its tables are its product"
)]

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

#[path = "start/checkout.rs"]
mod checkout;
#[path = "start/helper.rs"]
mod helper;
#[path = "start/lab.rs"]
mod lab;
#[path = "start/living.rs"]
mod living;
#[path = "start/many.rs"]
mod many;
#[path = "start/memory.rs"]
mod memory;
#[path = "start/new_box.rs"]
mod new_box;
#[path = "start/peers.rs"]
mod peers;
#[path = "start/profile.rs"]
mod profile;
#[path = "start/report.rs"]
mod report;
#[path = "start/schedule.rs"]
mod schedule;
#[path = "start/statistics.rs"]
mod statistics;

const ROUNDS: usize = 200;
const BOXES: usize = 1_000;

fn main() -> Result<()> {
    let options = Options::parse()?;
    let folder = match std::env::var_os("HOLM_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir().join("holm-bench"),
    };
    let folder = folder.join(format!("run-{}", std::process::id()));
    let outcome = run(&options, &folder);
    let removed = lab::remove(&folder);
    // If both failed, the first is the cause.
    outcome.and(removed)
}

fn run(options: &Options, folder: &std::path::Path) -> Result<()> {
    let lab = lab::Lab::open(folder)?;
    let mut report = report::Report::default();
    report.say(&machine()?);
    let rounds = number("HOLM_BENCH_ROUNDS", ROUNDS)?;
    if options.mode == Mode::ProfileCold {
        profile::run(&lab, rounds, &mut report)?;
        return report.finish(options.json.as_deref());
    }
    // First, while this process is small: every box's init is a fork of its spawner, and that of this process.
    if options.wants('d') {
        if rustix::process::geteuid().is_root() {
            many::run(&lab, number("HOLM_BENCH_BOXES", BOXES)?, &mut report)?;
        } else {
            report
                .notes
                .push("many boxes are measured as root only".into());
        }
    }
    let peers = RefCell::new(peers::Peers::find(&lab, &mut report.notes)?);
    if options.wants('a') {
        new_box::run(&lab, Some(&peers), rounds, &mut report)?;
    }
    if options.wants('b') {
        living::run(&lab, Some(&peers), rounds, &mut report)?;
    }
    drop(peers);
    if options.wants('c') {
        checkout::run(&lab, rounds, &mut report)?;
    }
    report.finish(options.json.as_deref())
}

/// What was asked for on the command line.
#[derive(Debug, Default)]
struct Options {
    json: Option<PathBuf>,
    only: Option<String>,
    mode: Mode,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Tables,
    ProfileCold,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo says this to every benchmark.
                "--bench" => {}
                "--json" => options.json = Some(arguments.next().context("--json FILE")?.into()),
                "--only" => options.only = Some(arguments.next().context("--only a,b,c,d")?),
                "--profile-cold" => options.mode = Mode::ProfileCold,
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
