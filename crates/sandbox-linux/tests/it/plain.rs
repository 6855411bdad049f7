//! Commands without isolation: the same care for their processes.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use holm_sandbox_linux::plain::{PlainCommand, PlainProcess};
use holm_sandbox_linux::pump::{Cause, Pump, Running};
use holm_sandbox_linux::{EngineError, Exit, MARKER_VARIABLE, Reach};

use crate::support::{
    Output, collect, pipe, processes_with, shell_with, sleeper, token, wait_until,
};

fn command(argv: &[&str]) -> PlainCommand {
    PlainCommand {
        argv: argv.iter().map(Into::into).collect(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("GIVEN".into(), "a b".into()),
        ],
        cwd: "/".into(),
        user: None,
    }
}

fn start(command: &PlainCommand) -> (PlainProcess, OwnedFd, OwnedFd) {
    let null = OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let (out_read, out_write) = pipe();
    let (err_read, err_write) = pipe();
    let process = command.start([null, out_write, err_write]).unwrap();
    (process, out_read, err_read)
}

fn run(argv: &[&str], timeout: Option<Duration>) -> Output {
    let (process, stdout, stderr) = start(&command(argv));
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    collect(
        &process,
        Pump {
            stdout,
            stderr,
            deadline,
            interruptions: None,
        },
    )
}

fn error_of(command: &PlainCommand) -> EngineError {
    let null = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
    command
        .start([null(), null(), null()])
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn output_and_exit_come_back() {
    let output = run(&["sh", "-c", "echo out; echo err >&2; cat; exit 7"], None);
    assert_eq!((output.exit, output.cause), (Exit::Code(7), Cause::Itself));
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(run(&["sh", "-c", "kill -9 $$"], None).exit, Exit::Signal(9));
}

#[test]
fn the_environment_is_what_was_given_and_the_marker() {
    let text = run(&["env"], None).success();
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(MARKER_VARIABLE))
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, ["GIVEN=a b", "PATH=/usr/bin:/bin"]);
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn a_plain_command_leads_a_session_of_its_own() {
    let (process, stdout, stderr) = start(&command(&[
        "sh",
        "-c",
        "cut -d' ' -f1,5,6 /proc/$$/stat; :",
    ]));
    let output = collect(
        &process,
        Pump {
            stdout,
            stderr,
            deadline: None,
            interruptions: None,
        },
    );
    let ids: Vec<&str> = output.stdout.split_whitespace().collect();
    assert!(
        ids.len() == 3 && ids.iter().all(|id| *id == ids[0]),
        "{ids:?}"
    );
    // Not by `getsid`: the session's leader may live outside this process's pid namespace, and is 0 then.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = &stat[stat.rfind(')').unwrap()..];
    let own = after_name.split(' ').nth(4).unwrap();
    assert_ne!(ids[0], own);
}

#[test]
fn what_cannot_start_says_why() {
    let missing = error_of(&command(&["no-such-program"]));
    assert!(
        matches!(missing, EngineError::CommandNotFound { .. }),
        "{missing:?}"
    );
    let denied = error_of(&command(&["/etc/passwd"]));
    assert!(
        matches!(denied, EngineError::CommandNotExecutable { .. }),
        "{denied:?}"
    );
    let mut nowhere = command(&["true"]);
    nowhere.cwd = "/no/such/folder".into();
    match error_of(&nowhere) {
        EngineError::Launch { stage, .. } => assert_eq!(stage, "enter the working directory"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deadline_takes_the_whole_tree() {
    let token = token();
    let deaf = shell_with(
        "trap \"\" TERM; echo deaf; while :; do sleep 0.1; done",
        &token,
    );
    let script = format!("setsid {deaf} & exec sleep 1000");
    let output = run(&["sh", "-c", &script], Some(Duration::from_millis(400)));
    assert_eq!(
        (output.exit, output.cause),
        (Exit::Signal(15), Cause::Deadline)
    );
    assert_eq!(output.stdout, "deaf\n");
    wait_until("the deaf one is gone", || processes_with(&token).is_empty());
}

#[test]
fn dropping_a_process_kills_its_tree() {
    let token = token();
    let script = format!("(setsid {} &); sleep 1000", sleeper(&token));
    let (process, _stdout, _stderr) = start(&command(&["sh", "-c", &script]));
    wait_until("the grandchild runs", || processes_with(&token).len() == 1);
    drop(process);
    wait_until("nothing is left", || processes_with(&token).is_empty());
}

#[test]
fn a_signal_after_the_end_is_no_error_and_hits_nobody() {
    let (process, _stdout, _stderr) = start(&command(&["true"]));
    let exited = process.exit_descriptor().try_clone_to_owned().unwrap();
    let mut set = [rustix::event::PollFd::new(
        &exited,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut set, None).unwrap();
    assert_eq!(process.take_exit().unwrap(), Exit::Code(0));
    for reach in [Reach::Group, Reach::Tree] {
        process.signal(libc::SIGKILL, reach).unwrap();
    }
}

#[test]
fn a_process_ends_with_the_thread_that_started_it() {
    // What a killed caller gives, and a trap for whoever would hand the process to another thread.
    let script = sleeper(&token());
    let started = std::thread::spawn(move || start(&command(&["sh", "-c", &script])));
    let (process, _stdout, _stderr) = started.join().unwrap();
    assert_eq!(process.take_exit().unwrap(), Exit::Signal(libc::SIGKILL));
}
