//! What the server's process holds while sandboxes idle, and how long it takes to find them again.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::report::{Report, three_digits};
use crate::subject::{Subject, create, delete};

const CLIENTS: usize = 8;
const STEPS: [usize; 3] = [0, 100, 1_000];

pub(crate) fn run(folder: &Path, boxes_max: usize, report: &mut Report) -> Result<()> {
    let data = folder.join("memory");
    let mut subject = Subject::start(&data)?;
    let mut ids: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let mut most = 0;
    for step in STEPS {
        let count = step.min(boxes_max);
        if step > 0 && count == ids.len() {
            continue;
        }
        let begun = Instant::now();
        let missing = count - ids.len();
        ids.extend(create_many(&subject, missing)?);
        let seconds = begun.elapsed().as_secs_f64();
        let (resident, own) = subject.resident_kib()?;
        most = resident;
        rows.push((
            format!("MiB resident with {count} sandboxes (of them anonymous)"),
            format!("{} ({})", mib(resident), mib(own)),
        ));
        if missing > 0 {
            rows.push((
                format!("sandboxes per second on the way there, {CLIENTS} clients"),
                three_digits(missing as f64 / seconds),
            ));
        }
    }
    subject.stop()?;
    let begun = Instant::now();
    subject = Subject::start(&data)?;
    rows.push((
        format!(
            "seconds until a server that starts again has found all {}",
            ids.len()
        ),
        three_digits(begun.elapsed().as_secs_f64()),
    ));
    let (resident, own) = subject.resident_kib()?;
    rows.push((
        "MiB resident then (of them anonymous)".to_owned(),
        format!("{} ({})", mib(resident), mib(own)),
    ));
    report.values("Memory of the server", &rows);
    report.promise(
        &format!("MiB resident with {} idle sandboxes", ids.len()),
        most as f64 / 1_024.0,
        100.0,
    );
    delete_all(&subject, &ids)?;
    subject.stop()
}

fn mib(kib: u64) -> String {
    three_digits(kib as f64 / 1_024.0)
}

fn create_many(subject: &Subject, count: usize) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    spread(|| {
        let mut connection = subject.connect()?;
        let mut made = Vec::new();
        while next.fetch_add(1, Ordering::Relaxed) < count {
            made.push(create(&mut connection)?);
        }
        Ok(made)
    })
}

fn delete_all(subject: &Subject, ids: &[String]) -> Result<()> {
    let next = AtomicUsize::new(0);
    spread(|| {
        let mut connection = subject.connect()?;
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            delete(&mut connection, id)?;
        }
        Ok(Vec::new())
    })
    .map(drop)
}

/// The same work by several clients at once.
fn spread(work: impl Fn() -> Result<Vec<String>> + Sync) -> Result<Vec<String>> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(&work)).collect();
        let mut all = Vec::new();
        for client in clients {
            match client.join() {
                Ok(part) => all.extend(part?),
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(all)
    })
}
