//! The filter in the kernel: what single calls answer, and that real programs run.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use super::*;

/// Makes one call in a child process under the filter; gives its errno, or 0 when it succeeded.
fn call(profile: Profile, number: libc::c_long, arguments: [u64; 4]) -> i32 {
    let filters = Filters::prepared(profile).unwrap();
    // SAFETY: the child makes system calls only, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = match filters.install() {
            Ok(()) => errno_of(number, arguments),
            Err(_) => 255,
        };
        // SAFETY: ends the child without running what the parent has registered for its exit.
        unsafe { libc::_exit(code) };
    }
    assert!(child > 0, "fork: {}", io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: `status` is valid for the whole call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(
        libc::WIFEXITED(status),
        "child was killed: status {status:#x}"
    );
    libc::WEXITSTATUS(status)
}

fn errno_of(number: libc::c_long, [a, b, c, d]: [u64; 4]) -> i32 {
    // SAFETY: the callers pass no pointers except null, which the kernel checks.
    let result = unsafe { libc::syscall(number, a, b, c, d, 0, 0) };
    if result >= 0 {
        // A `clone` that was allowed returns here twice; the grandchild just ends with 0.
        return 0;
    }
    io::Error::last_os_error().raw_os_error().unwrap_or(254)
}

fn strict(number: libc::c_long, arguments: [u64; 4]) -> i32 {
    call(Profile::Strict, number, arguments)
}

/// Runs a program under the filter, as a box does.
fn run(profile: Profile, argv: &[&str]) -> io::Result<Output> {
    let filters = Filters::prepared(profile).unwrap();
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]);
    let install = || filters.install().map_err(io::Error::other);
    // SAFETY: installing allocates nothing unless it fails, so it may stand between fork and exec.
    unsafe { command.pre_exec(install) };
    command.output()
}

fn assert_runs(profile: Profile, argv: &[&str], stdout: &str) {
    let output = run(profile, argv).unwrap();
    assert!(output.status.success(), "{argv:?}: {output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        stdout,
        "{argv:?}"
    );
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

#[test]
fn refused_calls_are_not_permitted() {
    for number in [
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_pidfd_getfd,
    ] {
        assert_eq!(strict(number, [0; 4]), libc::EPERM, "number {number}");
    }
}

#[test]
fn unknown_calls_do_not_exist() {
    assert_eq!(strict(9999, [0; 4]), libc::ENOSYS);
    assert_eq!(strict(libc::SYS_clone3, [0; 4]), libc::ENOSYS);
    // `getpid` of the x32 table.
    #[cfg(target_arch = "x86_64")]
    assert_eq!(strict(0x4000_0000 | libc::SYS_getpid, [0; 4]), libc::ENOSYS);
}

#[test]
fn allowed_calls_reach_the_kernel() {
    assert_eq!(strict(libc::SYS_getpid, [0; 4]), 0);
    // A plain fork by `clone`.
    assert_eq!(strict(libc::SYS_clone, [17, 0, 0, 0]), 0);
    // The question for the current personality.
    assert_eq!(strict(libc::SYS_personality, [0xffff_ffff, 0, 0, 0]), 0);
    // The kernel itself refuses these arguments.
    assert_eq!(
        strict(libc::SYS_ioctl, [u64::MAX, 0x5413, 0, 0]),
        libc::EBADF
    );
    assert_eq!(
        call(Profile::Nested, libc::SYS_clone3, [0; 4]),
        libc::EINVAL
    );
}

#[test]
fn arguments_decide() {
    let new_user = 0x1000_0000 | 17;
    assert_eq!(strict(libc::SYS_clone, [new_user, 0, 0, 0]), libc::EPERM);
    assert_eq!(strict(libc::SYS_ioctl, [0, 0x5412, 0, 0]), libc::EPERM);
    assert_eq!(
        strict(libc::SYS_ioctl, [0, 0xffff_ffff_0000_5412, 0, 0]),
        libc::EPERM
    );
    assert_eq!(strict(libc::SYS_ioctl, [0, 0x541c, 0, 0]), libc::EPERM);
    let stream = 1;
    assert_eq!(strict(libc::SYS_socket, [2, stream, 0, 0]), 0);
    assert_eq!(strict(libc::SYS_socket, [1, stream, 0, 0]), 0);
    let vsock = 40;
    assert_eq!(
        strict(libc::SYS_socket, [vsock, stream, 0, 0]),
        libc::EAFNOSUPPORT
    );
}

#[test]
fn shell_and_git_run() {
    assert_runs(
        Profile::Strict,
        &["sh", "-c", "(echo a; echo b) | sort -r | head -n 1"],
        "b",
    );
    let version = run(Profile::Strict, &["git", "--version"]).unwrap();
    assert!(version.stdout.starts_with(b"git version"), "{version:?}");
}

#[test]
fn python_runs_threads_and_children() {
    if !is_installed("python3") {
        println!("skipped: no python3 on this machine");
        return;
    }
    let script = "import subprocess, threading, socket, asyncio\n\
                  t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
                  socket.socket(); socket.socketpair(); asyncio.run(asyncio.sleep(0))\n\
                  print(subprocess.check_output(['echo', 'done']).decode())";
    assert_runs(Profile::Strict, &["python3", "-c", script], "done");
}

#[test]
fn bubblewrap_runs_under_nested_only() {
    if !is_installed("bwrap") {
        println!("skipped: no bubblewrap on this machine");
        return;
    }
    let argv = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--unshare-all",
        "echo",
        "in",
    ];
    let plain = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    if !plain.status.success() {
        println!("skipped: bubblewrap does not work on this machine at all");
        return;
    }
    assert_runs(Profile::Nested, &argv, "in");
    assert!(!run(Profile::Strict, &argv).unwrap().status.success());
}
