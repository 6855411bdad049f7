//! Deadlines, signals, and that nothing of a command outlives its end by force.

use std::time::{Duration, Instant};

use holm_sandbox_linux::pump::Cause;
use holm_sandbox_linux::{Exit, OnDisconnect, Reach};

use crate::support::{
    TestBox, command, processes_with, run_in, shell_with, sleeper, token, wait_until,
};

const SOON: Duration = Duration::from_millis(150);

#[test]
fn a_deadline_ends_the_command_and_keeps_its_output() {
    let sandbox = TestBox::new();
    let started = Instant::now();
    let output = sandbox.sh_for("echo so far; echo wrong >&2; sleep 1000", SOON);
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Signal(libc::SIGTERM), Cause::Deadline)
    );
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("so far\n", "wrong\n")
    );
    assert!(started.elapsed() >= SOON);
}

#[test]
fn a_command_that_ends_in_time_is_left_alone() {
    let sandbox = TestBox::new();
    let output = sandbox.sh_for("echo quick", Duration::from_secs(60));
    assert_eq!(output.cause, Cause::Itself);
    assert_eq!(output.success(), "quick\n");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed() {
    let sandbox = TestBox::new();
    let started = Instant::now();
    let output = sandbox.sh_for("trap '' TERM; echo deaf; while :; do sleep 1; done", SOON);
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Signal(libc::SIGKILL), Cause::Deadline)
    );
    assert_eq!(output.stdout, "deaf\n");
    // It was given time to obey.
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_command_may_clean_up_when_its_time_is_over() {
    let sandbox = TestBox::new();
    let script = "trap 'echo cleaned; exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let output = sandbox.sh_for(script, SOON);
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Code(9), Cause::Deadline)
    );
    assert_eq!(output.stdout, "ready\ncleaned\n");
}

#[test]
fn descendants_in_other_sessions_die_with_the_command() {
    let sandbox = TestBox::new();
    let token = token();
    let sleeper = sleeper(&token);
    let script = format!(
        "setsid {sleeper} & (({sleeper} &) &) ; (setsid setsid {sleeper} &) ; \
         sh -c 'setsid {} &' ; env -i {sleeper} & sleep 1000",
        sleeper.replace('\'', "'\\''")
    );
    let job = sandbox.start(&script, OnDisconnect::Kill);
    wait_until("all have started", || processes_with(&token).len() == 5);
    job.signal(libc::SIGKILL, Reach::Tree).unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    wait_until("nothing is left", || processes_with(&token).is_empty());
}

#[test]
fn what_obeyed_may_not_leave_behind_what_did_not() {
    let sandbox = TestBox::new();
    let token = token();
    let deaf = shell_with(
        "trap \"\" TERM; echo deaf; while :; do sleep 0.1; done",
        &token,
    );
    let script = format!("setsid {deaf} & exec sleep 1000");
    let output = sandbox.sh_for(&script, Duration::from_millis(400));
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Signal(libc::SIGTERM), Cause::Deadline)
    );
    assert_eq!(output.stdout, "deaf\n");
    wait_until("the deaf one is gone", || processes_with(&token).is_empty());
}

#[test]
fn the_tree_is_found_however_large_its_environment() {
    let sandbox = TestBox::new();
    let token = token();
    // The shell hands variables on in an order of its own: the marker may come last.
    let orphan = shell_with("echo up; sleep 1000", &token);
    let script = format!("(setsid {orphan} &); sleep 1000");
    let mut command = command(&["sh", "-c", &script]);
    for number in 0..20 {
        command
            .env
            .push((format!("VARIABLE_{number}").into(), "x".repeat(8000).into()));
    }
    let output = run_in(&sandbox.inner, &command, Some(Duration::from_millis(400)));
    assert_eq!(
        (output.cause, output.stdout.as_str()),
        (Cause::Deadline, "up\n")
    );
    wait_until("nothing is left", || processes_with(&token).is_empty());
}

#[test]
fn a_signal_to_the_group_spares_other_sessions() {
    let sandbox = TestBox::new();
    let (near, far) = (token(), token());
    let script = format!(
        "trap 'exit 4' HUP; setsid {} & {} & while :; do sleep 0.01; done",
        sleeper(&far),
        sleeper(&near)
    );
    let job = sandbox.start(&script, OnDisconnect::Kill);
    wait_until("both run", || {
        processes_with(&far).len() == 1 && processes_with(&near).len() == 1
    });
    job.signal(libc::SIGHUP, Reach::Group).unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Code(4));
    wait_until("the near one is gone", || processes_with(&near).is_empty());
    assert_eq!(processes_with(&far).len(), 1);
}

#[test]
fn a_signal_that_meets_the_end_does_not_cost_the_exit_code() {
    let sandbox = TestBox::new();
    for _ in 0..150 {
        let job = sandbox.start("exit 6", OnDisconnect::Kill);
        for _ in 0..20 {
            job.signal(libc::SIGCONT, Reach::Group).unwrap();
        }
        assert_eq!(job.wait().unwrap(), Exit::Code(6));
        job.signal(libc::SIGKILL, Reach::Tree).unwrap();
    }
}

#[test]
fn a_late_signal_hits_nobody_else() {
    let sandbox = TestBox::new();
    let ended = sandbox.start("exit 0", OnDisconnect::Kill);
    assert_eq!(ended.wait().unwrap(), Exit::Code(0));
    let other = sandbox.start("read line", OnDisconnect::Keep);
    assert_eq!(other.wait().unwrap(), Exit::Code(1));
    let other = sandbox.start("sleep 1000", OnDisconnect::Kill);
    for reach in [Reach::Group, Reach::Tree] {
        ended.signal(libc::SIGKILL, reach).unwrap();
    }
    // Orders of one box are served in turn, so the signals have been dealt with when this returns.
    sandbox.sh("true").success();
    other.signal(libc::SIGTERM, Reach::Tree).unwrap();
    assert_eq!(other.wait().unwrap(), Exit::Signal(libc::SIGTERM));
}

#[test]
fn commands_of_a_box_that_ends_are_lost_and_said_so() {
    let sandbox = TestBox::new();
    let job = sandbox.start("sleep 1000", OnDisconnect::Keep);
    sandbox.inner.stop().unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Lost);
    let error = sandbox.start_error(&command(&["true"]));
    assert_eq!(
        error.to_string(),
        format!("box `{}` is not running", sandbox.inner.id())
    );
    assert!(sandbox.inner.root().is_err());
}
