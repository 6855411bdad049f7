//! The store itself, without HTTP: what SQLite and the committer make of the disk.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holm_store::{SqliteOptions, SqliteStreams};
use holm_thread_log::{
    Append, Claim, Command, ContentType, Create, Ending, Outcome, Payload, ReadFrom, StreamName,
    StreamStore, Timestamp,
};

use crate::report::{Report, Samples};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 512;
const STREAMS_AT_ONCE: usize = 100;
const SCAN_BYTES: usize = 64 << 20;

pub(crate) async fn run(folder: &Path, duration: Duration, report: &mut Report) -> Result<()> {
    let mut rows = Vec::new();
    rows.push(("fdatasync of the disk", disk(folder, duration)?));
    let store: Arc<dyn StreamStore> = Arc::new(open(&folder.join("streams.db"))?);
    let serial = append(&store, "serial", 1, duration).await?;
    rows.push(("store: one stream, serial", serial));
    let at_once = append(&store, "at-once", STREAMS_AT_ONCE, duration).await?;
    rows.push(("store: 100 streams at once", at_once));
    rows.push(("fdatasync of the disk, again", disk(folder, duration)?));
    report.rates("The store, entries of 512 bytes", &rows);
    let rate = scan(&store, SCAN_BYTES).await?;
    report.value(
        "store: catch-up reads, pages of 1 MiB",
        &format!("{rate:.0} MB/s"),
    );
    Ok(())
}

pub(crate) fn open(path: &Path) -> Result<SqliteStreams> {
    SqliteStreams::open(path, SqliteOptions::default()).context("open the store")
}

/// Nothing that keeps its word can be quicker than this, one at a time.
pub(crate) fn disk(folder: &Path, duration: Duration) -> Result<(f64, Samples)> {
    let path = folder.join("fdatasync");
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)?;
    // As a write-ahead log that is used again: the space is there.
    let blocks = 2048_u64;
    for block in 0..blocks {
        file.write_all_at(&[1; 4096], block * 4096)?;
    }
    file.sync_all()?;
    let mut samples = Samples::default();
    let begun = Instant::now();
    let mut block = 0;
    while begun.elapsed() < duration {
        let one = Instant::now();
        file.write_all_at(&[2; 4096], (block % blocks) * 4096)?;
        file.sync_data()?;
        samples.push(one.elapsed());
        block += 1;
    }
    std::fs::remove_file(&path)?;
    let rate = rate(samples.count(), begun.elapsed());
    Ok((rate, samples))
}

async fn append(
    store: &Arc<dyn StreamStore>,
    prefix: &str,
    streams: usize,
    duration: Duration,
) -> Result<(f64, Samples)> {
    let mut writers = Vec::new();
    let processor = processor_time()?;
    let begun = Instant::now();
    for number in 0..streams {
        let name: StreamName = format!("{prefix}/{number}").parse()?;
        let store = Arc::clone(store);
        writers.push(tokio::spawn(async move {
            create(&*store, &name).await?;
            let mut samples = Samples::default();
            for seq in 0.. {
                if begun.elapsed() >= duration {
                    break;
                }
                let one = Instant::now();
                append_one(&*store, &name, seq, entry(seq)).await?;
                samples.push(one.elapsed());
            }
            anyhow::Ok(samples)
        }));
    }
    let mut all = Samples::default();
    for writer in writers {
        all.extend(writer.await??);
    }
    let rate = rate(all.count(), begun.elapsed());
    all.used(processor_time()?.saturating_sub(processor));
    Ok((rate, all))
}

async fn scan(store: &Arc<dyn StreamStore>, bytes: usize) -> Result<f64> {
    let name: StreamName = "scan".parse()?;
    create(&**store, &name).await?;
    let mut seq = 0;
    while usize::try_from(seq)? * ENTRY_BYTES < bytes {
        // No more than a task may do in one go: else the last come first.
        let sent: Vec<_> = (seq..seq + 100)
            .map(|seq| append_one(&**store, &name, seq, entry(seq)))
            .collect();
        for one in futures_util::future::join_all(sent).await {
            one?;
        }
        seq += 100;
    }
    let begun = Instant::now();
    let (mut from, mut read) = (ReadFrom::Start, 0);
    loop {
        let page = store.read(&name, from, 1 << 20, Timestamp(0)).await??;
        if page.entries.is_empty() {
            break;
        }
        read += page.entries.iter().map(|one| one.data.len()).sum::<usize>();
        from = ReadFrom::At(page.next);
    }
    if read < bytes {
        bail!("read {read} bytes of {bytes}");
    }
    Ok(rate(read, begun.elapsed()) / 1e6)
}

pub(crate) async fn create(store: &dyn StreamStore, name: &StreamName) -> Result<()> {
    let create = Create {
        name: name.clone(),
        content_type: Some(ContentType::octet_stream()),
        lifetime: None,
        ending: Ending::Open,
        payload: None,
        fork: None,
        writer: None,
        documents: Vec::new(),
    };
    store.apply(Command::Create(create), Timestamp(0)).await??;
    Ok(())
}

async fn append_one(
    store: &dyn StreamStore,
    name: &StreamName,
    seq: u64,
    payload: Payload,
) -> Result<()> {
    let append = Append {
        name: name.clone(),
        content_type: Some(ContentType::octet_stream()),
        payload: Some(payload),
        producer: Some(Claim {
            producer: "bench".parse()?,
            epoch: 0,
            seq,
        }),
        stream_seq: None,
        ending: Ending::Open,
        writer: None,
        documents: Vec::new(),
    };
    let outcome = store.apply(Command::Append(append), Timestamp(0)).await??;
    if !matches!(outcome, Outcome::Appended(_)) {
        bail!("an append was answered with {outcome:?}");
    }
    Ok(())
}

fn entry(seq: u64) -> Payload {
    let mut data = vec![b'x'; ENTRY_BYTES];
    data[..8].copy_from_slice(&seq.to_be_bytes());
    Payload::Bytes(data.into())
}

/// What all threads of this process have used so far.
fn processor_time() -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let nanoseconds = text.split(' ').next().context("a schedstat")?;
        total += Duration::from_nanos(nanoseconds.parse()?);
    }
    Ok(total)
}

#[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
