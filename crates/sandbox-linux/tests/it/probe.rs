//! What runs inside a box, or in a process of its own, on behalf of a test: this same binary, started again.
//!
//! A probe tells what it found on standard error, one line each; standard output belongs to libtest.

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

mod calls;
mod creator;

/// Selects [`run`] in this binary.
pub(crate) const ARGUMENTS: [&str; 5] = [
    "probe::run",
    "--exact",
    "--ignored",
    "--nocapture",
    "--test-threads=1",
];
pub(crate) const NAME_VARIABLE: &str = "HOLM_PROBE";
pub(crate) const ARGUMENT_VARIABLE: &str = "HOLM_PROBE_ARGUMENT";

#[test]
#[ignore = "runs where other tests start it"]
fn run() {
    let name = std::env::var(NAME_VARIABLE).unwrap();
    let argument = std::env::var(ARGUMENT_VARIABLE).unwrap();
    match name.as_str() {
        "forbidden_calls" => calls::forbidden(),
        "type_into_terminal" => type_into_terminal(),
        "look_into_init" => look_into_init(),
        "take_descriptors_of_init" => take_descriptors_of_init(),
        "signal_everyone" => signal_everyone(&argument),
        "connect_tcp" => tell("connect", TcpStream::connect(&argument)),
        "connect_unix" => tell("connect", UnixStream::connect(&argument)),
        "connect_abstract" => tell("connect", connect_abstract(&argument)),
        "echo_tcp" => echo_tcp(&argument),
        "deaf_tcp" => deaf_tcp(),
        "loopback" => loopback(),
        "bind_abstract" => tell("bind", bind_abstract(&argument)),
        "make_shared_memory" => shared_memory(libc::IPC_CREAT, libc::O_CREAT),
        "find_shared_memory" => shared_memory(0, 0),
        "overlay_marks" => overlay_marks(&argument),
        "open_by_handle" => open_by_handle(),
        "fork_bomb" => fork_bomb(),
        "waking_fork_bomb" => waking_fork_bomb(),
        "try_to_create" => creator::try_to_create(&argument),
        "creator" => creator::run(&argument),
        other => panic!("no probe `{other}`"),
    }
}

fn tell<T>(what: &str, result: io::Result<T>) {
    match result {
        Ok(_) => eprintln!("{what}: done"),
        Err(error) => eprintln!("{what}: {error}"),
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn type_into_terminal() {
    let letter = b'x';
    for (name, request) in [("TIOCSTI", libc::TIOCSTI), ("TIOCSETD", libc::TIOCSETD)] {
        // SAFETY: both requests read through a pointer that is valid for an integer's size or fail before.
        let result = unsafe { libc::ioctl(0, request, std::ptr::from_ref(&[letter; 8])) };
        tell(name, checked(result.into()));
    }
}

fn look_into_init() {
    for name in ["environ", "maps", "mem", "auxv", "io", "stack", "syscall"] {
        tell(name, fs::read(format!("/proc/1/{name}")));
    }
    for name in ["fd", "fdinfo", "map_files", "root/", "cwd/"] {
        tell(
            name,
            fs::read_dir(format!("/proc/1/{name}")).map(Iterator::count),
        );
    }
    for name in ["exe", "ns/mnt", "ns/pid", "ns/user", "root", "cwd"] {
        tell(name, fs::read_link(format!("/proc/1/{name}")));
    }
    let mut bytes = [0_u8; 8];
    let here = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 8,
    };
    let there = libc::iovec {
        iov_base: 0x1000 as *mut libc::c_void,
        iov_len: 8,
    };
    // SAFETY: the local vector is valid for writes of its length; the remote one is another process's.
    let read = unsafe { libc::process_vm_readv(1, &raw const here, 1, &raw const there, 1, 0) };
    tell("process_vm_readv", checked(read as libc::c_long));
    // SAFETY: attaching takes no pointers.
    let attached = unsafe { libc::ptrace(libc::PTRACE_ATTACH, 1, 0, 0) };
    tell("ptrace", checked(attached));
}

/// Tries to end init, the named process of the host, and everyone.
/// Tries to copy what init has open, as a debugger would.
fn take_descriptors_of_init() {
    // SAFETY: pidfd_open takes no pointers.
    let process = checked(unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) });
    let descriptor = process.as_ref().map_or(-1, |descriptor| *descriptor);
    tell(
        "pidfd_open",
        process
            .map(drop)
            .and(Err::<(), _>(io::ErrorKind::Other.into())),
    );
    for number in 0..64 {
        // SAFETY: pidfd_getfd takes no pointers.
        let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, descriptor, number, 0) };
        tell("pidfd_getfd", checked(taken));
    }
}

fn signal_everyone(host_pid: &str) {
    let host_pid: i32 = host_pid.parse().unwrap();
    // Init passes on to all commands, this one included, what the box's user sends it.
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        // SAFETY: SIG_IGN is a valid disposition for all of these.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for signal in 1..=64 {
        // SAFETY: kill takes no pointers.
        unsafe { libc::kill(1, signal) };
    }
    // SAFETY: kill takes no pointers.
    tell(
        "host process",
        checked(unsafe { libc::kill(host_pid, libc::SIGKILL) }.into()),
    );
    eprintln!("last words");
    // SAFETY: kill takes no pointers. This reaches every process of the box but init and the caller.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Every process doubles, and none gives up when it cannot.
fn fork_bomb() {
    loop {
        // SAFETY: the child goes on with this same loop, which touches nothing.
        unsafe { libc::fork() };
        let pause = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        rustix::event::poll(&mut [], Some(&pause)).unwrap();
    }
}

/// Every process doubles without a pause, and has whoever was stopped go on.
fn waking_fork_bomb() {
    loop {
        // SAFETY: the child goes on with this same loop, which touches nothing.
        unsafe { libc::fork() };
        // SAFETY: kill takes no pointers. This reaches every process of the box but init and the caller.
        unsafe { libc::kill(-1, libc::SIGCONT) };
    }
}

/// Says its port, and gives back what it is sent.
fn echo_tcp(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    eprintln!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut answer = stream.try_clone().unwrap();
        io::copy(&mut stream, &mut answer).unwrap();
    }
}

/// Says its port, and never accepts.
fn deaf_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    eprintln!("{}", listener.local_addr().unwrap().port());
    loop {
        std::thread::park();
    }
}

fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Binds, says so, and stays until standard input ends.
fn bind_abstract(name: &str) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    eprintln!("bound");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    drop(listener);
    Ok(())
}

fn loopback() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let connected = TcpListener::bind(address)
            .and_then(|listener| TcpStream::connect(listener.local_addr()?));
        tell(address, connected);
    }
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    for line in devices.lines().skip(2) {
        eprintln!(
            "device {}",
            line.split(':').next().unwrap_or_default().trim()
        );
    }
}

fn shared_memory(ipc_flags: libc::c_int, open_flags: libc::c_int) {
    // SAFETY: shmget takes no pointers.
    let segment = unsafe { libc::shmget(0x686f_6c6d, 4096, ipc_flags | 0o666) };
    tell("shared memory", checked(segment.into()));
    let name = c"/holm-test";
    // SAFETY: the name is a valid C string.
    let object = unsafe { libc::shm_open(name.as_ptr(), open_flags | libc::O_RDWR, 0o666) };
    tell("POSIX shared memory", checked(object.into()));
    // SAFETY: the name is a valid C string; attributes may be null.
    let queue = unsafe {
        libc::mq_open(
            name.as_ptr(),
            open_flags | libc::O_RDWR,
            0o666,
            std::ptr::null_mut::<libc::mq_attr>(),
        )
    };
    tell("message queue", checked(queue.into()));
}

/// Tries to plant every mark that overlayfs would act on, on `folder`.
fn overlay_marks(folder: &str) {
    let path = CString::new(folder).unwrap();
    for (name, value) in [
        (c"user.overlay.opaque", &b"y"[..]),
        (c"user.overlay.redirect", b"/../../../../../etc"),
        (c"user.overlay.whiteout", b"y"),
        (c"user.overlay.metacopy", b""),
        (c"user.overlay.origin", b""),
        (c"trusted.overlay.opaque", b"y"),
        (c"trusted.overlay.redirect", b"/../../../../../etc"),
        // All capabilities, in the kernel's second form.
        (
            c"security.capability",
            b"\x01\0\0\x02\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0",
        ),
    ] {
        let length = value.len();
        // SAFETY: both strings are valid for the whole call, and the length is the value's own.
        let set = unsafe {
            libc::setxattr(
                path.as_ptr(),
                name.as_ptr(),
                value.as_ptr().cast(),
                length,
                0,
            )
        };
        tell(&name.to_string_lossy(), checked(set.into()));
    }
}

fn open_by_handle() {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        data: [0; 128],
    };
    let mut mount_id = 0;
    let usr = fs::File::open("/usr").unwrap();
    // SAFETY: the path is a C string, and the handle has room for the bytes that it announces.
    let named = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c"/usr".as_ptr(),
            std::ptr::from_mut(&mut handle),
            std::ptr::from_mut(&mut mount_id),
            0,
        )
    };
    tell("name", checked(named));
    // SAFETY: the handle is the one that the kernel has just filled in.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            usr.as_raw_fd(),
            std::ptr::from_mut(&mut handle),
            libc::O_RDONLY,
        )
    };
    tell("open", checked(opened));
}
