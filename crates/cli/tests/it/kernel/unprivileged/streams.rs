//! Bytes in and out, as they are, whatever their number.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use crate::support::{
    TestEnvironment, drain, processes_with, read_until, terminal, token, wait_until,
};

#[test]
fn output_is_passed_on_byte_for_byte() {
    let env = TestEnvironment::new();
    let run = env.run(["exec", "--", "printf", "\\000\\377\\376 no line break"]);
    assert_eq!(run.stdout, b"\0\xff\xfe no line break");
}

#[test]
fn input_is_passed_on_byte_for_byte() {
    let env = TestEnvironment::new();
    let input: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let run = env.run_with_input(["exec", "--", "cat"], &input);
    assert!(run.stdout == input);
}

#[test]
fn command_that_does_not_read_its_input_ends_all_the_same() {
    let env = TestEnvironment::new();
    let mut child = env
        .holm(["exec", "--", "echo", "done"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // Held open, and never written to.
    let stdin = child.stdin.take();
    let run = env.finish(child).success();
    assert_eq!(run, "done");
    drop(stdin);
}

#[test]
fn terminal_is_not_read_from() {
    let env = TestEnvironment::new();
    let (theirs, ours) = terminal();
    let child = env
        .holm(["exec", "--", "cat"])
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let run = env.finish(child).success();
    assert_eq!(run, "");
    drop(ours);
}

#[test]
fn output_comes_while_the_command_runs() {
    let env = TestEnvironment::new();
    let mut child = env
        .holm([
            "exec",
            "--",
            "sh",
            "-c",
            "printf begun; cat >/dev/null; echo ended",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // Without its line break, and before the command has ended.
    assert_eq!(read_until(&mut child, "begun"), "begun");
    drop(child.stdin.take());
    assert_eq!(env.finish(child).success(), "ended");
}

#[test]
fn much_output_needs_little_memory() {
    const ALL_BYTES: u64 = 256 << 20;
    const MEMORY_KIB_MAX: u64 = 32 << 10;
    let env = TestEnvironment::new();
    let mut child = env
        .holm([
            "exec",
            "--",
            "head",
            "-c",
            &ALL_BYTES.to_string(),
            "/dev/zero",
        ])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let early = drain(&mut stdout, ALL_BYTES - (1 << 20));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak_kib < MEMORY_KIB_MAX, "{peak_kib} KiB");
    assert_eq!(early + drain(&mut stdout, u64::MAX), ALL_BYTES);
    assert_eq!(env.finish(child).code(), Some(0));
}

#[test]
fn reader_that_goes_away_ends_the_command() {
    let env = TestEnvironment::new();
    let token = token();
    let mut child = env
        .holm(["exec", "--", "sh", "-c", &format!("yes {token}")])
        .spawn()
        .unwrap();
    assert_eq!(read_until(&mut child, "\n"), format!("{token}\n"));
    drop(child.stdout.take());
    let run = env.finish(child);
    assert_eq!(run.code(), Some(141));
    assert_eq!(run.errors(), "");
    wait_until("the command is gone", || processes_with(&token) == 0);
    env.assert_clean();
}

#[test]
fn reader_that_stops_reading_does_not_hold_up_the_timeout() {
    let env = TestEnvironment::new();
    let mut child = env
        .holm(["exec", "--timeout", "1s", "--", "yes"])
        .spawn()
        .unwrap();
    // Kept open, and not read until it is over.
    let mut stdout = child.stdout.take().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    let mut first = [0; 2];
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"y\n");
    env.assert_clean();
}

#[test]
fn closed_output_of_other_commands_is_quiet() {
    let env = TestEnvironment::new();
    let mut child = env.holm(["completions", "bash"]).spawn().unwrap();
    drop(child.stdout.take());
    let run = env.finish(child);
    // A small script may have been written before the reader went.
    assert!(matches!(run.code(), Some(0 | 141)), "{run}");
    assert_eq!(run.errors(), "");
}
