//! System calls that rustix does not offer, one function each.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::thread::CapabilitySet;

/// Turns the kernel's `-1` into the error that `errno` names.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn to_raw_fd(result: libc::c_long) -> io::Result<RawFd> {
    RawFd::try_from(result).map_err(io::Error::other)
}

fn mount_setattr(mount: BorrowedFd<'_>, attributes: &libc::mount_attr) -> io::Result<()> {
    // SAFETY: the path is an empty C string, which AT_EMPTY_PATH allows, and `attributes` is a valid
    // structure of the size that is passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Sets `MOUNT_ATTR_*` on a detached mount and all below it.
pub(crate) fn set_mount_attributes(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    mount_setattr(mount, &attributes)
}

/// Makes a detached mount translate file owners through `user_namespace` (an idmapped mount).
pub(crate) fn translate_owners(
    mount: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
) -> io::Result<()> {
    let descriptor = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: descriptor,
    };
    mount_setattr(mount, &attributes)
}

/// Leaves the given namespaces for new ones.
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes no pointers; callers are single-threaded and pass namespace flags only.
    check(libc::c_long::from(unsafe { libc::unshare(flags) }))?;
    Ok(())
}

/// Sets `lo` up in the current network namespace.
pub(crate) fn bring_up_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is plain data for which all-zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: `request` is a valid ifreq with a terminated name for the whole call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS,
            std::ptr::from_ref(&request),
        )
    }))?;
    Ok(())
}

/// Limits the bounding set, so that no `execve` can bring back a capability that is not in `keep`.
pub(crate) fn limit_bounding_set(keep: CapabilitySet) -> io::Result<()> {
    for number in (0..64_u32).filter(|number| keep.bits() & (1 << number) == 0) {
        // SAFETY: PR_CAPBSET_DROP takes a number and no pointer.
        let dropped = check(libc::c_long::from(unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0)
        }));
        match dropped {
            Ok(_) => {}
            // The first number that this kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Who returns from [`fork`] or [`clone3`].
#[derive(Debug)]
pub(crate) enum Forked {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Forks through libc, so that the allocator of the child is usable.
///
/// The child has only the calling thread. It must not touch locks that another thread of the parent
/// might have held (standard output, the environment): the spawner and init touch none.
pub(crate) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: fork takes no arguments; see above for what the child may do.
    let pid = check(libc::c_long::from(unsafe { libc::fork() }))?;
    Ok(if pid == 0 {
        None
    } else {
        Some(to_raw_fd(pid)?)
    })
}

/// Clones the calling, single-threaded process into new namespaces, and into a control group (v2).
pub(crate) fn clone3(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain data for which all-zero bytes are a valid value.
    let mut arguments: libc::clone_args = unsafe { zeroed() };
    arguments.flags = flags | sign_extended(libc::CLONE_PIDFD);
    arguments.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    arguments.exit_signal = sign_extended(libc::SIGCHLD);
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = sign_extended(cgroup.as_raw_fd());
    }
    // SAFETY: without CLONE_VM the child gets a copy of everything, as with fork; `arguments` and the
    // place for the pidfd live across the call.
    let pid = check(unsafe {
        libc::syscall(
            libc::SYS_clone3,
            std::ptr::from_mut(&mut arguments),
            size_of::<libc::clone_args>(),
        )
    })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel has just stored a new descriptor there, and nobody else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent {
        pid: to_raw_fd(pid)?,
        pidfd,
    })
}

/// The stack of a child that shares our memory; what it runs is a few system calls deep.
const SHARED_CHILD_STACK_BYTES: usize = 256 * 1024;

/// Runs `child` in a new process that shares our memory, while we are stopped until it executes a
/// program or ends. If `child` returns, the process ends.
///
/// The child has descriptors, signal dispositions, ids and working directory of its own; what it writes
/// to memory stays. It must not panic. Only for single-threaded callers.
pub(crate) fn spawn_sharing_memory(mut child: impl FnMut()) -> io::Result<i32> {
    extern "C" fn run<F: FnMut()>(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the argument is the closure of the caller, which waits and does not touch it.
        let child = unsafe { &mut *argument.cast::<F>() };
        child();
        127
    }
    fn entry<F: FnMut()>(_: &F) -> extern "C" fn(*mut libc::c_void) -> libc::c_int {
        run::<F>
    }
    let entry = entry(&child);
    let mut stack = vec![0_u128; SHARED_CHILD_STACK_BYTES / size_of::<u128>()];
    // Stacks grow downwards from their end; the vector's alignment is the machine's for stacks.
    let top = stack.as_mut_ptr_range().end.cast::<libc::c_void>();
    // SAFETY: the stack is ours and outlives the child's use of it: CLONE_VFORK stops us until the
    // child has executed or ended. The argument lives as long.
    let pid = check(libc::c_long::from(unsafe {
        libc::clone(
            entry,
            top,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut child).cast(),
        )
    }))?;
    to_raw_fd(pid)
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A non-negative C integer as the kernel's 64-bit field.
fn sign_extended(value: libc::c_int) -> u64 {
    u64::from(value.unsigned_abs())
}

/// Closes all descriptors from `first` on, except the sorted ones in `keep`.
pub(crate) fn close_all_except(first: RawFd, keep: &[RawFd]) -> io::Result<()> {
    let mut from = first;
    for &kept in keep {
        if kept > from {
            close_range(from, kept - 1)?;
        }
        from = from.max(kept + 1);
    }
    close_range(from, RawFd::MAX)
}

fn close_range(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: the callers own every descriptor of this process: they have just been forked, and no
    // value of the parent that wraps a descriptor is used or dropped in the child.
    check(unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) })?;
    Ok(())
}

/// Blocks the given signals and returns a descriptor from which they are read instead.
pub(crate) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: `set` is a valid signal set; the old set is not wanted.
    check(libc::c_long::from(unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    }))?;
    // SAFETY: `set` is a valid signal set; -1 asks for a new descriptor.
    let descriptor = check(libc::c_long::from(unsafe {
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    }))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(to_raw_fd(descriptor)?) })
}

fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain data; sigemptyset gives it its meaning right after.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: `set` is valid for writes.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: `set` was initialised above.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Reads one waiting signal's number from a [`signal_descriptor`], or `None`.
pub(crate) fn read_signal(descriptor: BorrowedFd<'_>) -> Option<libc::c_int> {
    let mut information = [0_u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(descriptor, &mut information) {
        Ok(read) if read == information.len() => {
            let number = information.first_chunk::<4>()?;
            libc::c_int::try_from(u32::from_ne_bytes(*number)).ok()
        }
        Ok(_) | Err(_) => None,
    }
}

/// Lets all signals through; for children of a process that has changed no disposition.
pub(crate) fn unblock_signals() {
    let none = signal_set(&[]);
    // SAFETY: `none` is a valid signal set; the old set is not wanted.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Gives a forked child the signal state that a fresh program expects.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a valid disposition; numbers that cannot be set are refused harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_signals();
}

/// Sends a signal; a process that is gone is not an error.
pub(crate) fn kill(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill takes no pointers.
    match check(libc::c_long::from(unsafe { libc::kill(pid, signal) })) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ends the process without running destructors or handlers that belong to the parent it was forked from.
pub(crate) fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: _exit does not return and touches nothing of ours.
    unsafe { libc::_exit(code) }
}

/// Overwrites the arguments and the environment that this process was started with.
///
/// The spawner is a fork of a process whose command line or environment may hold secrets, a box's init
/// is a fork of the spawner, and everybody in the box can read init's `/proc/1/cmdline`.
pub(crate) fn wipe_arguments_and_environment(title: &[u8]) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields after the name, which may hold spaces, start with number 3.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let address = |number: usize| {
        let field = fields
            .get(number - 3)
            .and_then(|field| field.parse::<usize>().ok());
        field
            .filter(|address| *address != 0)
            .ok_or(io::ErrorKind::InvalidData)
    };
    for (start, end) in [(address(48)?, address(49)?), (address(50)?, address(51)?)] {
        if let Some(length) = end.checked_sub(start) {
            // SAFETY: the kernel says that this range of our own memory holds the strings that it put
            // there; the process has one thread and reads neither any more.
            unsafe { std::ptr::write_bytes(start as *mut u8, 0, length) };
        }
    }
    let (start, end) = (address(48)?, address(49)?);
    let length = title.len().min(end.saturating_sub(start + 1));
    // SAFETY: at most the range that was wiped above, less its terminating zero.
    unsafe { std::ptr::copy_nonoverlapping(title.as_ptr(), start as *mut u8, length) };
    Ok(())
}

/// Lets the kernel reap ended children by itself.
pub(crate) fn ignore_children() {
    // SAFETY: SIG_IGN is a valid disposition for SIGCHLD.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Replaces the process by a program; returns only with the error.
pub(crate) fn execute(
    program: &std::ffi::CStr,
    argv: &[std::ffi::CString],
    env: &[std::ffi::CString],
) -> io::Error {
    let pointers = |strings: &[std::ffi::CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays are null-terminated and point to C strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Reduces the calling thread's capabilities to those of `wanted` that it may have.
pub(crate) fn keep_capabilities(wanted: CapabilitySet) -> io::Result<()> {
    let kept = if wanted.is_empty() {
        wanted
    } else {
        wanted & rustix::thread::capabilities(None)?.permitted
    };
    let sets = rustix::thread::CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// No user or group has this number: asking for it changes nothing and tells the present one.
const NO_ID: u32 = u32::MAX;

/// Whom the kernel takes the calling thread for when it uses files.
pub(crate) fn file_access_uid() -> u32 {
    exchange_file_access_id(libc::SYS_setfsuid, NO_ID)
}

pub(crate) fn file_access_gid() -> u32 {
    exchange_file_access_id(libc::SYS_setfsgid, NO_ID)
}

/// Changes it for the calling thread alone; libc's own function would do that too, but cannot tell of a failure.
pub(crate) fn set_file_access_uid(uid: u32) -> io::Result<()> {
    exchange_file_access_id(libc::SYS_setfsuid, uid);
    changed_to(uid, file_access_uid())
}

pub(crate) fn set_file_access_gid(gid: u32) -> io::Result<()> {
    exchange_file_access_id(libc::SYS_setfsgid, gid);
    changed_to(gid, file_access_gid())
}

fn changed_to(wanted: u32, found: u32) -> io::Result<()> {
    if wanted == found {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

/// Returns the id from before the call.
fn exchange_file_access_id(call: libc::c_long, id: u32) -> u32 {
    // SAFETY: both calls take a number and no pointer.
    let before = unsafe { libc::syscall(call, id) };
    // The kernel's own type for ids, returned as a 32 bit number.
    u32::try_from(before & 0xffff_ffff).unwrap_or(NO_ID)
}
