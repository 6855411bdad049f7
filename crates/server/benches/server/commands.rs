//! Commands in a living sandbox: one after the other, and from many clients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::floor::{BareServer, spawn_true, timed};
use crate::report::{Report, Samples, three_digits};
use crate::subject::{Subject, create, delete, execute};

const CLIENTS: [usize; 3] = [1, 10, 100];
const WINDOW: Duration = Duration::from_secs(5);

pub(crate) fn run(subject: &Subject, rounds: usize, report: &mut Report) -> Result<()> {
    let mut connection = subject.connect()?;
    let id = create(&mut connection)?;
    let bare = BareServer::start()?;
    let mut bare_connection = bare.connect()?;
    let [mut spawn, mut answer, mut health, mut command] = <[Samples; 4]>::default();
    for _ in 0..rounds {
        spawn.push(spawn_true()?);
        answer.push(timed(|| bare_connection.fetch("/health"))?);
        health.push(timed(|| connection.fetch("/health"))?);
        command.push(timed(|| execute(&mut connection, &id, "true"))?);
    }
    bare.stop();
    report.times(
        "A command in a living sandbox, over HTTP",
        &[
            ("posix_spawn of `/bin/true`", &spawn),
            ("bare axum, `GET /health`", &answer),
            ("**Holm**, `GET /health`", &health),
            (
                "**Holm**, `POST /process/execute` of `true` by a shell",
                &command,
            ),
        ],
        0,
    );
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let per_second = throughput(subject, &id, clients, report);
        rows.push((
            format!("commands per second, {clients} clients"),
            three_digits(per_second),
        ));
    }
    report.values("Commands per second in one sandbox", &rows);
    delete(&mut connection, &id)
}

/// How many commands a second all clients together get done.
fn throughput(subject: &Subject, id: &str, clients: usize, report: &mut Report) -> f64 {
    let (done, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let failures: Vec<anyhow::Error> = std::thread::scope(|scope| {
        let work = || {
            let mut connection = subject.connect()?;
            while !ends.load(Ordering::Relaxed) {
                execute(&mut connection, id, "true")?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        // Parking may end early.
        while begun.elapsed() < WINDOW {
            std::thread::park_timeout(WINDOW.saturating_sub(begun.elapsed()));
        }
        ends.store(true, Ordering::Relaxed);
        let ended = clients.into_iter().map(ScopedJoinHandle::join);
        ended.filter_map(|ended| ended.ok()?.err()).collect()
    });
    for failure in failures {
        report.note(format!("with {clients} clients: {failure:#}"));
    }
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
