//! Limits that hold: by control groups where the host grants them, otherwise by the user namespace.

use std::time::Duration;

use holm_sandbox_linux::pump::Cause;
use holm_sandbox_linux::{Command, Exit, Limits, OnDisconnect};

use crate::support::{
    TestBox, command, probe_command, probed, processes_with, run_in, start_silent, token,
    wait_until,
};

const PIDS: usize = 60;

fn limited() -> TestBox {
    let sandbox = TestBox::with(|spec| {
        probed(spec);
        spec.limits = Limits {
            pids: u32::try_from(PIDS).ok(),
            ..Limits::default()
        };
    });
    assert!(
        sandbox.inner.unenforced().is_empty(),
        "{:?}",
        sandbox.inner.unenforced()
    );
    sandbox
}

fn bomb(token: &str) -> Command {
    let mut command = probe_command("fork_bomb", "");
    // An option that means nothing here, but stands on the command line of every copy.
    command.argv.push(format!("--skip={token}").into());
    command
}

#[test]
fn a_fork_bomb_stays_below_the_limit_and_ends_with_the_box() {
    let sandbox = limited();
    let token = token();
    let job = start_silent(&sandbox.inner, &bomb(&token)).unwrap();
    wait_until("it has grown to its limit", || {
        processes_with(&token).len() > PIDS - 10
    });
    for _ in 0..20 {
        assert!(processes_with(&token).len() < PIDS);
    }
    sandbox.inner.stop().unwrap();
    assert_eq!(processes_with(&token), []);
    assert_eq!(job.wait().unwrap(), Exit::Lost);
}

#[test]
fn a_fork_bomb_is_ended_by_its_deadline_and_the_box_survives() {
    let sandbox = limited();
    let token = token();
    let output = run_in(
        &sandbox.inner,
        &bomb(&token),
        Some(Duration::from_millis(300)),
    );
    assert_eq!(output.cause, Cause::Deadline);
    wait_until("all are gone", || processes_with(&token).is_empty());
    // The kernel counts the dead until it has taken them down.
    wait_until("there is room again", || {
        start_silent(&sandbox.inner, &command(&["true"])).is_ok()
    });
}

#[test]
fn boxes_do_not_count_each_others_processes() {
    let (one, two) = (limited(), limited());
    let many = format!("for i in $(seq {}); do sleep 1000 & done; wait", PIDS - 10);
    let jobs = [
        one.start(&many, OnDisconnect::Kill),
        two.start(&many, OnDisconnect::Kill),
    ];
    for sandbox in [&one, &two] {
        wait_until("all run", || {
            let count = sandbox.sh("cat /proc/[0-9]*/comm | grep -c sleep").stdout;
            count.trim() == (PIDS - 10).to_string()
        });
    }
    drop(jobs);
}

#[test]
fn limits_are_changed_while_the_box_runs() {
    let sandbox = TestBox::with(probed);
    let limits = |pids| Limits {
        pids,
        ..Limits::default()
    };
    let refused = sandbox.inner.update_limits(&limits(Some(12))).unwrap();
    if !refused.is_empty() {
        eprintln!("skipped: {refused:?}");
        return;
    }
    let script = "for i in $(seq 30); do sleep 1000 & done; echo all";
    let output = sandbox.sh(script);
    assert_ne!(output.stdout, "all\n", "{output:?}");
    assert!(
        sandbox
            .inner
            .update_limits(&limits(None))
            .unwrap()
            .is_empty()
    );
    assert_eq!(sandbox.sh(script).success(), "all\n");
    // A limit that makes no sense changes nothing.
    sandbox.inner.update_limits(&limits(Some(0))).unwrap_err();
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}
