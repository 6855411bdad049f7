//! D: many boxes alive at once, at the engine's level.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use holm_sandbox_linux::Engine;
use rustix::process::{Resource, Rlimit};

use crate::lab::{EngineBox, Lab, TRUE};
use crate::memory::{Accounting, available_bytes};
use crate::report::{Against, Report};
use crate::schedule::{Measured, Random, Row};
use crate::statistics::{Samples, milliseconds, three_digits};

const EXECS: usize = 300;
/// Descriptors that the host holds per box, generously, and some for everything else.
const DESCRIPTORS_PER_BOX: usize = 4;
const DESCRIPTORS_MORE: usize = 200;

pub(crate) fn run(lab: &Lab, count: usize, report: &mut Report) -> Result<()> {
    allow_descriptors(count)?;
    let accounting = Accounting::start(&mut report.notes);
    // Its spawner is born into the group that is accounted.
    let engine = Engine::start()?;
    let mounts_before = mounts_below(&lab.directory)?;
    // What the first boxes allocate for good is not theirs.
    let first = lab.create_by(&engine, &lab.spec())?;
    lab.run_in(&first.inner, &[TRUE])?;

    let memory_before = accounting.bytes(&engine, &[]);
    let available_before = available_bytes()?;
    let mut boxes: Vec<EngineBox> = Vec::new();
    let started = Instant::now();
    for index in 0..count {
        if index % 100 == 0 {
            eprintln!("many: {index} of {count} boxes");
        }
        boxes.push(lab.create_by(&engine, &lab.spec())?);
    }
    let creating = started.elapsed();
    let memory_after = accounting.bytes(&engine, &boxes);
    let available_after = available_bytes()?;

    let mut random = Random::new();
    let mut execs = Samples::default();
    for _ in 0..EXECS.min(count) {
        if let Some(chosen) = boxes.get(random.below(boxes.len())) {
            let started = Instant::now();
            lab.run_in(&chosen.inner, &[TRUE])?;
            execs.push(started.elapsed());
        }
    }
    let ids: Vec<(String, i32)> = boxes
        .iter()
        .map(|it| (it.inner.id().to_owned(), it.inner.pid()))
        .collect();
    let started = Instant::now();
    for made in boxes {
        made.end()?;
    }
    let removing = started.elapsed();
    first.end()?;

    let per_box = |bytes: u64| kibibytes(bytes) / per(count);
    let available = per_box(available_before.saturating_sub(available_after));
    let mut lines = vec![
        ("boxes alive".to_owned(), count.to_string()),
        (
            "made per second, one thread".to_owned(),
            three_digits(rate(count, creating)),
        ),
        (
            "removed per second, layers included".to_owned(),
            three_digits(rate(count, removing)),
        ),
        (
            "KiB per idle box, by `MemAvailable` of the whole machine".to_owned(),
            three_digits(available),
        ),
    ];
    report.value("memory-available-kib", available);
    match (memory_before, memory_after) {
        (Some(before), Some(after)) => {
            let counted = per_box(after.saturating_sub(before));
            report.value("memory-kib", counted);
            lines.push((
                format!("KiB per idle box, by {}", accounting.description()),
                three_digits(counted),
            ));
        }
        (None, _) | (_, None) => report.value("memory-kib", available),
    }
    if let Some(summary) = execs.summary() {
        let text = format!(
            "{} / {} / {}",
            three_digits(summary.p10_ms),
            three_digits(summary.p50_ms),
            three_digits(summary.p99_ms)
        );
        lines.push((
            "`/bin/true` among them, ms p10 / p50 / p99".to_owned(),
            text,
        ));
    }
    let mounts_after = mounts_below(&lab.directory)?;
    let left = Left {
        groups: left_groups(&engine, &ids)?,
        processes: ids.iter().filter(|(_, pid)| is_init(*pid)).count(),
        mounts: mounts_after.saturating_sub(mounts_before),
    };
    let total = left.groups + left.processes + left.mounts;
    lines.push((
        "left after removal: groups, processes, mounts".to_owned(),
        format!("{}, {}, {}", left.groups, left.processes, left.mounts),
    ));
    drop(engine);
    drop(accounting);

    let mut text = "\n### Many boxes\n\n| | |\n|---|--:|\n".to_owned();
    for (name, value) in lines {
        text.push_str(&format!("| {name} | {value} |\n"));
    }
    report.say(&text);
    report.value("creation-rate", rate(count, creating));
    report.value("left", f64::from(u32::try_from(total).unwrap_or(u32::MAX)));
    report.keep(Measured {
        row: Row {
            key: "exec-among-many".into(),
            title: format!("`/bin/true` among {count} boxes"),
        },
        samples: execs,
    });
    report.promise(
        "memory per idle box, under 512 KiB",
        "memory-kib",
        1.0,
        Against::Value(512.0, "KiB"),
    );
    report.promise(
        "nothing left after removal",
        "left",
        1.0,
        Against::Value(0.0, "things"),
    );
    Ok(())
}

/// What removal should not leave.
struct Left {
    groups: usize,
    processes: usize,
    mounts: usize,
}

fn allow_descriptors(count: usize) -> Result<()> {
    let wanted = u64::try_from(count * DESCRIPTORS_PER_BOX + DESCRIPTORS_MORE)?;
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(())
}

fn left_groups(engine: &Engine, ids: &[(String, i32)]) -> Result<usize> {
    let names = engine.hierarchy().list()?;
    Ok(ids.iter().filter(|(id, _)| names.contains(id)).count())
}

fn is_init(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "holm-init")
}

/// Mounts of this namespace that have to do with our folder.
fn mounts_below(folder: &Path) -> Result<usize> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let folder = folder.to_string_lossy();
    Ok(mounts
        .lines()
        .filter(|line| line.contains(&*folder))
        .count())
}

fn rate(count: usize, time: Duration) -> f64 {
    per(count) / (milliseconds(time) / 1_000.0)
}

fn per(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn kibibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1_024).unwrap_or(u32::MAX))
}
