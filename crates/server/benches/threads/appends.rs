//! Appends over HTTP: one stream serially, and many streams at once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::http::{Address, Connection};
use crate::report::{Report, Samples, Verdict};
use crate::servers::{HOLM, OFFICIAL, Server};
use crate::store::{ENTRY_BYTES, disk, rate};

const STREAMS_AT_ONCE: usize = 100;
/// Servers take turns, so that what the machine does meanwhile meets all of them.
const ROUNDS: usize = 4;

/// What one server did in all rounds.
#[derive(Debug, Clone, Default)]
struct Total {
    samples: Samples,
    took: Duration,
    processor: Duration,
}

impl Total {
    fn row(mut self) -> (f64, Samples) {
        let rate = rate(self.samples.count(), self.took);
        self.samples.used(self.processor);
        (rate, self.samples)
    }
}

pub(crate) async fn run(
    servers: &[Server],
    folder: &Path,
    duration: Duration,
    report: &mut Report,
) -> Result<()> {
    let cases = [
        ('a', "One stream, serially", 1),
        ('b', "100 streams at once", STREAMS_AT_ONCE),
    ];
    for (part, title, streams) in cases {
        let mut probe = Total::default();
        let mut totals = vec![Total::default(); servers.len()];
        for round in 0..ROUNDS {
            let (_, samples) = disk(folder, duration / 4)?;
            probe.samples.extend(samples);
            probe.took += duration / 4;
            for turn in 0..servers.len() {
                // Each comes first as often as the others.
                let place = (round + turn) % servers.len();
                let (Some(server), Some(total)) = (servers.get(place), totals.get_mut(place))
                else {
                    continue;
                };
                let prefix = format!("bench-{part}-{round}");
                measure(server, &prefix, streams, duration, total).await?;
            }
        }
        let mut rows = vec![("fdatasync of the disk", probe.row())];
        let measured = servers.iter().zip(totals);
        rows.extend(measured.map(|(server, total)| (server.name, total.row())));
        report.rates(&format!("({part}) {title}: appends over HTTP"), &rows);
        compare(part, &rows, report);
    }
    Ok(())
}

fn compare(part: char, rows: &[(&str, (f64, Samples))], report: &mut Report) {
    let of = |wanted: &str| rows.iter().find(|(name, _)| *name == wanted);
    let (Some((_, (holm, holm_samples))), Some((_, (official, official_samples)))) =
        (of(HOLM), of(OFFICIAL))
    else {
        return;
    };
    let ratio = holm / official;
    report.goal(
        &format!("({part}) rate, times the official server's"),
        &format!("{ratio:.2}"),
        "at least 1",
        Verdict::of(ratio >= 1.0),
    );
    let ratio = holm_samples.percentile(99) / official_samples.percentile(99);
    report.goal(
        &format!("({part}) p99, times the official server's"),
        &format!("{ratio:.2}"),
        "under 1",
        Verdict::of(ratio < 1.0),
    );
}

async fn measure(
    server: &Server,
    prefix: &str,
    streams: usize,
    duration: Duration,
    total: &mut Total,
) -> Result<()> {
    let mut writers = Vec::new();
    for number in 0..streams {
        let path = format!("/v1/stream/{prefix}-{number}");
        writers.push(Writer::create(&server.address, path).await?);
    }
    let processor = server.processor_time()?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in writers {
        tasks.spawn(writer.write_for(duration));
    }
    while let Some(samples) = tasks.join_next().await {
        total.samples.extend(samples??);
    }
    total.took += begun.elapsed();
    total.processor += server.processor_time()?.saturating_sub(processor);
    Ok(())
}

/// A producer with a stream of its own.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: Connection,
    path: String,
    next_seq: usize,
}

impl Writer {
    pub(crate) async fn create(address: &Address, path: String) -> Result<Self> {
        let mut connection = Connection::open(address).await?;
        let kind = "content-type: application/json\r\n";
        connection.ask(("PUT", &path), kind, b"").await?;
        Ok(Self {
            connection,
            path,
            next_seq: 0,
        })
    }

    /// Appends one entry after the other.
    async fn write_for(mut self, duration: Duration) -> Result<Samples> {
        let mut samples = Samples::default();
        let begun = Instant::now();
        while begun.elapsed() < duration {
            let entry = entry(self.next_seq);
            let one = Instant::now();
            self.append(&entry).await?;
            samples.push(one.elapsed());
        }
        Ok(samples)
    }

    /// Appends a body, and returns when it is acknowledged.
    pub(crate) async fn append(&mut self, body: &[u8]) -> Result<()> {
        let headers = format!(
            "content-type: application/json\r\nproducer-id: bench\r\nproducer-epoch: 0\r\nproducer-seq: {}\r\n",
            self.next_seq
        );
        self.connection
            .ask(("POST", &self.path), &headers, body)
            .await?;
        self.next_seq += 1;
        Ok(())
    }
}

/// What no other entry of the stream has.
pub(crate) fn marker(number: usize) -> String {
    format!("\"n\":\"{number:08}\"")
}

/// An entry of [`ENTRY_BYTES`].
pub(crate) fn entry(number: usize) -> Vec<u8> {
    let marker = marker(number);
    let frame = r#"{,"text":""}"#.len();
    let text = "x".repeat(ENTRY_BYTES - marker.len() - frame);
    format!(r#"{{{marker},"text":"{text}"}}"#).into_bytes()
}
