//! Catch-up: a stream that is there already, read from its beginning to its end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use crate::appends::entry;
use crate::http::Connection;
use crate::report::{Report, Verdict};
use crate::servers::{HOLM, Server};
use crate::store::{ENTRY_BYTES, rate};

const STREAM_BYTES: usize = 64 << 20;
/// Who fill it at once.
const WRITERS: usize = 64;
const ROUNDS: usize = 5;
const GOAL_MEGABYTES: f64 = 500.0;
const PATH: &str = "/v1/stream/bench-c";

pub(crate) async fn run(servers: &[Server], report: &mut Report) -> Result<()> {
    for server in servers {
        fill(server).await?;
    }
    let mut all = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (server, rates) in servers.iter().zip(&mut all) {
            let (bytes, took) = read(server).await?;
            rates.push(rate(bytes, took) / 1e6);
        }
    }
    for (server, mut rates) in servers.iter().zip(all) {
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        let name = format!("(c) catch-up read of 64 MiB: {}", server.name);
        let value = format!("{median:.0} MB/s");
        if server.name == HOLM {
            let verdict = Verdict::of(median >= GOAL_MEGABYTES);
            report.goal(&name, &value, "at least 500 MB/s", verdict);
        } else {
            report.value(&name, &value);
        }
    }
    Ok(())
}

/// Each entry by a request of its own, as agents write them; in which order they come does not matter.
async fn fill(server: &Server) -> Result<()> {
    let kind = "content-type: application/json\r\n";
    let mut first = Connection::open(&server.address).await?;
    first.ask(("PUT", PATH), kind, b"").await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let address = server.address.clone();
        writers.spawn(async move {
            let mut connection = Connection::open(&address).await?;
            for number in (writer..STREAM_BYTES / ENTRY_BYTES).step_by(WRITERS) {
                connection.ask(("POST", PATH), kind, &entry(number)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    Ok(())
}

async fn read(server: &Server) -> Result<(usize, Duration)> {
    let mut connection = Connection::open(&server.address).await?;
    let begun = Instant::now();
    let (mut offset, mut bytes) = ("-1".to_owned(), 0);
    loop {
        let path = format!("{PATH}?offset={offset}");
        let answer = connection.ask(("GET", &path), "", b"").await?;
        bytes += answer.body_bytes;
        offset = answer.next_offset.context("no offset to go on from")?;
        if answer.is_up_to_date {
            break;
        }
    }
    if bytes < STREAM_BYTES {
        bail!("{}: {bytes} bytes of {STREAM_BYTES} came", server.name);
    }
    Ok((bytes, begun.elapsed()))
}
