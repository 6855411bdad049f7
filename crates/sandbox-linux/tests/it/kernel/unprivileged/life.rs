//! How boxes begin and end, and what they leave behind: nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use holm_sandbox_linux::{Engine, Exit, Lifetime, Limits, LinuxBox, OnDisconnect};
use rustix::process::{Pid, PidfdFlags};

use crate::support::{
    TestBox, TestFolder, command, host_probe, open_descriptors, processes_with, remove_group,
    run_in, shell_with, sleeper, spec, token, wait_until,
};

/// A process of its own that has made a box.
pub(super) struct Creator {
    process: Child,
    id: String,
    init: i32,
}

impl Creator {
    pub(super) fn start(directory: &std::path::Path, script: &str, lifetime: &str) -> Self {
        let argument = format!("{}\n{script}\n{lifetime}", directory.display());
        let mut process = host_probe("creator", &argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (id, init) = line
            .trim()
            .split_once(' ')
            .unwrap_or_else(|| panic!("{line}"));
        Self {
            process,
            id: id.to_owned(),
            init: init.parse().unwrap(),
        }
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Connects to the box as another process would.
    pub(super) fn attach(&self, engine: &Engine, directory: &std::path::Path) -> LinuxBox {
        let process =
            rustix::process::pidfd_open(Pid::from_raw(self.init).unwrap(), PidfdFlags::empty())
                .unwrap();
        // A host that grants no control groups has none to be found again.
        let group = engine.hierarchy().open_existing(&self.id);
        let group = group.or_else(|_| engine.hierarchy().create(&self.id, &Limits::default()));
        LinuxBox::attach(
            &self.id,
            engine.power(),
            &directory.join("socket"),
            self.init,
            process,
            group.unwrap(),
        )
        .unwrap()
    }
}

fn exists(pid: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie that nobody has reaped yet does nothing any more.
    state
        .rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_box_ends_with_a_creator_that_is_killed() {
    // One that listens could still be reached by others, and ends all the same.
    for lifetime in ["bound", "listening"] {
        let directory = TestFolder::new();
        let token = token();
        let script = format!("setsid {} & sleep 1000", sleeper(&token));
        let mut creator = Creator::start(directory.path(), &script, lifetime);
        wait_until("the box is busy", || processes_with(&token).len() == 1);
        assert!(exists(creator.init));
        creator.kill();
        wait_until("init is gone", || !exists(creator.init));
        wait_until("all are gone", || processes_with(&token).is_empty());
        remove_group(&Engine::start().unwrap(), &creator.id);
    }
}

#[test]
fn a_kept_box_outlives_its_creator_and_serves_another_process() {
    let directory = TestFolder::new();
    let token = token();
    let mut creator = Creator::start(
        directory.path(),
        &format!("{} & wait", sleeper(&token)),
        "kept",
    );
    creator.kill();
    assert!(exists(creator.init));
    wait_until("its command goes on", || processes_with(&token).len() == 1);

    let engine = Engine::start().unwrap();
    let attach = || creator.attach(&engine, directory.path());
    let (one, two) = (attach(), attach());
    for inner in [&one, &two] {
        assert!(inner.is_running());
        assert_eq!(
            run_in(inner, &command(&["id", "-u"]), None).success(),
            "1000\n"
        );
    }
    drop(one);
    assert_eq!(
        run_in(&two, &command(&["echo", "still"]), None).success(),
        "still\n"
    );
    two.stop().unwrap();
    assert!(!exists(creator.init));
    assert!(processes_with(&token).is_empty());
}

#[test]
fn stopping_twice_is_stopping_once() {
    let sandbox = TestBox::new();
    sandbox.inner.stop().unwrap();
    assert!(!sandbox.inner.is_running());
    sandbox.inner.stop().unwrap();
}

#[test]
fn a_box_that_is_let_go_of_ends() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.lifetime = Lifetime::UntilStopped;
    let inner = engine.create(&spec).unwrap();
    let init = inner.pid();
    // Nobody could ever reach it again.
    drop(inner);
    wait_until("init is gone", || !exists(init));
    remove_group(&engine, &spec.id);
}

#[test]
fn a_stopped_box_leaves_no_process_and_no_mount() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let sandbox = TestBox::new();
    let token = token();
    let deaf = shell_with("trap \"\" TERM; sleep 1000", &token);
    let script =
        format!("trap '' TERM HUP INT; for i in 1 2 3 4 5; do setsid {deaf} & done; sleep 1000");
    let jobs = [(); 3].map(|()| sandbox.start(&script, OnDisconnect::Keep));
    wait_until("all run", || processes_with(&token).len() == 15);
    sandbox.inner.stop().unwrap();
    // No waiting: when `stop` returns, it is over.
    assert_eq!(processes_with(&token), []);
    for job in jobs {
        assert_eq!(job.wait().unwrap(), Exit::Lost);
    }
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
}

#[test]
fn a_hundred_boxes_leave_no_descriptor_and_no_process() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    let make = |spec: &holm_sandbox_linux::BoxSpec| {
        let inner = engine.create(spec).unwrap();
        assert_eq!(
            run_in(&inner, &command(&["true"]), None).exit,
            Exit::Code(0)
        );
        inner.stop().unwrap();
        inner.pid()
    };
    // The first one makes what is kept for all.
    make(&spec);
    let before = open_descriptors();
    let mut inits = Vec::new();
    for number in 0..100 {
        spec.directory = directory.path().join(format!("box-{number}"));
        fs::create_dir(&spec.directory).unwrap();
        inits.push(make(&spec));
    }
    assert_eq!(open_descriptors(), before);
    wait_until("the last one is reaped", || {
        !inits.iter().any(|pid| exists(*pid))
    });
}

#[test]
fn a_box_that_cannot_be_made_leaves_nothing() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.mounts = vec![holm_sandbox_linux::MountSpec::Bind {
        source: "/no/such/folder".into(),
        place: "/work".into(),
        access: holm_sandbox_linux::Access::ReadOnly,
        owners: holm_sandbox_linux::Owners::AsOnHost,
    }];
    let error = engine.create(&spec).map(|inner| inner.pid()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not show `/no/such/folder` at `/work` in the box"
    );
    let before = open_descriptors();
    for _ in 0..3 {
        engine.create(&spec).map(|inner| inner.pid()).unwrap_err();
    }
    assert_eq!(open_descriptors(), before);
    // The kernel reaps ended boxes by itself, a moment after they are known to have ended.
    wait_until("only the spawner is left", || children().len() == 1);
}

#[test]
fn an_engine_that_is_dropped_takes_its_spawner_along() {
    let before = (open_descriptors(), children());
    let engine = Engine::start().unwrap();
    assert_eq!(children().len(), before.1.len() + 1);
    drop(engine);
    assert_eq!((open_descriptors(), children()), before);
}

#[test]
fn boxes_of_one_engine_are_made_by_many_threads() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let first = spec(&engine, directory.path());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (engine, mut spec) = (&engine, first.clone());
            spec.id = format!("{}-{number}", spec.id);
            spec.directory = directory.path().join(format!("box-{number}"));
            scope.spawn(move || {
                fs::create_dir(&spec.directory).unwrap();
                let inner = engine.create(&spec).unwrap();
                let text = run_in(&inner, &command(&["echo", &spec.id]), None).success();
                assert_eq!(text.trim(), spec.id);
                inner.stop().unwrap();
            });
        }
    });
}

/// The children of this process and theirs, as the kernel lists them.
fn children() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap();
    let mut all: Vec<(i32, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        if let Some(Ok(parent)) = rest.split_ascii_whitespace().nth(1).map(str::parse) {
            all.push((pid, parent));
        }
    }
    let mut found = vec![own];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(
            all.iter()
                .filter(|process| process.1 == parent)
                .map(|process| process.0),
        );
        next += 1;
    }
    found.remove(0);
    found.sort_unstable();
    found
}
