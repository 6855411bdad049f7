//! Starting one command: a child that borrows our memory, becomes the user, and executes.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;

use crate::protocol::{Launch, LaunchStage};
use crate::step::{ROOT_OF_IMAGE, capability_set};
use crate::sys;

/// Where programs are looked for when the command brings no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The standard streams of a command.
#[derive(Debug)]
pub(crate) enum Streams {
    Three([OwnedFd; 3]),
    /// The path of the terminal's other side, for instance `/dev/pts/0`.
    Terminal(CString),
}

/// What commands get that init itself has otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandLimits {
    /// Init's own number of open files is as high as it may be.
    pub(crate) files: Option<Rlimit>,
    /// Init's own is lower where the host allows it.
    pub(crate) niceness: i32,
}

#[derive(Debug)]
pub(crate) struct LaunchError {
    pub(crate) stage: LaunchStage,
    pub(crate) errno: i32,
}

impl LaunchError {
    pub(crate) fn at(stage: LaunchStage) -> impl Fn(io::Error) -> Self {
        move |error| Self {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// Starts the command and returns its process id once the program has been executed.
///
/// The child borrows our memory until then (as `posix_spawn` does): nothing is copied, and it tells of
/// a failure by writing it down.
pub(crate) fn launch(
    order: &Launch,
    streams: &Streams,
    limits: &CommandLimits,
) -> Result<i32, LaunchError> {
    let program = Program::new(order).map_err(LaunchError::at(LaunchStage::Execute))?;
    let mut failure = None;
    let pid = sys::spawn_sharing_memory(|| {
        failure = Some(become_command(order, streams, &program, limits));
    })
    .map_err(LaunchError::at(LaunchStage::Fork))?;
    match failure {
        None => Ok(pid),
        Some(error) => Err(error),
    }
}

/// Everything that `execve` wants, made before the fork.
#[derive(Debug)]
struct Program {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
}

impl Program {
    fn new(order: &Launch) -> io::Result<Self> {
        let c_string = |bytes: Vec<u8>| {
            CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        };
        let name = order.argv.first().map_or(&[][..], Vec::as_slice);
        if name.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let path = order.env.iter().find(|(key, _)| key == b"PATH");
        let path = path.map_or(DEFAULT_PATH, |(_, value)| value.as_slice());
        let candidates = if name.contains(&b'/') {
            vec![c_string(name.to_vec())?]
        } else {
            path.split(|byte| *byte == b':')
                // An empty entry would mean the current folder, which the command controls.
                .filter(|folder| folder.starts_with(b"/"))
                .map(|folder| c_string([folder, b"/", name].concat()))
                .collect::<io::Result<_>>()?
        };
        let env = order
            .env
            .iter()
            .map(|(key, value)| [key.as_slice(), b"=", value].concat());
        Ok(Self {
            candidates,
            argv: order
                .argv
                .iter()
                .cloned()
                .map(c_string)
                .collect::<io::Result<_>>()?,
            env: env.map(c_string).collect::<io::Result<_>>()?,
            cwd: c_string(order.cwd.clone())?,
        })
    }
}

/// Runs in the child. Returns only if the program could not be executed.
fn become_command(
    order: &Launch,
    streams: &Streams,
    program: &Program,
    limits: &CommandLimits,
) -> LaunchError {
    match prepare(order, streams, program, limits) {
        Err(error) => error,
        Ok(()) => {
            let mut denied = false;
            for candidate in &program.candidates {
                let error = sys::execute(candidate, &program.argv, &program.env);
                match error.raw_os_error() {
                    Some(libc::ENOENT | libc::ENOTDIR) => {}
                    Some(libc::EACCES) => denied = true,
                    _ => return LaunchError::at(LaunchStage::Execute)(error),
                }
            }
            let errno = if denied { libc::EACCES } else { libc::ENOENT };
            LaunchError {
                stage: LaunchStage::Execute,
                errno,
            }
        }
    }
}

fn prepare(
    order: &Launch,
    streams: &Streams,
    program: &Program,
    limits: &CommandLimits,
) -> Result<(), LaunchError> {
    let at = |stage| move |error: rustix::io::Errno| LaunchError::at(stage)(error.into());
    // Init blocks signals and handles none.
    sys::unblock_signals();
    rustix::process::setsid().map_err(at(LaunchStage::Session))?;
    rustix::process::setpriority_process(None, limits.niceness)
        .map_err(at(LaunchStage::Identity))?;
    // Before the terminal is opened, which belongs to the user.
    if let Some((uid, gid)) = order.user {
        let (uid, gid) = (
            rustix::process::Uid::from_raw(uid),
            rustix::process::Gid::from_raw(gid),
        );
        rustix::thread::set_thread_groups(&[]).map_err(at(LaunchStage::Identity))?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(at(LaunchStage::Identity))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(at(LaunchStage::Identity))?;
    }
    let terminal;
    let [stdin, stdout, stderr] = match streams {
        Streams::Three(three) => three.each_ref().map(AsFd::as_fd),
        Streams::Terminal(path) => {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            terminal = rustix::fs::open(path.as_c_str(), flags, Mode::empty())
                .map_err(at(LaunchStage::Terminal))?;
            rustix::process::ioctl_tiocsctty(&terminal).map_err(at(LaunchStage::Terminal))?;
            [terminal.as_fd(); 3]
        }
    };
    rustix::stdio::dup2_stdin(stdin).map_err(at(LaunchStage::Streams))?;
    rustix::stdio::dup2_stdout(stdout).map_err(at(LaunchStage::Streams))?;
    rustix::stdio::dup2_stderr(stderr).map_err(at(LaunchStage::Streams))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // A crashed program's memory belongs to nobody's disk.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, none).map_err(at(LaunchStage::Identity))?;
    if let Some(files) = limits.files {
        rustix::process::setrlimit(Resource::Nofile, files).map_err(at(LaunchStage::Identity))?;
    }
    // Root inside an image has its own; on any other base the bounding set is empty, and an execve brings none.
    let kept = match order.user {
        Some((0, _)) => capability_set(&ROOT_OF_IMAGE),
        Some(_) | None => CapabilitySet::empty(),
    };
    sys::keep_capabilities(kept).map_err(LaunchError::at(LaunchStage::Identity))?;
    rustix::process::chdir(program.cwd.as_c_str()).map_err(at(LaunchStage::WorkingDirectory))?;
    Ok(())
}

/// The name of a program for messages.
pub(crate) fn display_name(argv: &[Vec<u8>]) -> String {
    argv.first()
        .map(|name| OsStr::from_bytes(name).to_string_lossy().into_owned())
        .unwrap_or_default()
}
