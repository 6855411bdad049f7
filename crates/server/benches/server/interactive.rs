//! From the wish for a sandbox to the output of its first command.

use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::floor::{BareServer, spawn_true, timed};
use crate::http::Connection;
use crate::report::{Report, Samples};
use crate::subject::{Subject, create, delete, execute};

const WARM_UP_ROUNDS: usize = 3;
const BURSTS: [usize; 2] = [50, 100];

pub(crate) fn run(subject: &Subject, rounds: usize, report: &mut Report) -> Result<()> {
    let bare = BareServer::start()?;
    let mut bare_connection = bare.connect()?;
    let mut connection = subject.connect()?;
    let [mut spawn, mut health, mut created, mut whole] = <[Samples; 4]>::default();
    for round in 0..WARM_UP_ROUNDS + rounds {
        let spawned = spawn_true()?;
        let answered = timed(|| bare_connection.fetch("/health"))?;
        let begun = Instant::now();
        let id = create(&mut connection)?;
        let made = begun.elapsed();
        first_output(&mut connection, &id)?;
        let finished = begun.elapsed();
        delete(&mut connection, &id)?;
        if round >= WARM_UP_ROUNDS {
            spawn.push(spawned);
            health.push(answered);
            created.push(made);
            whole.push(finished);
        }
    }
    bare.stop();
    report.times(
        "Create to first output, one after the other",
        &[
            ("posix_spawn of `/bin/true`", &spawn),
            ("bare axum, `GET /health`", &health),
            ("**Holm**, `POST /sandbox`", &created),
            ("**Holm**, create to a command's output", &whole),
        ],
        0,
    );
    report.promise(
        "median from create to first output over HTTP, ms",
        whole.percentile(50),
        25.0,
    );
    let mut rows = Vec::new();
    for size in BURSTS {
        let (samples, seconds, failures) = burst(subject, size, report);
        report.promise(
            &format!("failures in a burst of {size}"),
            failures as f64,
            0.0,
        );
        rows.push((
            format!("burst of {size}, all there after {seconds:.2} s"),
            samples,
        ));
    }
    let rows: Vec<(&str, &Samples)> = rows
        .iter()
        .map(|(name, samples)| (name.as_str(), samples))
        .collect();
    report.times("Create to first output, all at once", &rows, 0);
    Ok(())
}

fn first_output(connection: &mut Connection, id: &str) -> Result<()> {
    match execute(connection, id, "echo ready")?.as_str() {
        "ready\n" => Ok(()),
        other => bail!("`echo ready` said {other:?}"),
    }
}

/// As many clients at once, each with a connection and a sandbox of its own.
fn burst(subject: &Subject, size: usize, report: &mut Report) -> (Samples, f64, usize) {
    let barrier = Barrier::new(size + 1);
    let (outcomes, seconds) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..size)
            .map(|_| {
                scope.spawn(|| {
                    let connection = subject.connect();
                    barrier.wait();
                    let begun = Instant::now();
                    let mut connection = connection?;
                    let id = create(&mut connection)?;
                    first_output(&mut connection, &id)?;
                    anyhow::Ok((begun.elapsed(), id))
                })
            })
            .collect();
        barrier.wait();
        let begun = Instant::now();
        let outcomes: Vec<_> = clients.into_iter().map(ScopedJoinHandle::join).collect();
        (outcomes, begun.elapsed().as_secs_f64())
    });
    let mut samples = Samples::default();
    let mut failures = 0;
    for outcome in outcomes {
        match outcome {
            Ok(Ok((took, id))) => {
                samples.push(took);
                let deleted = subject
                    .connect()
                    .and_then(|mut connection| delete(&mut connection, &id));
                if let Err(error) = deleted {
                    report.note(format!("a sandbox stays: {error:#}"));
                }
            }
            Ok(Err(error)) => {
                failures += 1;
                report.note(format!("in a burst of {size}: {error:#}"));
            }
            Err(_) => failures += 1,
        }
    }
    (samples, seconds, failures)
}
