//! Sandboxes that outlive their creator, by design or by accident.

use std::path::Path;
use std::sync::Arc;

use holm_sandbox::{ErrorKind, UncommittedWork};
use holm_sandbox_backends::local::{
    CreateOptions, IsolationChoice, LocalRuntime, Nesting, Source, State,
};
use holm_testkit::TestRepository;

use crate::support::{
    COMMIT_ALL, Child, TestHost, Use, child_scene, on_repository, staying, told, wait_until,
};

const CHILD: &str = "kernel::unprivileged::lifecycle::child";

#[test]
#[ignore = "started by other tests, to be killed"]
fn child() {
    let (scene, folder, repository) = child_scene();
    let isolation = match scene.as_str() {
        "none" => IsolationChoice::None,
        _ => IsolationChoice::Namespaces,
    };
    let config = crate::support::config_in(&folder);
    let runtime = LocalRuntime::start(config).unwrap();
    let sandbox = runtime
        .create(&on_repository(isolation, &repository, "orphan"))
        .unwrap();
    sandbox.sh("git config user.name Agent; git config user.email agent@example.org");
    sandbox.sh(&format!(
        "echo c > committed; {COMMIT_ALL} -m committed; echo l > loose"
    ));
    told("working");
    drop(sandbox.try_sh("sleep 54321"));
}

fn orphaned(scene: &str) -> (TestHost, TestRepository) {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let mut child = Child::start(CHILD, scene, host.folder.path(), repository.path());
    assert_eq!(child.hear(), "working");
    // As long as its creator lives, nobody touches it.
    assert_eq!(host.runtime.reap().unwrap().len(), 0);
    child.kill();
    (host, repository)
}

fn assert_saved(repository: &TestRepository) {
    assert_eq!(repository.file_at("orphan", "committed"), b"c\n");
    assert_eq!(repository.file_at("orphan", "loose"), b"l\n");
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
    repository.assert_sound();
}

#[test]
fn the_work_of_a_killed_creator_is_saved_by_the_next_call() {
    for scene in ["namespaces", "none"] {
        let (host, repository) = orphaned(scene);
        let mut reaped = Vec::new();
        // A command that was just being started may hold its creator's locks a moment longer.
        wait_until("the sandbox is reaped", || {
            reaped.extend(host.runtime.reap().unwrap());
            !reaped.is_empty()
        });
        assert_eq!(reaped.len(), 1, "{scene}");
        assert!(reaped[0].report.warnings.is_empty(), "{reaped:?}");
        assert_eq!(reaped[0].report.branches[0].name, "orphan");
        assert_saved(&repository);
        assert_eq!(host.runtime.reap().unwrap().len(), 0);
        host.assert_nothing_is_left();
    }
}

#[test]
fn two_reapers_at_once_save_it_once() {
    let (host, repository) = orphaned("namespaces");
    let second = host.second_runtime();
    let count = |runtime: &Arc<LocalRuntime>| runtime.reap().unwrap().len();
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| count(&host.runtime));
        let two = scope.spawn(|| count(&second));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(one + two, 1);
    assert_saved(&repository);
    assert_eq!(repository.branches(), ["main", "orphan"]);
    host.assert_nothing_is_left();
}

#[test]
fn reaping_while_others_are_made_disturbs_nobody() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let second = host.second_runtime();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(second.reap().unwrap().len(), 0);
            }
        });
        for number in 0..10 {
            let sandbox = host.boxed(&repository, &format!("busy-{number}"));
            sandbox.sh("echo x > x");
            sandbox.end_cleanly();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    host.assert_nothing_is_left();
}

#[test]
fn a_dropped_sandbox_is_saved_by_the_next_call() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "dropped");
    sandbox.sh("echo x > x");
    drop(sandbox);
    assert_eq!(host.runtime.reap().unwrap().len(), 1);
    assert_eq!(repository.file_at("dropped", "x"), b"x\n");
    host.assert_nothing_is_left();
}

fn create_staying(host: &TestHost, repository: &TestRepository) {
    let options = on_repository(IsolationChoice::Namespaces, repository.path(), "stay");
    let sandbox = host.runtime.create(&staying(options, "web")).unwrap();
    sandbox.sh("echo work > file; echo more > /home/holm/elsewhere");
}

fn init_of(runtime: &LocalRuntime) -> i32 {
    runtime.list().unwrap()[0].record.init.unwrap().process.pid
}

#[test]
fn a_sandbox_that_stays_is_used_by_later_calls() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    create_staying(&host, &repository);
    assert_eq!(host.runtime.reap().unwrap().len(), 0);
    let later = host.second_runtime();
    let listed = later.list().unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, State::Running));
    assert_eq!(listed[0].record.title(), "web");
    let sandbox = later.open("web").unwrap();
    assert_eq!(
        sandbox.sh("cat file /home/holm/elsewhere; git branch --show-current"),
        "work\nmore\nstay"
    );
    assert_eq!(sandbox.read_blocking(Path::new("file")).unwrap(), b"work\n");
    drop(sandbox);
    // Its processes live between the calls.
    later
        .open("web")
        .unwrap()
        .sh("sleep 43210 >/dev/null 2>&1 & echo $! > pid");
    let again = host.runtime.open("web").unwrap();
    again.sh("kill -0 $(cat pid)");
    let report = later.remove("web", UncommittedWork::Keep).unwrap();
    assert!(report.warnings.is_empty(), "{report:?}");
    assert_eq!(repository.file_at("stay", "file"), b"work\n");
    assert_eq!(later.list().unwrap(), []);
    host.assert_nothing_is_left();
}

#[test]
fn a_sandbox_that_stays_starts_again_after_its_box_was_killed() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    create_staying(&host, &repository);
    let pid = rustix::process::Pid::from_raw(init_of(&host.runtime)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("the box has ended", || {
        host.runtime.list().unwrap()[0].state == State::Stopped
    });
    let later = host.second_runtime();
    let sandbox = later.open("web").unwrap();
    assert_eq!(
        sandbox.sh("cat file /home/holm/elsewhere; git status --porcelain"),
        "work\nmore\n?? file"
    );
    assert_eq!(later.list().unwrap()[0].state, State::Running);
    sandbox.sh(&format!("{COMMIT_ALL} -m again"));
    later.remove("web", UncommittedWork::Keep).unwrap();
    assert_eq!(repository.file_at("stay", "file"), b"work\n");
    host.assert_nothing_is_left();
}

#[test]
fn a_stopped_sandbox_is_removed_without_loss() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    create_staying(&host, &repository);
    let pid = rustix::process::Pid::from_raw(init_of(&host.runtime)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("the box has ended", || {
        host.runtime.list().unwrap()[0].state == State::Stopped
    });
    let report = host.runtime.remove("web", UncommittedWork::Keep).unwrap();
    assert!(report.warnings.is_empty(), "{report:?}");
    assert_eq!(repository.file_at("stay", "file"), b"work\n");
    host.assert_nothing_is_left();
}

#[test]
fn opening_a_stopped_sandbox_twice_at_once_starts_one_box() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    create_staying(&host, &repository);
    let pid = rustix::process::Pid::from_raw(init_of(&host.runtime)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("the box has ended", || {
        host.runtime.list().unwrap()[0].state == State::Stopped
    });
    let second = host.second_runtime();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            host.runtime
                .open("web")
                .unwrap()
                .sh("echo 1 > one; readlink /proc/self/ns/pid")
        });
        let two = scope.spawn(|| {
            second
                .open("web")
                .unwrap()
                .sh("echo 2 > two; readlink /proc/self/ns/pid")
        });
        assert_eq!(
            one.join().unwrap(),
            two.join().unwrap(),
            "two boxes on the same files"
        );
    });
    assert_eq!(host.runtime.open("web").unwrap().sh("cat one two"), "1\n2");
    host.runtime
        .remove("web", UncommittedWork::Discard)
        .unwrap();
    host.assert_nothing_is_left();
}

#[test]
fn sandboxes_of_other_kinds_stay_too() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let plain = on_repository(IsolationChoice::None, repository.path(), "plain");
    host.runtime.create(&staying(plain, "plain")).unwrap();
    let empty = CreateOptions {
        isolation: IsolationChoice::Namespaces,
        ..CreateOptions::default()
    };
    host.runtime.create(&staying(empty, "empty")).unwrap();
    let later = host.second_runtime();
    for name in ["plain", "empty"] {
        later.open(name).unwrap().sh("echo kept > file");
        assert_eq!(host.runtime.open(name).unwrap().sh("cat file"), "kept");
    }
    let mut states: Vec<_> = later
        .list()
        .unwrap()
        .iter()
        .map(|listed| listed.state)
        .collect();
    states.sort_by_key(|state| format!("{state:?}"));
    assert_eq!(states, [State::Plain, State::Running]);
    for name in ["plain", "empty"] {
        let report = later.remove(name, UncommittedWork::Keep).unwrap();
        assert!(report.warnings.is_empty(), "{report:?}");
    }
    assert_eq!(repository.file_at("plain", "file"), b"kept\n");
    host.assert_nothing_is_left();
}

#[test]
fn names_are_unique_and_plain() {
    let host = TestHost::new();
    let options = |name: &str| staying(CreateOptions::default(), name);
    host.runtime.create(&options("taken")).unwrap();
    for name in ["taken", "", "a b", "../x", "-x", ".x", &"x".repeat(64)] {
        let error = host.runtime.create(&options(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}: {error}");
    }
    let error = host.runtime.open("missing").unwrap_err();
    assert_eq!(error.to_string(), "there is no sandbox named `missing`");
    let error = host
        .runtime
        .remove("missing", UncommittedWork::Keep)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    host.runtime.remove("taken", UncommittedWork::Keep).unwrap();
    host.assert_nothing_is_left();
}

#[test]
fn a_throwaway_sandbox_is_nobody_elses() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "mine");
    let id = sandbox.record().run_id.to_string();
    let error = host.second_runtime().open(&id).unwrap_err();
    assert!(error.to_string().contains("still running"), "{error}");
    sandbox.end_cleanly();
}

#[test]
fn what_happens_in_an_empty_sandbox_stays_there() {
    let host = TestHost::new();
    let options = CreateOptions {
        source: Source::Empty,
        isolation: IsolationChoice::Namespaces,
        nesting: Nesting::Allowed,
        ..CreateOptions::default()
    };
    let sandbox = host.runtime.create(&options).unwrap();
    assert_eq!(sandbox.sh("ls -A; echo x > x; cat x"), "x");
    sandbox.end_cleanly();
    host.assert_nothing_is_left();
}
