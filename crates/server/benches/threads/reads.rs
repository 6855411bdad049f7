//! Catch-up: a stream that is there already, read from its beginning to its end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::appends::{Writer, entry};
use crate::http::Connection;
use crate::report::{Report, Verdict};
use crate::servers::{HOLM, HOLM_POSTGRES, Server};
use crate::store::{ENTRY_BYTES, rate};

const STREAM_BYTES: usize = 64 << 20;
/// In one request, when the stream is filled.
const ENTRIES_TOGETHER: usize = 1_000;
const ROUNDS: usize = 5;
const GOAL_MEGABYTES: f64 = 500.0;
const PATH: &str = "/v1/stream/bench-c";

pub(crate) async fn run(servers: &[Server], report: &mut Report) -> Result<()> {
    for server in servers {
        fill(server).await?;
    }
    let mut best = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (server, rates) in servers.iter().zip(&mut best) {
            let (bytes, took) = read(server).await?;
            rates.push(rate(bytes, took) / 1e6);
        }
    }
    for (server, mut rates) in servers.iter().zip(best) {
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        let name = format!("(c) catch-up read of 64 MiB: {}", server.name);
        let value = format!("{median:.0} MB/s");
        if [HOLM, HOLM_POSTGRES].contains(&server.name) {
            let verdict = Verdict::of(median >= GOAL_MEGABYTES);
            report.goal(&name, &value, "at least 500 MB/s", verdict);
        } else {
            report.value(&name, &value);
        }
    }
    Ok(())
}

async fn fill(server: &Server) -> Result<()> {
    let mut writer = Writer::create(&server.address, PATH.to_owned()).await?;
    for first in (0..STREAM_BYTES / ENTRY_BYTES).step_by(ENTRIES_TOGETHER) {
        let entries: Vec<_> = (first..first + ENTRIES_TOGETHER).map(entry).collect();
        let body = [b"[".as_slice(), &entries.join(b",".as_slice()), b"]"].concat();
        writer.append(&body).await?;
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
