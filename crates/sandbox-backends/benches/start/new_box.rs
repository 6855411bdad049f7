//! A: from nothing to `/bin/true` finished in a new box.

use std::cell::RefCell;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use holm_sandbox::{Exec, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice, Source};

use crate::helper::Helper;
use crate::lab::{LIMITS, Lab, TRUE, time_process};
use crate::peers::Peers;
use crate::report::{Against, Report};
use crate::schedule::{Case, Rounds, measure};

pub(crate) fn run(
    lab: &Lab,
    peers: Option<&RefCell<Peers>>,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    let mut cases = vec![
        Case::new("spawn", "posix_spawn of `/bin/true`", Rounds::All, || {
            time_process(&mut Command::new(TRUE))
        }),
        engine_cold(lab),
        engine_prepared(lab),
        local_runtime(lab),
        local_pool(lab),
    ];
    cases.extend(floor(lab)?);
    match &lab.holm {
        Some(holm) => cases.push(Case::new(
            "holm-exec",
            "**`holm exec -- /bin/true`**, whole process, with teardown",
            Rounds::All,
            || time_process(&mut lab.holm_command(holm, &["exec", "--", TRUE])),
        )),
        None => report
            .notes
            .push("`holm` is not built: its rows are missing".into()),
    }
    if let Some(peers) = peers {
        cases.extend(Peers::new_box_cases(peers));
    }
    let measured = measure("new box", cases, rounds, &mut report.notes);
    report.table(
        "New box to `/bin/true` finished (ms)",
        measured,
        &[
            ("spawn", "posix_spawn"),
            ("floor", "floor"),
            ("bwrap", "bwrap"),
        ],
    );
    report.promise(
        "prepared box, at most 2x posix_spawn",
        "prepared",
        2.0,
        Against::Row("spawn"),
    );
    report.promise(
        "cold box, at most bubblewrap",
        "cold",
        1.0,
        Against::Row("bwrap"),
    );
    report.promise(
        "`holm exec`, at most 1.5x bubblewrap",
        "holm-exec",
        1.5,
        Against::Row("bwrap"),
    );
    report.promise(
        "`holm exec`, faster than crun",
        "holm-exec",
        1.0,
        Against::Row("crun"),
    );
    Ok(())
}

fn engine_cold(lab: &Lab) -> Case<'_> {
    Case::new(
        "cold",
        "**Holm engine, cold**, all isolation and limits",
        Rounds::All,
        || {
            let spec = lab.spec();
            let started = Instant::now();
            let made = lab.create(&spec)?;
            lab.run_in(&made.inner, &[TRUE])?;
            let elapsed = started.elapsed();
            made.end()?;
            Ok(elapsed)
        },
    )
}

fn engine_prepared(lab: &Lab) -> Case<'_> {
    Case::new(
        "prepared",
        "**Holm engine, prepared**, all isolation and limits",
        Rounds::All,
        || {
            let (made, started) = lab.create_prepared(&lab.spec())?;
            lab.run_in(&made.inner, &[TRUE])?;
            let elapsed = started.elapsed();
            made.end()?;
            Ok(elapsed)
        },
    )
}

fn local_options() -> CreateOptions {
    CreateOptions {
        source: Source::Empty,
        isolation: IsolationChoice::Namespaces,
        limits: LIMITS,
        ..CreateOptions::default()
    }
}

fn local_pool(lab: &Lab) -> Case<'_> {
    let title = "**Holm local backend, from its pool**, empty folder, without teardown";
    Case::new("local-pool", title, Rounds::All, move || {
        lab.await_pool()?;
        let started = Instant::now();
        let sandbox = lab.pooled.create(&local_options())?;
        let outcome = sandbox.exec_blocking(Exec::new([TRUE]), None)?;
        let elapsed = started.elapsed();
        drop(sandbox.teardown_blocking(UncommittedWork::Discard));
        ensure!(outcome.exit_code == 0, "exit code {}", outcome.exit_code);
        Ok(elapsed)
    })
}

fn local_runtime(lab: &Lab) -> Case<'_> {
    Case::with_rows(
        &[
            (
                "local",
                "**Holm local backend**, empty folder, without teardown",
            ),
            (
                "local-teardown",
                "**Holm local backend**, empty folder, with teardown",
            ),
        ],
        Rounds::All,
        move || {
            let started = Instant::now();
            let sandbox = lab.runtime.create(&local_options())?;
            let outcome = sandbox.exec_blocking(Exec::new([TRUE]), None)?;
            let used = started.elapsed();
            drop(sandbox.teardown_blocking(UncommittedWork::Discard));
            let ended = started.elapsed();
            ensure!(outcome.exit_code == 0, "exit code {}", outcome.exit_code);
            Ok(vec![used, ended])
        },
    )
}

/// The same namespaces and mounts by the barest program: only root can make them without more.
fn floor(lab: &Lab) -> Result<Vec<Case<'_>>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Vec::new());
    }
    let mut server = Helper::start(Command::new(&lab.floor).arg("serve").arg(lab.floor_data()))?;
    let process_data = lab.directory.join("floor-process-data");
    crate::lab::make_skeleton(&process_data.join("skeleton"))?;
    Ok(vec![
        Case::new(
            "floor",
            "floor: same namespaces and mounts in bare C, from a running process",
            Rounds::All,
            move || server.make_box(),
        ),
        Case::new(
            "floor-process",
            "floor as a whole process, with teardown",
            Rounds::All,
            move || time_process(Command::new(&lab.floor).arg("once").arg(&process_data)),
        ),
    ])
}
