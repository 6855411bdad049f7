//! Commands with a terminal of the box's own.

use std::os::fd::{AsFd, OwnedFd};

use holm_sandbox_linux::{Exit, Job, OnDisconnect, Streams, TerminalSize, resize_terminal};

use crate::support::{TestBox, command, probe_command, probed, read_until};

fn start(sandbox: &TestBox, command: &holm_sandbox_linux::Command) -> (Job, OwnedFd) {
    let size = TerminalSize {
        rows: 33,
        columns: 101,
    };
    let mut job = sandbox
        .inner
        .start(command, &Streams::Terminal(size))
        .unwrap();
    let terminal = job.take_terminal().unwrap();
    assert!(job.take_terminal().is_none());
    (job, terminal)
}

#[test]
fn all_three_streams_are_a_terminal_of_the_given_size() {
    let sandbox = TestBox::new();
    let script = "test -t 0 -a -t 1 -a -t 2 && tty && stty size && echo typed: $(head -n1)";
    let (job, terminal) = start(&sandbox, &command(&["sh", "-c", script]));
    rustix::io::write(&terminal, b"hello\n").unwrap();
    let text = read_until(&terminal, "");
    assert_eq!(job.wait().unwrap(), Exit::Code(0), "{text}");
    // The echo of what was typed may come anywhere.
    let text = text.replacen("hello\r\n", "", 1);
    assert_eq!(text, "/dev/pts/0\r\n33 101\r\ntyped: hello\r\n");
}

#[test]
fn the_command_can_open_its_terminal_by_name() {
    let sandbox = TestBox::new();
    let script = "echo name > \"$(tty)\" && echo tty > /dev/tty && stat -c '%u %a' \"$(tty)\"";
    let (job, terminal) = start(&sandbox, &command(&["sh", "-c", script]));
    let text = read_until(&terminal, "");
    assert_eq!(text, "name\r\ntty\r\n1000 620\r\n");
    assert_eq!(job.wait().unwrap(), Exit::Code(0));
}

#[test]
fn control_c_ends_a_sleep() {
    let sandbox = TestBox::new();
    let (job, terminal) = start(
        &sandbox,
        &command(&["sh", "-c", "echo ready; exec sleep 1000"]),
    );
    assert_eq!(read_until(&terminal, "ready\r\n"), "ready\r\n");
    rustix::io::write(&terminal, b"\x03").unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Signal(libc::SIGINT));
}

#[test]
fn a_closed_terminal_hangs_up() {
    let sandbox = TestBox::new();
    let mut command = command(&["sh", "-c", "echo ready; exec sleep 1000"]);
    command.disconnect = OnDisconnect::Keep;
    let (job, terminal) = start(&sandbox, &command);
    assert_eq!(read_until(&terminal, "ready\r\n"), "ready\r\n");
    drop(terminal);
    assert_eq!(job.wait().unwrap(), Exit::Signal(libc::SIGHUP));
}

#[test]
fn terminals_are_counted_from_zero_again() {
    let sandbox = TestBox::new();
    for _ in 0..3 {
        let (job, terminal) = start(&sandbox, &command(&["tty"]));
        assert_eq!(read_until(&terminal, ""), "/dev/pts/0\r\n");
        assert_eq!(job.wait().unwrap(), Exit::Code(0));
    }
}

#[test]
fn nothing_can_be_typed_into_the_terminal_from_inside() {
    let sandbox = TestBox::with(probed);
    let (job, terminal) = start(&sandbox, &probe_command("type_into_terminal", ""));
    let text = read_until(&terminal, "");
    assert_eq!(job.wait().unwrap(), Exit::Code(0), "{text}");
    assert!(text.contains("TIOCSTI: Operation not permitted"), "{text}");
    assert!(text.contains("TIOCSETD: Operation not permitted"), "{text}");
}

#[test]
fn a_terminal_that_is_resized_tells_its_program() {
    let sandbox = TestBox::new();
    let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done";
    let (job, terminal) = start(&sandbox, &command(&["sh", "-c", script]));
    assert_eq!(read_until(&terminal, "ready\r\n"), "ready\r\n");
    let size = TerminalSize {
        rows: 50,
        columns: 132,
    };
    resize_terminal(terminal.as_fd(), size).unwrap();
    assert_eq!(read_until(&terminal, ""), "50 132\r\n");
    assert_eq!(job.wait().unwrap(), Exit::Code(0));
    let not_one = std::fs::File::open("/dev/null").unwrap();
    resize_terminal(not_one.as_fd(), size).unwrap_err();
}
