//! The system calls of a box, as data: which are allowed, which are refused, and why.
//!
//! Each group says what each profile does with its calls. Whatever stands in no group fails with
//! `ENOSYS`, as on a kernel that does not have it, so that programs take their fallback.
//!
//! **Invariant:** a call stands in one group only, and each group has a reason (both are tested).

use libc::*;

use super::clauses::{
    CLONE_REFUSALS, IOCTL_REFUSALS, MKNODAT_REFUSALS, MODE_1_REFUSALS, MODE_2_REFUSALS,
    OPENAT_REFUSALS, PERSONALITY_REFUSALS, SOCKET_REFUSALS, SOCKETPAIR_REFUSALS,
};
#[cfg(target_arch = "x86_64")]
use super::clauses::{MKNOD_REFUSALS, OPEN_REFUSALS};
use super::numbers::{
    SYS_cachestat, SYS_fchmodat2, SYS_file_getattr, SYS_file_setattr, SYS_futex_requeue,
    SYS_futex_wait, SYS_futex_wake, SYS_getxattrat, SYS_io_pgetevents, SYS_kexec_file_load,
    SYS_listxattrat, SYS_map_shadow_stack, SYS_open_tree_attr, SYS_removexattrat, SYS_renameat,
    SYS_setxattrat, SYS_sync_file_range,
};
use super::rules::{Errno, Group, Syscall, Verdict};

/// `calls![SYS_a, SYS_b]` for whole calls; `calls![SYS_a: CLAUSES]` where the arguments decide.
macro_rules! calls {
    ($($(#[$attribute:meta])* $constant:ident),+ $(,)?) => {
        calls![$($(#[$attribute])* $constant: &[]),+]
    };
    ($($(#[$attribute:meta])* $constant:ident: $clauses:expr),+ $(,)?) => {
        &[$($(#[$attribute])* Syscall::new(stringify!($constant), $constant, $clauses)),+]
    };
}

const EPERM_ALWAYS: Verdict = Verdict::Refuse(Errno::NotPermitted);

/// Every group, in the order in which the reference shows them.
pub static GROUPS: &[Group] = &[
    Group {
        name: "open files",
        reason: "Names are confined by the box's own root and its mounts, not by this filter.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_fcntl,
            SYS_flock, SYS_pipe2, SYS_memfd_create, SYS_memfd_secret,
        },
    },
    Group {
        name: "file contents",
        reason: "Reading and writing what is already open gives nothing that opening did not.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv,
            SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_sendfile, SYS_splice, SYS_tee,
            SYS_vmsplice, SYS_copy_file_range, SYS_readahead, SYS_fadvise64, SYS_fallocate,
            SYS_truncate, SYS_ftruncate, SYS_sync, SYS_syncfs, SYS_fsync, SYS_fdatasync,
            SYS_sync_file_range, SYS_cachestat,
        },
    },
    Group {
        name: "names and attributes",
        reason: "Directories, links, modes and extended attributes: the kernel checks the owner. \
                 `name_to_handle_at` only names a file; opening by that name is refused below.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_mkdirat, SYS_unlinkat,
            SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_renameat, SYS_renameat2, SYS_umask,
            SYS_faccessat, SYS_faccessat2, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs,
            SYS_fstatfs, SYS_fchown, SYS_fchownat,
            SYS_utimensat, SYS_name_to_handle_at, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
            SYS_setxattrat, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_getxattrat,
            SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_listxattrat, SYS_removexattr,
            SYS_lremovexattr, SYS_fremovexattr, SYS_removexattrat, SYS_file_getattr,
            SYS_file_setattr,
        },
    },
    Group {
        name: "waiting for events",
        reason: "Every event loop (libuv, tokio, asyncio, Go's netpoller) and every file watcher.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll,
            SYS_pselect6, SYS_eventfd2, SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime,
            SYS_timerfd_gettime, SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
        },
    },
    Group {
        name: "asynchronous file I/O",
        reason: "The old interface, which databases still use; it is small and long settled.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel, SYS_io_getevents,
            SYS_io_pgetevents,
        },
    },
    Group {
        name: "memory",
        reason: "A process arranges its own address space; the cgroup limits how much it gets. \
                 The policy calls are what libnuma uses and only say where pages should lie.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_msync,
            SYS_mincore, SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_munlock, SYS_munlockall,
            SYS_mseal, SYS_remap_file_pages, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect,
            SYS_map_shadow_stack, SYS_membarrier, SYS_get_mempolicy, SYS_set_mempolicy,
            SYS_mbind, SYS_set_mempolicy_home_node,
        },
    },
    Group {
        name: "processes and threads",
        reason: "Starting, naming, waiting for and ending the box's own processes; the pid \
                 namespace and the pids limit bound them. Nothing that `prctl` sets gives a \
                 privilege without a capability that the box does not have.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid,
            SYS_getppid, SYS_gettid, SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_prctl,
            SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_futex,
            SYS_futex_waitv, SYS_futex_wake, SYS_futex_wait, SYS_futex_requeue, SYS_pidfd_open,
            SYS_pidfd_send_signal, SYS_process_mrelease,
        },
    },
    Group {
        name: "signals",
        reason: "Signals reach the box's own pid namespace only.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask,
            SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
            SYS_rt_tgsigqueueinfo, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
        },
    },
    Group {
        name: "debugging",
        reason: "gdb and strace work on the box's own processes; the kernel's ptrace check and \
                 the pid namespace keep others out, and a traced call is filtered all the same.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! { SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev },
    },
    Group {
        name: "scheduling and limits",
        reason: "Priorities and limits only go down without a capability.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getattr,
            SYS_sched_setattr, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler,
            SYS_sched_setscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
            SYS_sched_rr_get_interval, SYS_getpriority, SYS_setpriority, SYS_ioprio_get,
            SYS_ioprio_set, SYS_prlimit64, SYS_getrusage, SYS_times, SYS_getcpu,
        },
    },
    Group {
        name: "time",
        reason: "Reading clocks, sleeping and timers; setting the clock is refused below.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep,
            SYS_gettimeofday, SYS_getitimer, SYS_setitimer, SYS_timer_create, SYS_timer_settime,
            SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
        },
    },
    Group {
        name: "identity",
        reason: "Ids change only within the box's user namespace (`apt-get` drops to `_apt`), and \
                 capabilities only shrink.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid,
            SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
            SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget, SYS_capset,
        },
    },
    Group {
        name: "facts about the system",
        reason: "Harmless to read, and runtimes read them at start.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! { SYS_uname, SYS_sysinfo, SYS_getrandom },
    },
    Group {
        name: "sockets",
        reason: "Using a socket is bounded by the box's network namespace; which kinds can be \
                 made is decided by `socket` itself.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_shutdown,
            SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_sendto,
            SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
        },
    },
    Group {
        name: "System V and POSIX queues",
        reason: "The box has an IPC namespace of its own.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop,
            SYS_semctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open,
            SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify,
            SYS_mq_getsetattr,
        },
    },
    Group {
        name: "further confinement",
        reason: "A program may always give up more; these calls can only take away.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
            SYS_landlock_restrict_self,
        },
    },
    #[cfg(target_arch = "x86_64")]
    Group {
        name: "older forms on x86-64",
        reason: "The same operations under the names that old binaries and C libraries use.",
        strict: Verdict::Allow,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_stat, SYS_lstat, SYS_access, SYS_getdents, SYS_mkdir,
            SYS_rmdir, SYS_link, SYS_unlink, SYS_symlink, SYS_readlink, SYS_rename,
            SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_dup2, SYS_pipe,
            SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_signalfd,
            SYS_inotify_init, SYS_fork, SYS_vfork, SYS_getpgrp, SYS_pause, SYS_alarm, SYS_time,
            SYS_getrlimit, SYS_setrlimit, SYS_arch_prctl,
        },
    },
    Group {
        name: "sockets of rare families",
        reason: "`AF_UNIX`, IP and routing questions are what programs need. Each other family \
                 (vsock reaches the host beside all network policy) is a kernel module with a \
                 history. The error is that of a kernel without the family, because tools such as \
                 `useradd` treat anything else as fatal.",
        strict: Verdict::RefuseMatching(Errno::AddressFamilyNotSupported),
        nested: Verdict::RefuseMatching(Errno::AddressFamilyNotSupported),
        image: Verdict::RefuseMatching(Errno::AddressFamilyNotSupported),
        syscalls: calls! { SYS_socket: SOCKET_REFUSALS, SYS_socketpair: SOCKETPAIR_REFUSALS },
    },
    Group {
        name: "terminal tricks",
        reason: "These put typed input into a terminal that someone outside may hold, or load a \
                 line discipline into the kernel.",
        strict: Verdict::RefuseMatching(Errno::NotPermitted),
        nested: Verdict::RefuseMatching(Errno::NotPermitted),
        image: Verdict::RefuseMatching(Errno::NotPermitted),
        syscalls: calls! { SYS_ioctl: IOCTL_REFUSALS },
    },
    Group {
        name: "device nodes",
        reason: "A device node is a door into the kernel past the box's `/dev`. Pipes, sockets and \
                 regular files may be made, without setuid and setgid.",
        strict: Verdict::RefuseMatching(Errno::NotPermitted),
        nested: Verdict::RefuseMatching(Errno::NotPermitted),
        image: Verdict::RefuseMatching(Errno::NotPermitted),
        syscalls: calls! {
            #[cfg(target_arch = "x86_64")]
            SYS_mknod: MKNOD_REFUSALS,
            SYS_mknodat: MKNODAT_REFUSALS,
        },
    },
    Group {
        name: "files that lend their owner's power",
        reason: "A folder of the host may be shared with the box, whose user is then the folder's \
                 owner. A setuid or setgid file made there would lend that owner's power, root's \
                 included, to whoever runs it outside. A box on an image may make such files, \
                 because packages hold them; nothing of the host is shared with it that way, and \
                 inside they lend nothing, on mounts that are `nosuid`.",
        strict: Verdict::RefuseMatching(Errno::NotPermitted),
        nested: Verdict::RefuseMatching(Errno::NotPermitted),
        image: Verdict::Allow,
        syscalls: calls! {
            SYS_openat: OPENAT_REFUSALS,
            SYS_fchmod: MODE_1_REFUSALS,
            SYS_fchmodat: MODE_2_REFUSALS,
            SYS_fchmodat2: MODE_2_REFUSALS,
            #[cfg(target_arch = "x86_64")]
            SYS_open: OPEN_REFUSALS,
            #[cfg(target_arch = "x86_64")]
            SYS_creat: MODE_1_REFUSALS,
            #[cfg(target_arch = "x86_64")]
            SYS_chmod: MODE_1_REFUSALS,
        },
    },
    Group {
        name: "openat2",
        reason: "The mode of the file that it makes lies in memory, where no filter can see it. \
                 Programs fall back to `openat` on this error only.",
        strict: Verdict::Refuse(Errno::NotImplemented),
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! { SYS_openat2 },
    },
    Group {
        name: "execution domains",
        reason: "Some personalities weaken the address space. What `setarch` and debuggers use (32 \
                 bit names, no address randomisation) and the question for the current one stay.",
        strict: Verdict::RefuseMatching(Errno::NotPermitted),
        nested: Verdict::RefuseMatching(Errno::NotPermitted),
        image: Verdict::RefuseMatching(Errno::NotPermitted),
        syscalls: calls! { SYS_personality: PERSONALITY_REFUSALS },
    },
    Group {
        name: "new namespaces by clone",
        reason: "A user namespace hands out capabilities over much of the kernel, which is where \
                 most escapes begin. Plain processes and threads are untouched. In the nested \
                 profile the box has no capability outside the namespace it makes.",
        strict: Verdict::RefuseMatching(Errno::NotPermitted),
        nested: Verdict::Allow,
        image: Verdict::RefuseMatching(Errno::NotPermitted),
        syscalls: calls! { SYS_clone: CLONE_REFUSALS },
    },
    Group {
        name: "clone3",
        reason: "Its flags lie in memory, where no filter can see them. C libraries fall back to \
                 `clone`, whose flags are visible, on this error only.",
        strict: Verdict::Refuse(Errno::NotImplemented),
        nested: Verdict::Allow,
        image: Verdict::Refuse(Errno::NotImplemented),
        syscalls: calls! { SYS_clone3 },
    },
    Group {
        name: "entering and leaving namespaces",
        reason: "The box's namespaces are the box. The nested profile lets sandboxes such as \
                 bubblewrap set up theirs, host name included.",
        strict: EPERM_ALWAYS,
        nested: Verdict::Allow,
        image: EPERM_ALWAYS,
        syscalls: calls! { SYS_unshare, SYS_setns, SYS_sethostname, SYS_setdomainname },
    },
    Group {
        name: "mounts",
        reason: "What the box sees is decided before its first process starts. The nested profile \
                 lets a sandbox inside arrange the mount namespace that it made.",
        strict: EPERM_ALWAYS,
        nested: Verdict::Allow,
        image: EPERM_ALWAYS,
        syscalls: calls! {
            SYS_mount, SYS_umount2, SYS_pivot_root, SYS_open_tree, SYS_open_tree_attr, SYS_move_mount,
            SYS_mount_setattr, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
        },
    },
    Group {
        name: "another root folder",
        reason: "Root of an image installs systems into folders (`dpkg --root`, `debootstrap`). What is \
                 outside of the new root is the box's root and nothing else.",
        strict: EPERM_ALWAYS,
        nested: Verdict::Allow,
        image: Verdict::Allow,
        syscalls: calls! { SYS_chroot },
    },
    Group {
        name: "programs in the kernel",
        reason: "Loading code or queues of work into the kernel: its youngest and most attacked \
                 interfaces. io_uring would also carry out calls that this filter never sees.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! {
            SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
            SYS_io_uring_register,
        },
    },
    Group {
        name: "kernel keyrings",
        reason: "Keyrings are not divided by namespace: keys of the host could be found.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! { SYS_add_key, SYS_request_key, SYS_keyctl },
    },
    Group {
        name: "opening by handle",
        reason: "A guessed handle opens any file of the file system, outside the box's root too.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! { SYS_open_by_handle_at },
    },
    Group {
        name: "file system wide watching",
        reason: "Marks can cover a whole mount or file system, which others share; inotify is \
                 there for watchers.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! { SYS_fanotify_init, SYS_fanotify_mark },
    },
    Group {
        name: "reaching into other processes",
        reason: "Rare ways to look into or rearrange another process, beyond what debuggers use.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! {
            SYS_pidfd_getfd, SYS_process_madvise, SYS_kcmp, SYS_move_pages, SYS_migrate_pages,
        },
    },
    Group {
        name: "running the machine",
        reason: "Boot, modules, swap, accounting, quotas, the kernel's log and the clocks belong to \
                 the host's administrator.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! {
            SYS_reboot, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module,
            SYS_delete_module, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_quotactl_fd,
            SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
            SYS_vhangup, SYS_lookup_dcookie, SYS_nfsservctl,
        },
    },
    #[cfg(target_arch = "x86_64")]
    Group {
        name: "hardware of x86-64",
        reason: "Ports and segment tables: nothing that builds or runs software needs, and a \
                 history of kernel bugs.",
        strict: EPERM_ALWAYS,
        nested: EPERM_ALWAYS,
        image: EPERM_ALWAYS,
        syscalls: calls! { SYS_iopl, SYS_ioperm, SYS_modify_ldt },
    },
];
