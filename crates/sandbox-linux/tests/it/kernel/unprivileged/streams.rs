//! The output of a command on its way to the caller.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use holm_sandbox_linux::pump::{Cause, Interruption, Pump, Source};
use holm_sandbox_linux::{Exit, OnDisconnect};
use rustix::event::{PollFd, PollFlags};

use crate::support::{
    TestBox, collect, command, pipe, processes_with, sleeper, start_piped, token, wait_until,
};

/// The most memory that this process ever had, in KiB.
fn memory_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_hundred_mebibytes_pass_through_a_small_buffer() {
    let sandbox = TestBox::new();
    let script = "head -c 104857600 /dev/zero & head -c 1000000 /dev/zero >&2; wait";
    let (job, stdout, stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", script]));
    let mut counts = [0_usize; 2];
    let before = memory_peak_kib();
    let pump = Pump {
        stdout,
        stderr,
        deadline: None,
        interruptions: None,
    };
    let ended = pump
        .run(&job, &mut |source, piece| match source {
            Source::Stdout => counts[0] += piece.len(),
            Source::Stderr => counts[1] += piece.len(),
        })
        .unwrap();
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(counts, [104_857_600, 1_000_000]);
    let grown = memory_peak_kib() - before;
    assert!(grown < 4096, "the peak grew by {grown} KiB");
}

#[test]
fn what_was_written_before_the_end_is_not_lost() {
    let sandbox = TestBox::new();
    let script = "head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2";
    let (job, stdout, stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", script]));
    // The command has ended before the first byte is read.
    let exited = job.as_fd().try_clone_to_owned().unwrap();
    rustix::event::poll(&mut [PollFd::new(&exited, PollFlags::IN)], None).unwrap();
    let output = collect(
        &job,
        Pump {
            stdout,
            stderr,
            deadline: None,
            interruptions: None,
        },
    );
    assert_eq!((output.bytes.len(), output.stderr.len()), (65536, 65536));
    assert_eq!(output.exit, Exit::Code(0));
}

#[test]
fn a_background_process_that_keeps_the_streams_does_not_hold_the_caller() {
    let sandbox = TestBox::new();
    let token = token();
    let output = sandbox.sh(&format!("{} & echo done", sleeper(&token)));
    assert_eq!(output.cause, Cause::Itself);
    // It goes on: a server that an agent starts in the background is wanted.
    wait_until("it still runs", || processes_with(&token).len() == 1);
    assert_eq!(output.success(), "done\n");
}

#[test]
fn a_background_process_that_keeps_writing_does_not_hold_the_caller_either() {
    let sandbox = TestBox::new();
    let (job, stdout, stderr) = start_piped(
        &sandbox.inner,
        &command(&["sh", "-c", "while :; do echo on; done & exit 5"]),
    );
    let started = Instant::now();
    // A deadline far away: were it needed, the test would fail by the cause.
    let deadline = Some(started + Duration::from_secs(8));
    let pump = Pump {
        stdout,
        stderr,
        deadline,
        interruptions: None,
    };
    let mut pieces = 0_usize;
    let ended = pump
        .run(&job, &mut |_, _| {
            pieces += 1;
            assert!(
                started.elapsed() < Duration::from_secs(9),
                "the output never ends"
            );
        })
        .unwrap();
    assert_eq!((ended.exit, ended.cause), (Exit::Code(5), Cause::Itself));
    assert!(pieces > 0);
}

#[test]
fn a_slow_last_word_still_comes() {
    let sandbox = TestBox::new();
    // As with `command > >(tee log)`: the last process to write is not the one that is waited for.
    let output = sandbox.sh("(sleep 0.03; echo late) & echo early");
    assert_eq!(output.success(), "early\nlate\n");
}

#[test]
fn an_interruption_lets_the_command_end_by_itself() {
    let sandbox = TestBox::new();
    let script = "trap 'echo asked; exit 3' INT; echo ready; while :; do sleep 0.01; done";
    let (job, stdout, stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", script]));
    let (receive, send) = pipe();
    let pump = Pump {
        stdout,
        stderr,
        deadline: None,
        interruptions: Some(receive.as_fd()),
    };
    let mut text = Vec::new();
    let ended = pump
        .run(&job, &mut |_, piece| {
            text.extend_from_slice(piece);
            if text == b"ready\n" {
                rustix::io::write(&send, &[Interruption::Drain as u8]).unwrap();
            }
        })
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&text), "ready\nasked\n");
    assert_eq!((ended.exit, ended.cause), (Exit::Code(3), Cause::Itself));
}

#[test]
fn a_kill_by_interruption_takes_the_whole_tree() {
    let sandbox = TestBox::new();
    let token = token();
    let script = format!(
        "trap '' TERM INT; echo ready; setsid {} & sleep 1000",
        sleeper(&token)
    );
    let (job, stdout, stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", &script]));
    wait_until("the grandchild runs", || processes_with(&token).len() == 1);
    let (receive, send) = pipe();
    rustix::io::write(&send, &[Interruption::Kill as u8]).unwrap();
    let interruptions = Some(receive.as_fd());
    let output = collect(
        &job,
        Pump {
            stdout,
            stderr,
            deadline: None,
            interruptions,
        },
    );
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Signal(9), Cause::Interruption)
    );
    assert_eq!(output.stdout, "ready\n");
    wait_until("nothing is left", || processes_with(&token).is_empty());
}

#[test]
fn a_dropped_job_ends_or_stays_as_it_was_started() {
    let sandbox = TestBox::new();
    let (killed, kept) = (token(), token());
    let script = |token: &str| format!("setsid {} & sleep 1000", sleeper(token));
    let kill = sandbox.start(&script(&killed), OnDisconnect::Kill);
    let keep = sandbox.start(&script(&kept), OnDisconnect::Keep);
    wait_until("both run", || {
        processes_with(&killed).len() == 1 && processes_with(&kept).len() == 1
    });
    drop((kill, keep));
    wait_until("the one is gone", || processes_with(&killed).is_empty());
    assert_eq!(processes_with(&kept).len(), 1);
}
