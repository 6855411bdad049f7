//! One command in a box: what it gets, and what comes back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use holm_sandbox_linux::{Exit, MARKER_VARIABLE};

use crate::support::{HOME, TestBox, command, run_in};

#[test]
fn exit_codes_come_back() {
    let sandbox = TestBox::new();
    for code in [0, 1, 7, 127, 255] {
        assert_eq!(sandbox.sh(&format!("exit {code}")).exit, Exit::Code(code));
    }
}

#[test]
fn signals_are_told_from_exit_codes() {
    let sandbox = TestBox::new();
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL] {
        let output = sandbox.sh(&format!("kill -{signal} $$; exit 128"));
        assert_eq!(output.exit, Exit::Signal(signal));
    }
}

#[test]
fn stdout_and_stderr_are_apart_and_stdin_is_at_its_end() {
    let sandbox = TestBox::new();
    let output = sandbox.sh("echo out; echo err >&2; cat; echo end");
    assert_eq!(output.exit, Exit::Code(0));
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\nend\n", "err\n")
    );
}

#[test]
fn the_environment_is_what_was_given_and_the_marker() {
    let sandbox = TestBox::new();
    let mut command = command(&["env", "-0"]);
    command.env.push(("EMPTY".into(), "".into()));
    command.env.push(("LINES".into(), "a\nb=c".into()));
    let text = run_in(&sandbox.inner, &command, None).success();
    let mut entries: Vec<&str> = text.split_terminator('\0').collect();
    entries.sort_unstable();
    let (markers, rest): (Vec<&str>, Vec<&str>) = entries
        .into_iter()
        .partition(|entry| entry.starts_with(MARKER_VARIABLE));
    let home = format!("HOME={HOME}");
    assert_eq!(
        rest,
        [
            "EMPTY=",
            &home,
            "LINES=a\nb=c",
            "PATH=/usr/local/bin:/usr/bin:/bin"
        ]
    );
    let [marker] = markers.as_slice() else {
        panic!("one marker, not {markers:?}")
    };
    assert_eq!(marker.len(), MARKER_VARIABLE.len() + 1 + 16);
}

#[test]
fn the_working_directory_is_the_given_one() {
    let sandbox = TestBox::new();
    let mut command = command(&["pwd", "-P"]);
    command.cwd = HOME.into();
    assert_eq!(
        run_in(&sandbox.inner, &command, None).success(),
        format!("{HOME}\n")
    );
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let sandbox = TestBox::new();
    let arguments: [&[u8]; 7] = [
        b"a b",
        b"line\nbreak",
        b"\xff\xfe\x80",
        b"",
        b"$HOME",
        b"'\"`\\",
        b"-n",
    ];
    let mut command = command(&["printf", "%s|"]);
    command
        .argv
        .extend(arguments.map(|bytes| OsString::from_vec(bytes.to_vec())));
    let output = run_in(&sandbox.inner, &command, None);
    assert_eq!(
        output.bytes,
        [arguments.join(&b'|'), b"|".to_vec()].concat()
    );
}

#[test]
fn the_user_is_an_ordinary_one_with_a_home_of_its_own() {
    let sandbox = TestBox::new();
    let script = "id -u; id -g; id -un; hostname; cd; pwd; echo x > file; cat file; \
                  stat -c '%u %a' .; stat -c %a /tmp /run /var/tmp /dev/shm";
    assert_eq!(
        sandbox.sh(script).success(),
        "1000\n1000\nholm\nholm\n/home/holm\nx\n1000 755\n1777\n1777\n1777\n1777\n"
    );
    sandbox
        .sh("touch /tmp/a /run/b /var/tmp/c /dev/shm/d")
        .success();
}

#[test]
fn what_a_command_writes_the_next_one_reads() {
    let sandbox = TestBox::new();
    sandbox
        .sh("mkdir -p ~/a/b && echo kept > ~/a/b/c && mv ~/a ~/z")
        .success();
    assert_eq!(sandbox.sh("cat ~/z/b/c; ls ~").success(), "kept\nz\n");
}

#[test]
fn no_descriptor_but_the_three_is_open() {
    let sandbox = TestBox::new();
    // The colon keeps the shell from becoming `ls`, which holds the folder open.
    assert_eq!(sandbox.sh("ls /proc/$$/fd; :").success(), "0\n1\n2\n");
}

#[test]
fn a_command_leads_a_session_of_its_own_with_default_signals() {
    let sandbox = TestBox::new();
    // No shell in between, which would block signals while it starts the command.
    let stat = sandbox
        .run(&["cut", "-d ", "-f1,5,6", "/proc/self/stat"])
        .success();
    let ids: Vec<&str> = stat.split_whitespace().collect();
    assert!(
        ids.len() == 3 && ids.iter().all(|id| *id == ids[0]),
        "{ids:?}"
    );
    let masks = sandbox
        .run(&["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
        .success();
    // The C library does not let the two signals that it uses itself be set back.
    let of_libc = (1 << 31) | (1 << 32);
    let masks: Vec<u64> = masks
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split('\t').nth(1)?, 16).ok())
        .map(|mask| mask & !of_libc)
        .collect();
    assert_eq!(masks, [0, 0], "blocked and ignored");
}

#[test]
fn a_crash_leaves_no_core_file() {
    let sandbox = TestBox::new();
    let output = sandbox.sh("ulimit -c; ulimit -Hc; cd; sh -c 'kill -SEGV $$'; ls");
    assert_eq!(output.success(), "0\n0\n");
}
