//! B: a command in a sandbox that is already there.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use holm_sandbox::{Exec, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice};

use crate::lab::{LIMITS, Lab, TRUE, run_quietly, time_process};
use crate::peers::Peers;
use crate::report::{Against, Report};
use crate::schedule::{Case, Rounds, measure};

/// The name of the CLI's sandbox.
const KEPT: &str = "holm-bench-living";

pub(crate) fn run(
    lab: &Lab,
    peers: Option<&RefCell<Peers>>,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    let made = lab.create(&lab.spec())?;
    let sandbox = lab.runtime.create(&CreateOptions {
        isolation: IsolationChoice::Namespaces,
        limits: LIMITS,
        ..CreateOptions::default()
    })?;
    let mut cases = vec![
        Case::new(
            "plain",
            "posix_spawn of the same command, outside",
            Rounds::All,
            || time_process(&mut Command::new(TRUE)),
        ),
        Case::new(
            "engine-exec",
            "**Holm engine**: `LinuxBox::start` and wait",
            Rounds::All,
            || {
                let started = Instant::now();
                lab.run_in(&made.inner, &[TRUE])?;
                Ok(started.elapsed())
            },
        ),
        Case::new(
            "local-exec",
            "**Holm local backend**: `exec_blocking`, output captured",
            Rounds::All,
            || {
                let started = Instant::now();
                let outcome = sandbox.exec_blocking(Exec::new([TRUE]), None)?;
                ensure!(outcome.exit_code == 0, "exit code {}", outcome.exit_code);
                Ok(started.elapsed())
            },
        ),
    ];
    if rustix::process::geteuid().is_root() {
        let pid = made.inner.pid().to_string();
        cases.push(Case::new(
            "nsenter",
            "nsenter(1) into Holm's box",
            Rounds::All,
            move || {
                time_process(
                    Command::new("nsenter")
                        .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--target"])
                        .args([&pid, TRUE]),
                )
            },
        ));
    }
    let kept = Kept::make(lab, report);
    if let Some(kept) = &kept {
        cases.push(Case::new(
            "holm-sandbox-exec",
            "**`holm sandbox exec`**, whole process",
            Rounds::All,
            || time_process(&mut kept.command(&["sandbox", "exec", KEPT, "--", TRUE])),
        ));
    }
    if let Some(peers) = peers {
        cases.extend(Peers::living_cases(peers, &mut report.notes));
    }
    let measured = measure("living sandbox", cases, rounds, &mut report.notes);
    if let Some(peers) = peers {
        peers.borrow_mut().end_living(&mut report.notes);
    }
    if let Some(kept) = kept
        && let Err(error) = run_quietly(&mut kept.command(&["sandbox", "rm", KEPT]))
    {
        report.notes.push(format!("`holm sandbox rm`: {error:#}"));
    }
    report.table(
        "`/bin/true` in a living sandbox (ms)",
        measured,
        &[("plain", "posix_spawn")],
    );
    report.promise(
        "command in a living sandbox (engine), at most 1.5x posix_spawn",
        "engine-exec",
        1.5,
        Against::Row("plain"),
    );
    report.promise(
        "command in a living sandbox (backend, output captured), at most 1.5x posix_spawn",
        "local-exec",
        1.5,
        Against::Row("plain"),
    );
    drop(sandbox.teardown_blocking(UncommittedWork::Discard));
    made.end()
}

/// A sandbox that stays, made by the CLI.
struct Kept<'a> {
    lab: &'a Lab,
    holm: &'a Path,
}

impl<'a> Kept<'a> {
    fn make(lab: &'a Lab, report: &mut Report) -> Option<Self> {
        let holm = lab.holm.as_deref()?;
        let kept = Self { lab, holm };
        let arguments = ["sandbox", "create", "--name", KEPT];
        match run_quietly(&mut kept.command(&arguments)) {
            Ok(_) => Some(kept),
            Err(error) => {
                let note = format!("`holm sandbox exec`: left out: {error:#}");
                report.notes.push(note);
                None
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.lab.holm_command(self.holm, arguments)
    }
}
