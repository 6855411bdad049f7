//! Limits that a caller asks for are those of the box.

use holm_sandbox_backends::local::{CreateOptions, IsolationChoice};
use holm_sandbox_linux::Limits;

use super::is_skipped;
use crate::support::{TestHost, Use, staying};

fn limited(limits: Limits) -> CreateOptions {
    CreateOptions {
        isolation: IsolationChoice::Namespaces,
        limits,
        ..CreateOptions::default()
    }
}

#[test]
fn a_memory_hog_is_killed_and_the_box_lives_on() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let limits = Limits {
        memory_bytes: Some(64 << 20),
        ..Limits::default()
    };
    let sandbox = host.runtime.create(&limited(limits)).unwrap();
    assert_eq!(sandbox.warnings(), Vec::<String>::new());
    let outcome = sandbox.try_sh("head -c 400M /dev/zero | tail -c 300M | wc -c");
    assert!(!outcome.stdout_text().contains("314572800"), "{outcome:?}");
    assert_eq!(sandbox.sh("echo alive"), "alive");
    sandbox.end_cleanly();
    host.assert_nothing_is_left();
}

#[test]
fn a_fork_bomb_meets_its_limit_and_ends_with_the_box() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let limits = Limits {
        pids: Some(40),
        ..Limits::default()
    };
    let sandbox = host.runtime.create(&limited(limits)).unwrap();
    let exec = holm_sandbox::Exec::new(["bash", "-c", "f() { f | f & }; f; sleep 1000"])
        .timeout(std::time::Duration::from_millis(500));
    let outcome = sandbox.exec_blocking(exec, None).unwrap();
    assert!(!outcome.success(), "{outcome:?}");
    sandbox.end_cleanly();
    host.assert_nothing_is_left();
}

#[test]
fn a_box_that_starts_again_has_the_same_limits() {
    if is_skipped() {
        return;
    }
    let host = TestHost::new();
    let limits = Limits {
        pids: Some(20),
        ..Limits::default()
    };
    let sandbox = host
        .runtime
        .create(&staying(limited(limits), "small"))
        .unwrap();
    let pid = sandbox.linux_box().unwrap().pid();
    drop(sandbox);
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let state = || host.runtime.list().unwrap()[0].state;
    let stopped = holm_sandbox_backends::local::State::Stopped;
    crate::support::wait_until("the box has ended", || state() == stopped);
    let again = host.runtime.open("small").unwrap();
    let outcome = again.try_sh("for i in $(seq 60); do sleep 5 & done; wait");
    assert!(
        outcome.stderr_text().to_lowercase().contains("fork"),
        "{}",
        outcome.stderr_text()
    );
    drop(again);
    host.runtime
        .remove("small", holm_sandbox::UncommittedWork::Discard)
        .unwrap();
    host.assert_nothing_is_left();
}
