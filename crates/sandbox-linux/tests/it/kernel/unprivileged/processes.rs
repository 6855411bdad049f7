//! Who can be seen and signalled from inside: the box's own processes, and of init nothing but its name.

use holm_sandbox_linux::{Exit, OnDisconnect};

use crate::support::{TestBox, TestFolder, host_probe, probe_command, probed, run_in, token};

#[test]
fn only_the_processes_of_the_box_are_there() {
    let sandbox = TestBox::new();
    let text = sandbox
        .sh("cd /proc; for p in [0-9]*; do cat $p/comm; done")
        .success();
    assert_eq!(text, "holm-init\nsh\n");
}

#[test]
fn init_tells_nothing() {
    let sandbox = TestBox::with(probed);
    insta::assert_snapshot!(sandbox.probe("look_into_init", ""), @r"
    environ: Permission denied (os error 13)
    maps: Permission denied (os error 13)
    mem: Permission denied (os error 13)
    auxv: Permission denied (os error 13)
    io: Permission denied (os error 13)
    stack: Permission denied (os error 13)
    syscall: Permission denied (os error 13)
    fd: Permission denied (os error 13)
    fdinfo: Permission denied (os error 13)
    map_files: Permission denied (os error 13)
    root/: Permission denied (os error 13)
    cwd/: Permission denied (os error 13)
    exe: Permission denied (os error 13)
    ns/mnt: Permission denied (os error 13)
    ns/pid: Permission denied (os error 13)
    ns/user: Permission denied (os error 13)
    root: Permission denied (os error 13)
    cwd: Permission denied (os error 13)
    process_vm_readv: Operation not permitted (os error 1)
    ptrace: Operation not permitted (os error 1)
    ");
}

#[test]
fn the_creators_arguments_and_environment_do_not_enter() {
    let directory = TestFolder::new();
    let secret = token();
    // Everything that the kernel tells about any process, and all of the shell's own variables.
    let script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/comm; set; echo end";
    let argument = format!("{}\n{script}\nonce", directory.path().display());
    let output = host_probe("creator", &argument)
        .arg(format!("--skip={secret}"))
        .env("HOLM_TEST_SECRET", &secret)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("holm: box") && text.contains("end\n"),
        "{text}"
    );
    assert!(!text.contains(&secret), "{text}");
    assert!(
        !text.contains(&directory.path().display().to_string()),
        "{text}"
    );
}

#[test]
fn a_command_can_end_all_others_but_not_the_box_or_the_host() {
    let sandbox = TestBox::with(probed);
    let other = sandbox.start("sleep 1000", OnDisconnect::Keep);
    let host = std::process::id().to_string();
    let output = run_in(
        &sandbox.inner,
        &probe_command("signal_everyone", &host),
        None,
    );
    assert!(
        output.stderr.contains("host process: No such process"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("last words"), "{}", output.stderr);
    assert!(matches!(other.wait().unwrap(), Exit::Signal(_)));
    assert!(sandbox.inner.is_running());
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}

#[test]
fn the_kernel_is_not_steered_from_inside() {
    let sandbox = TestBox::new();
    let script = "for f in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern \
        /proc/sys/kernel/modprobe /proc/sys/vm/overcommit_memory /proc/sys/vm/drop_caches \
        /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/ping_group_range /proc/sys/fs/file-max \
        /proc/sys/user/max_user_namespaces /proc/sys/kernel/shmmax /proc/sysrq-trigger \
        /proc/1/oom_score_adj /proc/irq/default_smp_affinity; do \
        [ -e $f ] && (printf 1 > $f) 2>/dev/null && echo written $f; done; echo end";
    let written = sandbox.sh(script).success();
    assert_eq!(written, "end\n");
    // What everybody may read is masked; the rest belongs to a root that nobody in a box is.
    let masked = "for f in keys sched_debug timer_list; do \
                  [ ! -e /proc/$f ] || stat -c '%F %t %T' /proc/$f; done | sort -u";
    assert_eq!(sandbox.sh(masked).success(), "character special file 1 3\n");
    for name in ["kcore", "keys", "kmsg", "timer_list"] {
        let output = sandbox.sh(&format!("cat /proc/{name}"));
        assert_eq!(output.stdout, "", "{name}");
    }
    let (visible, whole) = (
        sandbox.sh("ls /sys /sys/fs/cgroup"),
        sandbox.sh("cat /proc/self/cgroup"),
    );
    assert_eq!(visible.stdout, "/sys:\n", "{visible:?}");
    assert!(
        !whole.stdout.contains(sandbox.inner.id()),
        "{}",
        whole.stdout
    );
}
