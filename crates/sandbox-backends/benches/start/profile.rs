//! `--profile-cold`: where the time of a cold start goes, phase by phase, and what each part of a box
//! costs by leaving it out. Beside it the same phases of the floor, timed from inside.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holm_sandbox_linux::{Base, BoxSpec, HostBase, Limits, Network, Profile};

use crate::helper::Helper;
use crate::lab::{LIMITS, Lab, TRUE, make};
use crate::report::Report;
use crate::schedule::{Case, Rounds, measure};

/// Rows of the floor, in the order in which it answers after the whole.
const FLOOR_PHASES: [(&str, &str); 10] = [
    ("floor-all", "the whole"),
    ("floor-layers", "make layers"),
    ("floor-clone3", "clone3 of the namespaces"),
    ("floor-overlay", "private mounts, overlay root"),
    ("floor-binds", "read-only binds of the system"),
    ("floor-kernel", "proc, tmpfs, dev, devpts"),
    ("floor-lo", "loopback, host name"),
    ("floor-pivot", "cgroup namespace, pivot_root, detach"),
    ("floor-power", "capabilities, no_new_privs"),
    (
        "floor-true",
        "exec of `/bin/true`, exit, end of the namespaces",
    ),
];

const PHASES: [(&str, &str); 9] = [
    ("folder", "make the box's folder"),
    (
        "prepare",
        "`Engine::prepare`: layers, groups, clone3, base steps",
    ),
    ("claim", "`Engine::claim`: limits, final steps"),
    ("start", "first `LinuxBox::start`, until the program runs"),
    ("wait", "first wait, until it has ended"),
    ("start-again", "second `LinuxBox::start`"),
    ("wait-again", "second wait"),
    (
        "stop",
        "`LinuxBox::stop`: end of the namespaces, groups removed",
    ),
    ("remove", "remove the layers"),
];

/// A row, and what it leaves out of a box.
type Variant = (&'static str, &'static str, fn(&mut BoxSpec));

const VARIANTS: [Variant; 7] = [
    ("all", "create: everything", |_| {}),
    ("no-limits", "create: without limits", without_limits),
    (
        "host-network",
        "create: the host's network",
        without_network,
    ),
    ("no-toolchains", "create: no toolchains", without_toolchains),
    ("no-optional", "create: no `/opt`", without_optional),
    (
        "nested",
        "create: profile `nested` (no masks in `/proc`)",
        without_masks,
    ),
    ("least", "create: none of these", |spec| {
        without_limits(spec);
        without_network(spec);
        without_toolchains(spec);
        without_optional(spec);
        without_masks(spec);
    }),
];

fn without_limits(spec: &mut BoxSpec) {
    spec.limits = Limits::default();
}

fn without_network(spec: &mut BoxSpec) {
    spec.network = Network::Host;
}

fn without_toolchains(spec: &mut BoxSpec) {
    host_base(spec, |base| base.toolchains.clear());
}

fn without_optional(spec: &mut BoxSpec) {
    host_base(spec, |base| base.optional.clear());
}

fn host_base(spec: &mut BoxSpec, change: impl FnOnce(&mut HostBase)) {
    match &mut spec.base {
        Base::Host(base) => change(base),
        Base::Image(_) => {}
    }
}

fn without_masks(spec: &mut BoxSpec) {
    spec.profile = Profile::Nested;
}

pub(crate) fn run(lab: &Lab, rounds: usize, report: &mut Report) -> Result<()> {
    let mut cases = vec![
        phases(lab),
        groups(lab, "groups", "groups with limits: make and remove", LIMITS),
    ];
    cases.push(groups(
        lab,
        "groups-bare",
        "groups without limits: make and remove",
        Limits::default(),
    ));
    if rustix::process::geteuid().is_root() {
        let mut floor =
            Helper::start(Command::new(&lab.floor).arg("phases").arg(lab.floor_data()))?;
        cases.push(Case::with_rows(&FLOOR_PHASES, Rounds::All, move || {
            let numbers = floor.ask("box")?;
            Ok(numbers.into_iter().map(Duration::from_nanos).collect())
        }));
    }
    let measured = measure("phases", cases, rounds, &mut report.notes);
    let (floor, own) = measured
        .into_iter()
        .partition(|row| row.row.key.starts_with("floor-"));
    report.table_as_is("Phases of a box (ms)", own, &[]);
    report.table_as_is("Phases of the floor (ms)", floor, &[]);

    let cases = VARIANTS
        .into_iter()
        .map(|(key, title, change)| {
            Case::new(key, title, Rounds::All, move || {
                let mut spec = lab.spec();
                change(&mut spec);
                let started = Instant::now();
                let made = lab.create(&spec)?;
                let elapsed = started.elapsed();
                made.end()?;
                Ok(elapsed)
            })
        })
        .collect();
    let measured = measure("variants", cases, rounds, &mut report.notes);
    report.table_as_is(
        "`Engine::create`, by what is left out (ms)",
        measured,
        &[("all", "everything")],
    );
    Ok(())
}

fn phases(lab: &Lab) -> Case<'_> {
    Case::with_rows(&PHASES, Rounds::All, || {
        let spec = lab.spec();
        let engine = lab.runtime.engine();
        let mut clock = Clock::start();
        make(&spec.directory)?;
        clock.lap();
        let prepared = engine.prepare(holm_sandbox_linux::PreparedSpec::from(&spec))?;
        clock.lap();
        let made = engine.claim(prepared, &spec)?;
        clock.lap();
        for _ in 0..2 {
            let job = lab.start_in(&made, &[TRUE])?;
            clock.lap();
            job.wait()?;
            clock.lap();
        }
        made.stop()?;
        clock.lap();
        crate::lab::remove(&spec.directory)?;
        clock.lap();
        Ok(clock.laps)
    })
}

fn groups<'a>(lab: &'a Lab, key: &str, title: &str, limits: Limits) -> Case<'a> {
    Case::new(key, title, Rounds::All, move || {
        let id = lab.spec().id;
        let started = Instant::now();
        let hierarchy = lab.runtime.engine().hierarchy();
        let group = hierarchy.create(&id, &limits).context("make groups")?;
        group.remove().context("remove groups")?;
        Ok(started.elapsed())
    })
}

/// Laps of a stop watch.
struct Clock {
    last: Instant,
    laps: Vec<Duration>,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    fn lap(&mut self) {
        let now = Instant::now();
        self.laps.push(now - self.last);
        self.last = now;
    }
}
