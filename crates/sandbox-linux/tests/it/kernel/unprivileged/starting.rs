//! Starting commands: many, large ones, and ones that cannot start.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::AsFd;

use holm_sandbox_linux::{EngineError, Exit, Streams};

use crate::support::{HOME, TestBox, command, pipe, read_until, run_in, wait_until};

#[test]
fn a_command_line_of_one_and_a_half_mebibytes_arrives_whole() {
    let sandbox = TestBox::new();
    let big = "x".repeat(100_000);
    let mut command = command(&[
        "sh",
        "-c",
        "echo $#; printf %s \"$@\" \"$BIG_0$BIG_4\" | wc -c",
        "sh",
    ]);
    command
        .argv
        .extend(std::iter::repeat_n(OsString::from(&big), 10));
    for number in 0..5 {
        command
            .env
            .push((format!("BIG_{number}").into(), big.clone().into()));
    }
    let text = run_in(&sandbox.inner, &command, None);
    // The shell's own limit for one argument keeps the last one out of `printf`'s way.
    assert_eq!(text.success(), "10\n1200000\n");
}

#[test]
fn a_command_line_beyond_the_kernel_is_refused_and_the_box_lives() {
    let sandbox = TestBox::new();
    for mebibytes in [3, 20] {
        let mut command = command(&["true"]);
        let piece = OsString::from("x".repeat(1 << 16));
        command
            .argv
            .extend(std::iter::repeat_n(piece, mebibytes * 16));
        match sandbox.start_error(&command) {
            EngineError::CommandNotExecutable { program, source } => {
                assert_eq!(program, "true");
                assert_eq!(source.raw_os_error(), Some(libc::E2BIG));
            }
            other => panic!("{mebibytes} MiB: {other:?}"),
        }
    }
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}

#[test]
fn a_program_that_does_not_exist_is_not_found() {
    let sandbox = TestBox::new();
    for program in [
        "no-such-program",
        "/usr/bin/no-such-program",
        "/etc/passwd/x",
        "",
    ] {
        match sandbox.start_error(&command(&[program])) {
            EngineError::CommandNotFound { program: told } => assert_eq!(told, program),
            other => panic!("{program}: {other:?}"),
        }
    }
    let none = command(&[]);
    assert!(matches!(
        sandbox.start_error(&none),
        EngineError::CommandNotFound { .. }
    ));
    let error = sandbox.start_error(&command(&["nope"]));
    assert_eq!(error.to_string(), "command `nope` was not found in the box");
}

#[test]
fn what_cannot_be_executed_says_why() {
    let sandbox = TestBox::new();
    sandbox
        .sh("cd; echo text > plain; echo text > marked; chmod +x marked")
        .success();
    for (program, errno) in [
        ("/etc/passwd", libc::EACCES),
        ("/usr", libc::EACCES),
        ("/home/holm/plain", libc::EACCES),
        ("/home/holm/marked", libc::ENOEXEC),
    ] {
        match sandbox.start_error(&command(&[program])) {
            EngineError::CommandNotExecutable { source, .. } => {
                assert_eq!(source.raw_os_error(), Some(errno), "{program}");
            }
            other => panic!("{program}: {other:?}"),
        }
    }
}

#[test]
fn a_missing_working_directory_is_told_from_a_missing_program() {
    let sandbox = TestBox::new();
    let mut command = command(&["true"]);
    command.cwd = "/no/such/folder".into();
    match sandbox.start_error(&command) {
        EngineError::Launch {
            stage,
            program,
            source,
        } => {
            assert_eq!(
                (stage.as_str(), program.as_str()),
                ("enter the working directory", "true")
            );
            assert_eq!(source.kind(), ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_are_looked_for_in_absolute_folders_only() {
    let sandbox = TestBox::new();
    sandbox
        .sh("mkdir -p ~/here ~/first ~/last; cd; \
             printf '#!/bin/sh\necho wrong' > here/tool; chmod +x here/tool; cp here/tool tool; \
             echo > first/tool; printf '#!/bin/sh\necho right' > last/tool; chmod +x last/tool")
        .success();
    let mut command = command(&["tool"]);
    command.cwd = HOME.into();
    for path in ["", ".", ":", "here", "here:.:..", "./here"] {
        command.env = vec![("PATH".into(), path.into())];
        let error = sandbox.start_error(&command);
        assert!(
            matches!(error, EngineError::CommandNotFound { .. }),
            "`{path}`: {error:?}"
        );
    }
    // One that may not be executed does not hide a later one that may.
    let folders = format!("here:{HOME}/first::{HOME}/last");
    command.env = vec![("PATH".into(), folders.into())];
    assert_eq!(run_in(&sandbox.inner, &command, None).success(), "right\n");
}

#[test]
fn two_hundred_commands_run_one_after_another() {
    let sandbox = TestBox::new();
    for number in 0..200 {
        let code = number % 256;
        assert_eq!(sandbox.sh(&format!("exit {code}")).exit, Exit::Code(code));
    }
}

#[test]
fn fifty_commands_run_at_once() {
    let sandbox = TestBox::new();
    let (gate_read, gate_write) = pipe();
    let (out_read, out_write) = pipe();
    let jobs: Vec<_> = (0..50)
        .map(|number| {
            let script = format!("echo started; read line; exit {number}");
            let streams =
                Streams::Descriptors([gate_read.as_fd(), out_write.as_fd(), out_write.as_fd()]);
            sandbox
                .inner
                .start(&command(&["sh", "-c", &script]), &streams)
                .unwrap()
        })
        .collect();
    drop((gate_read, out_write));
    // All of them have started before any of them may end.
    for _ in 0..50 {
        assert_eq!(read_until(&out_read, "\n"), "started\n");
    }
    drop(gate_write);
    for (number, job) in (0..).zip(&jobs) {
        assert_eq!(job.wait().unwrap(), Exit::Code(number));
    }
}

#[test]
fn orphans_are_reaped() {
    let sandbox = TestBox::new();
    sandbox
        .sh("i=0; while [ $i -lt 30 ]; do (sh -c 'sleep 0.02 & exit' &); i=$((i+1)); done")
        .success();
    wait_until("no zombie and no orphan is left", || {
        sandbox
            .sh("cat /proc/[0-9]*/stat 2>/dev/null | grep -cE '\\(sleep\\)| Z '")
            .stdout
            == "0\n"
    });
}
