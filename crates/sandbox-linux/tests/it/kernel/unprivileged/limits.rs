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

fn bomb(kind: &str, token: &str) -> Command {
    let mut command = probe_command(kind, "");
    // An option that means nothing here, but stands on the command line of every copy.
    command.argv.push(format!("--skip={token}").into());
    command
}

#[test]
fn a_fork_bomb_stays_below_the_limit_and_ends_with_the_box() {
    let sandbox = limited();
    let token = token();
    let job = start_silent(&sandbox.inner, &bomb("fork_bomb", &token)).unwrap();
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

fn ends_at_its_deadline(kind: &str) {
    let sandbox = limited();
    let token = token();
    let output = run_in(
        &sandbox.inner,
        &bomb(kind, &token),
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
fn a_fork_bomb_is_ended_by_its_deadline_and_the_box_survives() {
    ends_at_its_deadline("fork_bomb");
}

#[test]
fn a_fork_bomb_that_wakes_its_own_is_ended_too() {
    ends_at_its_deadline("waking_fork_bomb");
}

#[test]
fn commands_come_after_init_for_the_processor_and_before_it_when_memory_ends() {
    let sandbox = TestBox::with(probed);
    // Field 19 of what the kernel tells of a process.
    let niceness = "awk '{ print $19 }'";
    let own = std::process::Command::new("sh")
        .args(["-c", &format!("{niceness} /proc/self/stat")])
        .output()
        .unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    assert_eq!(
        sandbox.sh(&format!("{niceness} /proc/self/stat")).success(),
        own
    );
    let init = sandbox.sh(&format!("{niceness} /proc/1/stat")).success();
    if rustix::process::geteuid().is_root() {
        assert_eq!(init, "-20\n");
    } else {
        assert_eq!(init, own);
    }
    let refused = sandbox.sh("renice -n -5 -p $$ && echo renice");
    assert_eq!(refused.stdout, "", "{refused:?}");

    // Init has the score itself while it makes a command, which may run before init has put it down again.
    let init = "while read score < /proc/1/oom_score_adj && [ $score != 0 ]; do sleep 0.01; done; echo $score";
    let score = sandbox.sh(&format!("cat /proc/self/oom_score_adj; {init}"));
    assert_eq!(score.success(), "500\n0\n");
    let lowered = sandbox.sh("echo -500 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj");
    assert_eq!(lowered.stdout, "500\n", "{lowered:?}");
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
