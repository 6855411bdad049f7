//! Ways out by system call, all of them closed.

use crate::support::{TestBox, probed};

#[test]
fn no_call_leads_out() {
    let sandbox = TestBox::with(probed);
    insta::assert_snapshot!(sandbox.probe("forbidden_calls", ""), @r"
    mount tmpfs: Operation not permitted (os error 1)
    bind mount: Operation not permitted (os error 1)
    remount /usr: Operation not permitted (os error 1)
    umount: Operation not permitted (os error 1)
    pivot_root: Operation not permitted (os error 1)
    chroot: Operation not permitted (os error 1)
    open_tree: Operation not permitted (os error 1)
    fsopen: Operation not permitted (os error 1)
    fspick: Operation not permitted (os error 1)
    move_mount: Operation not permitted (os error 1)
    mount_setattr: Operation not permitted (os error 1)
    unshare user: Operation not permitted (os error 1)
    clone user: Operation not permitted (os error 1)
    unshare mount: Operation not permitted (os error 1)
    clone mount: Operation not permitted (os error 1)
    unshare pid: Operation not permitted (os error 1)
    clone pid: Operation not permitted (os error 1)
    unshare network: Operation not permitted (os error 1)
    clone network: Operation not permitted (os error 1)
    unshare ipc: Operation not permitted (os error 1)
    clone ipc: Operation not permitted (os error 1)
    unshare uts: Operation not permitted (os error 1)
    clone uts: Operation not permitted (os error 1)
    unshare cgroup: Operation not permitted (os error 1)
    clone cgroup: Operation not permitted (os error 1)
    clone3: Function not implemented (os error 38)
    setns mnt: Operation not permitted (os error 1)
    setns net: Operation not permitted (os error 1)
    setns pid: Operation not permitted (os error 1)
    setns user: Operation not permitted (os error 1)
    mknod character: Operation not permitted (os error 1)
    mknod block: Operation not permitted (os error 1)
    sethostname: Operation not permitted (os error 1)
    keyctl: Operation not permitted (os error 1)
    add_key: Operation not permitted (os error 1)
    request_key: Operation not permitted (os error 1)
    bpf: Operation not permitted (os error 1)
    perf_event_open: Operation not permitted (os error 1)
    userfaultfd: Operation not permitted (os error 1)
    io_uring_setup: Operation not permitted (os error 1)
    fanotify_init: Operation not permitted (os error 1)
    pidfd_getfd: Operation not permitted (os error 1)
    reboot: Operation not permitted (os error 1)
    init_module: Operation not permitted (os error 1)
    swapoff: Operation not permitted (os error 1)
    syslog: Operation not permitted (os error 1)
    clock_settime: Operation not permitted (os error 1)
    vsock socket: Address family not supported by protocol (os error 97)
    packet socket: Address family not supported by protocol (os error 97)
    raw socket: Operation not permitted (os error 1)
    raise priority: Permission denied (os error 13)
    setgroups: Operation not permitted (os error 1)
    ");
}

#[test]
fn files_cannot_be_opened_by_a_guessed_handle() {
    let sandbox = TestBox::with(probed);
    let text = sandbox.probe("open_by_handle", "");
    assert!(text.contains("open: Operation not permitted"), "{text}");
}

#[test]
fn a_command_has_no_capability_and_gets_none() {
    let sandbox = TestBox::new();
    let wanted = "Cap|NoNewPrivs|^Seccomp:";
    let text = sandbox
        .sh(&format!("grep -E '{wanted}' /proc/self/status"))
        .success();
    let text = text.replace([' ', '\t'], "");
    for line in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            text.contains(&format!("{line}:0000000000000000\n")),
            "{text}"
        );
    }
    assert!(text.contains("NoNewPrivs:1\nSeccomp:2\n"), "{text}");
}

#[test]
fn no_mount_lets_a_setuid_bit_or_a_device_count() {
    let sandbox = TestBox::new();
    let table = sandbox.sh("cat /proc/self/mountinfo").success();
    for line in table.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (place, options) = (fields[4], fields[5]);
        assert!(options.contains("nosuid"), "{line}");
        let of_devices = ["/dev/", "/proc/"]
            .iter()
            .any(|start| place.starts_with(start));
        // Where the box's own nodes are; it can make none itself, and nothing is executed from there.
        let of_nodes = place == "/dev" && options.contains("noexec");
        assert!(
            options.contains("nodev") || of_devices || of_nodes,
            "{line}"
        );
    }
    let devices = sandbox
        .sh("find / -xdev \\( -type b -o -type c \\) 2>/dev/null; ls /dev")
        .success();
    assert_eq!(
        devices,
        "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n"
    );
}

#[test]
fn setuid_programs_stay_who_they_are_called_by() {
    let sandbox = TestBox::new();
    let found = sandbox
        .sh("find /usr/bin -perm -4000 -user nobody 2>/dev/null | head -n1")
        .stdout;
    // Where the host has any: it runs, as the box's user.
    let script = "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount; do \
                  [ -u $p ] && { $p --version >/dev/null 2>&1; echo; }; done; \
                  su -c id root </dev/null 2>&1; id -u";
    let output = sandbox.sh(script);
    assert!(
        output.stdout.ends_with("1000\n") && !output.stdout.contains("uid=0"),
        "{found}{output:?}"
    );
}
