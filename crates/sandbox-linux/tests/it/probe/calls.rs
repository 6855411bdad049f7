//! Every system call that would be a way out, made in turn.

use std::fs;
use std::os::fd::AsRawFd;

use super::{checked, tell};

const TMP: *const libc::c_char = c"/tmp".as_ptr();
const NAME: *const libc::c_char = c"/home/holm/node".as_ptr();
const TMPFS: *const libc::c_char = c"tmpfs".as_ptr();

/// Arguments as the kernel takes them.
fn call(what: &str, number: libc::c_long, arguments: [u64; 5]) {
    let [a, b, c, d, e] = arguments;
    // SAFETY: pointers among the arguments are static C strings or invalid ones that the kernel checks.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    tell(what, checked(result));
}

fn pointer(text: *const libc::c_char) -> u64 {
    text as u64
}

fn flag(flags: libc::c_int) -> u64 {
    u64::from(flags.unsigned_abs())
}

pub(super) fn forbidden() {
    let here = flag(libc::AT_FDCWD).wrapping_neg();
    let tmp = pointer(TMP);
    call(
        "mount tmpfs",
        libc::SYS_mount,
        [pointer(TMPFS), tmp, pointer(TMPFS), 0, 0],
    );
    call(
        "bind mount",
        libc::SYS_mount,
        [tmp, tmp, 0, libc::MS_BIND, 0],
    );
    let remount = libc::MS_REMOUNT | libc::MS_BIND;
    call(
        "remount /usr",
        libc::SYS_mount,
        [0, pointer(c"/usr".as_ptr()), 0, remount, 0],
    );
    call(
        "umount",
        libc::SYS_umount2,
        [tmp, flag(libc::MNT_DETACH), 0, 0, 0],
    );
    call("pivot_root", libc::SYS_pivot_root, [tmp, tmp, 0, 0, 0]);
    call("chroot", libc::SYS_chroot, [tmp, 0, 0, 0, 0]);
    call("open_tree", libc::SYS_open_tree, [here, tmp, 1, 0, 0]);
    call("fsopen", libc::SYS_fsopen, [pointer(TMPFS), 0, 0, 0, 0]);
    call("fspick", libc::SYS_fspick, [here, tmp, 0, 0, 0]);
    call("move_mount", libc::SYS_move_mount, [0, tmp, 0, tmp, 0]);
    call(
        "mount_setattr",
        libc::SYS_mount_setattr,
        [here, tmp, 0, 0, 0],
    );
    for (name, kind) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("pid", libc::CLONE_NEWPID),
        ("network", libc::CLONE_NEWNET),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
    ] {
        call(
            &format!("unshare {name}"),
            libc::SYS_unshare,
            [flag(kind), 0, 0, 0, 0],
        );
        let flags = flag(kind | libc::SIGCHLD);
        call(
            &format!("clone {name}"),
            libc::SYS_clone,
            [flags, 0, 0, 0, 0],
        );
    }
    call("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0]);
    for name in ["mnt", "net", "pid", "user"] {
        let namespace = fs::File::open(format!("/proc/self/ns/{name}")).unwrap();
        let descriptor = flag(namespace.as_raw_fd());
        call(
            &format!("setns {name}"),
            libc::SYS_setns,
            [descriptor, 0, 0, 0, 0],
        );
    }
    for (name, kind) in [("character", libc::S_IFCHR), ("block", libc::S_IFBLK)] {
        let arguments = [here, pointer(NAME), u64::from(kind | 0o666), 0x0103, 0];
        call(&format!("mknod {name}"), libc::SYS_mknodat, arguments);
    }
    call("sethostname", libc::SYS_sethostname, [tmp, 3, 0, 0, 0]);
    call("keyctl", libc::SYS_keyctl, [0, 3, 1, 0, 0]);
    call("add_key", libc::SYS_add_key, [tmp, tmp, 0, 0, 0]);
    call("request_key", libc::SYS_request_key, [tmp, tmp, 0, 0, 0]);
    call("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0]);
    call(
        "perf_event_open",
        libc::SYS_perf_event_open,
        [0, 0, 0, 0, 0],
    );
    call("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0]);
    call("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]);
    call("fanotify_init", libc::SYS_fanotify_init, [0, 0, 0, 0, 0]);
    call("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0]);
    call("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0]);
    call("init_module", libc::SYS_init_module, [0, 0, 0, 0, 0]);
    call("swapoff", libc::SYS_swapoff, [tmp, 0, 0, 0, 0]);
    call("syslog", libc::SYS_syslog, [10, 0, 0, 0, 0]);
    call("clock_settime", libc::SYS_clock_settime, [0, 0, 0, 0, 0]);
    for (name, family, kind) in [
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("raw", libc::AF_INET, libc::SOCK_RAW),
    ] {
        let arguments = [flag(family), flag(kind), 1, 0, 0];
        call(&format!("{name} socket"), libc::SYS_socket, arguments);
    }
    let minus_five = 5_u64.wrapping_neg();
    call(
        "raise priority",
        libc::SYS_setpriority,
        [0, 0, minus_five, 0, 0],
    );
    call("setgroups", libc::SYS_setgroups, [0, 0, 0, 0, 0]);
}
