//! Followers: how soon they have what was appended, and what ten thousand of them cost who wait.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::appends::{Writer, entry, marker};
use crate::http::Connection;
use crate::report::{Report, Samples, Verdict};
use crate::servers::{OFFICIAL, Server};

const ROUNDS: usize = 5;
const ENTRIES_OF_ROUND: usize = 300;
const IDLE_STREAMS: usize = 1_000;
const MEBIBYTES_MAX: f64 = 200.0;

/// From before an append is sent until its event is with a follower.
pub(crate) async fn delay(servers: &[Server], report: &mut Report) -> Result<()> {
    let mut all = vec![Samples::default(); servers.len()];
    for round in 0..ROUNDS {
        for (server, samples) in servers.iter().zip(&mut all) {
            let path = format!("/v1/stream/bench-d-{round}");
            let mut writer = Writer::create(&server.address, path.clone()).await?;
            let mut follower = Connection::open(&server.address).await?;
            follower
                .follow(&format!("{path}?offset=-1&live=sse"))
                .await?;
            for number in 0..ENTRIES_OF_ROUND {
                let (entry, marker) = (entry(number), marker(number));
                let begun = Instant::now();
                let arrival = async {
                    follower.wait_for(marker.as_bytes()).await?;
                    anyhow::Ok(begun.elapsed())
                };
                let (appended, arrived) = tokio::join!(writer.append(&entry), arrival);
                appended?;
                samples.push(arrived?);
            }
        }
    }
    for (server, samples) in servers.iter().zip(all) {
        let (median, slow) = (samples.percentile(50), samples.percentile(99));
        let name = format!("(d) append to follower: {}", server.name);
        let value = format!("{median:.2} ms (p99 {slow:.2})");
        match server.name {
            OFFICIAL => report.value(&name, &value),
            _ => report.goal(&name, &value, "under 1 ms", Verdict::of(median < 1.0)),
        }
    }
    Ok(())
}

/// Followers of streams in which nothing happens.
pub(crate) async fn idle(server: &Server, count: usize, report: &mut Report) -> Result<()> {
    let mut made = Connection::open(&server.address).await?;
    for number in 0..IDLE_STREAMS {
        let path = format!("/v1/stream/bench-e-{number}");
        let kind = "content-type: application/json\r\n";
        made.ask(("PUT", &path), kind, b"").await?;
    }
    let before = server.resident_kib()?;
    let begun = Instant::now();
    let mut followers = Vec::with_capacity(count);
    for number in 0..count {
        let mut follower = Connection::small(&server.address).await?;
        let stream = number % IDLE_STREAMS;
        let path = format!("/v1/stream/bench-e-{stream}?offset=-1&live=sse");
        follower
            .follow(&path)
            .await
            .with_context(|| format!("follower {number}"))?;
        // What it has to say to begin with; then it is idle.
        follower.wait_for(b"upToDate").await?;
        followers.push(follower);
    }
    let took = begun.elapsed().as_secs_f64();
    let after = server.resident_kib()?;
    let name = format!("(e) {count} idle followers: {}", server.name);
    let mebibytes = mebibytes(after);
    let each = after.saturating_sub(before) / u64::try_from(count.max(1))?;
    let value = format!("{mebibytes:.0} MiB ({each} KiB each; there after {took:.1} s)");
    match server.name {
        OFFICIAL => report.value(&name, &value),
        _ => {
            let verdict = Verdict::of(mebibytes < MEBIBYTES_MAX);
            report.goal(&name, &value, "under 200 MiB", verdict);
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53")]
fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}
