//! A million streams: how long a server takes to be ready after kill -9, and what it holds open then.
//!
//! The maker is this program again, in a process of its own, so that it can be killed: over HTTP it would take much longer.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::join_all;
use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::StreamStore;
use holm_thread_log::threads::ThreadRules;

use crate::http::Connection;
use crate::report::{Report, Verdict};
use crate::servers::{HOLM, HOLM_POSTGRES, Server};
use crate::store::{create, open};

/// What tells the program to be the maker: `--make-streams COUNT PLACE`.
pub(crate) const ROLE: &str = "--make-streams";
/// What the maker says in the end.
const MADE: &str = "made";

const TOGETHER: usize = 1_000;

pub(crate) async fn run(folder: &Path, count: usize, report: &mut Report) -> Result<()> {
    let data = folder.join("sqlite");
    // Makes the database.
    Server::holm(HOLM, &data, None)?.kill()?;
    let database = data.join("holm.db");
    make(&database.to_string_lossy(), count, HOLM, report)?;
    ready(HOLM, &data, None, count, report).await?;
    // Its rows are of no use any more, and disks are small.
    std::fs::remove_dir_all(&data)?;

    let Some(postgres) = PostgresServer::start_in(folder, &[]) else {
        return Ok(());
    };
    let data = folder.join("postgres");
    make(&postgres.url(), count, HOLM_POSTGRES, report)?;
    ready(HOLM_POSTGRES, &data, Some(postgres), count, report).await
}

/// Has the streams made by a process, and kills it.
fn make(place: &str, count: usize, name: &str, report: &mut Report) -> Result<()> {
    let begun = Instant::now();
    let mut maker: Child = Command::new(std::env::current_exe()?)
        .args([ROLE, &count.to_string(), place])
        .stdout(Stdio::piped())
        .spawn()
        .context("start the process that is to make streams")?;
    let output = maker.stdout.take().context("its output")?;
    let mut lines = BufReader::new(output).lines();
    let is_made = lines.any(|line| line.is_ok_and(|line| line == MADE));
    let took = begun.elapsed().as_secs_f64();
    maker.kill().context("kill the maker")?;
    maker.wait()?;
    if !is_made {
        bail!("the maker of streams ended too early");
    }
    report.value(
        &format!("(f) {count} streams made, {TOGETHER} at a time: {name}"),
        &format!("{took:.0} s"),
    );
    Ok(())
}

async fn ready(
    name: &'static str,
    data: &Path,
    postgres: Option<PostgresServer>,
    count: usize,
    report: &mut Report,
) -> Result<()> {
    let begun = Instant::now();
    let server = Server::holm(name, data, postgres)?;
    let mut connection = Connection::open(&server.address).await?;
    let kind = "content-type: application/json\r\n";
    connection
        .ask(("PUT", "/v1/stream/one-more"), kind, b"")
        .await?;
    let took = begun.elapsed();
    let descriptors = server.descriptors()?;
    report.goal(
        &format!("(f) {count} streams, from kill -9 to the first answer: {name}"),
        &format!("{:.0} ms", took.as_secs_f64() * 1e3),
        "under 1 s",
        Verdict::of(took < Duration::from_secs(1)),
    );
    report.goal(
        &format!("(f) descriptors of the server then: {name}"),
        &descriptors.to_string(),
        "under 50",
        Verdict::of(descriptors < 50),
    );
    Ok(())
}

/// The other process. It ends by being killed.
pub(crate) fn play(count: usize, place: &str) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let store: Arc<dyn StreamStore> = if place.starts_with("postgres:") {
            let rules = Arc::new(ThreadRules);
            Arc::new(PostgresStreams::connect(place, rules, PostgresOptions::default()).await?)
        } else {
            Arc::new(open(Path::new(place))?)
        };
        for first in (0..count).step_by(TOGETHER) {
            let names = (first..count.min(first + TOGETHER)).map(name);
            let names = names.collect::<Result<Vec<_>>>()?;
            for one in join_all(names.iter().map(|name| create(&*store, name))).await {
                one?;
            }
        }
        println!("{MADE}");
        std::future::pending().await
    })
}

fn name(number: usize) -> Result<holm_thread_log::StreamName> {
    Ok(format!("organisation/bench-f-{number:08}").parse()?)
}
