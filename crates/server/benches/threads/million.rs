//! A million streams: how long a store takes to be ready after kill -9, and what it holds open.
//!
//! The maker is this program again, in a process of its own, so that it can be killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::join_all;
use holm_thread_log::{StreamStore, Timestamp};

use crate::report::{Report, Verdict};
use crate::store::{create, open};

/// What tells the program to be the maker, or the one that comes after it: `--million make|open FOLDER COUNT`.
pub(crate) const ROLE: &str = "--million";

const TOGETHER: usize = 1_000;

pub(crate) fn run(folder: &Path, count: usize, report: &mut Report) -> Result<()> {
    let begun = Instant::now();
    let mut maker = start("make", folder, count)?;
    let said = wait_for(&mut maker, "made")?;
    let took = begun.elapsed();
    maker.kill().context("kill the maker")?;
    maker.wait()?;
    report.value(
        &format!("store: {count} streams made, {TOGETHER} at a time"),
        &format!("{:.0} s ({said})", took.as_secs_f64()),
    );
    let mut opener = start("open", folder, count)?;
    let said = wait_for(&mut opener, "ready")?;
    opener.kill().context("kill the opener")?;
    opener.wait()?;
    let mut words = said.split(' ');
    let mut number = || -> Result<u64> { Ok(words.next().context("a number")?.parse()?) };
    let ready = Duration::from_micros(number()?);
    let descriptors = number()?;
    report.goal(
        &format!("store: ready after kill -9, {count} streams"),
        &format!("{:.1} ms", ready.as_secs_f64() * 1e3),
        "under 1 s",
        Verdict::of(ready < Duration::from_secs(1)),
    );
    report.goal(
        "store: descriptors of the process then",
        &descriptors.to_string(),
        "under 50",
        Verdict::of(descriptors < 50),
    );
    Ok(())
}

fn start(role: &str, folder: &Path, count: usize) -> Result<Child> {
    let this = std::env::current_exe()?;
    Command::new(this)
        .args([ROLE, role])
        .arg(folder)
        .arg(count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start the process that is to {role} streams"))
}

/// What stands behind a word of its own line.
fn wait_for(child: &mut Child, word: &str) -> Result<String> {
    let output = child.stdout.take().context("its output")?;
    for line in BufReader::new(output).lines() {
        if let Some(rest) = line?.strip_prefix(word) {
            return Ok(rest.trim().to_owned());
        }
    }
    bail!("it ended without a word of `{word}`")
}

/// The other process. It ends by being killed.
pub(crate) fn play(role: &str, folder: &Path, count: usize) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let begun = Instant::now();
    let store = open(folder)?;
    match role {
        "make" => {
            for first in (0..count).step_by(TOGETHER) {
                let names = (first..count.min(first + TOGETHER)).map(name);
                let names = names.collect::<Result<Vec<_>>>()?;
                let made = names.iter().map(|name| create(&store, name));
                for one in runtime.block_on(join_all(made)) {
                    one?;
                }
            }
            let size = std::fs::metadata(folder.join("streams.db"))?.len() >> 20;
            println!("made {size} MiB");
        }
        "open" => {
            // The last one, so that it is really found.
            let last = name(count - 1)?;
            runtime.block_on(store.head(&last, Timestamp(0)))??;
            let took = begun.elapsed().as_micros();
            let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
            println!("ready {took} {descriptors}");
        }
        other => bail!("unknown role `{other}`"),
    }
    // Killed here.
    runtime.block_on(std::future::pending::<()>());
    Ok(())
}

fn name(number: usize) -> Result<holm_thread_log::StreamName> {
    Ok(format!("organisation/holm-thread-{number:08}").parse()?)
}
