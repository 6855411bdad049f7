//! The small process that all boxes are forked from.
//!
//! ```text
//! host ──"new process"──▶ spawner ──clone3──▶ box's init
//!   ◀──pidfd, control socket──┘                  │
//!   └──────────── steps, commands ───────────────┘
//! ```
//!
//! Forking a server of 1 GiB takes 60 ms, forking the spawner a quarter of one: it is forked from the
//! host process as early as possible and never grows. It knows nothing of boxes; it makes processes in
//! namespaces, and user namespaces, and hands out descriptors of both.
//!
//! **Invariants:** the spawner has one thread, holds no descriptor of its parent but the socket, sits
//! in a session of its own (a Ctrl-C for the host does not reach it), and ends when the host ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::error::{EngineError, Result};
use crate::sys::Forked;
use crate::{init, seccomp, sys, wire};

/// User namespaces kept for the next box, each a descriptor; a host may use thousands of id ranges.
const NAMESPACES_KEPT_MAX: usize = 128;
/// The kernel's own bound.
const NICENESS_MIN: i32 = -20;

/// One line of a `uid_map` or `gid_map`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct IdMap {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// The maps of a user namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct UserNamespace {
    pub(crate) uids: Vec<IdMap>,
    pub(crate) gids: Vec<IdMap>,
    pub(crate) setgroups: SetGroups,
}

/// The kernel lets an ordinary user write a `gid_map` only after giving up `setgroups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum SetGroups {
    Allow,
    Deny,
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// A process in new namespaces that waits for its steps. A v2 control group may come along.
    NewProcess {
        flags: u64,
        user_namespace: Option<UserNamespace>,
    },
    /// A user namespace with these maps.
    NewUserNamespace(UserNamespace),
}

#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Process { pid: i32 },
    UserNamespace,
    Failed { doing: String, errno: i32 },
}

/// A process in new namespaces, not yet a box.
#[derive(Debug)]
pub(crate) struct NewProcess {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) control: OwnedFd,
}

/// The host's end of the spawner.
#[derive(Debug)]
pub(crate) struct Spawner {
    socket: Mutex<OwnedFd>,
    pid: i32,
    user_namespaces: Mutex<HashMap<UserNamespace, OwnedFd>>,
    begun: Mutex<Option<Begun>>,
}

/// A process that was asked for ahead of time.
#[derive(Debug)]
enum Begun {
    Asked {
        flags: u64,
        later: Option<UserNamespace>,
    },
    Made {
        flags: u64,
        process: NewProcess,
    },
}

impl Spawner {
    /// Forks the spawner from the calling process. Call this early: the spawner is as big as the
    /// caller is now.
    pub(crate) fn start() -> Result<Self> {
        let failed = |doing| move |source| EngineError::Spawner { doing, source };
        // Built before the fork, so that every box finds the filters ready.
        seccomp::prepare().map_err(|source| EngineError::Seccomp { source })?;
        let (ours, theirs) = wire::socket_pair().map_err(failed("connect to"))?;
        match sys::fork().map_err(failed("start"))? {
            None => {
                let code = match serve(theirs) {
                    Ok(()) => 0,
                    Err(_) => 1,
                };
                sys::exit_now(code)
            }
            Some(pid) => Ok(Self {
                socket: Mutex::new(ours),
                pid,
                user_namespaces: Mutex::default(),
                begun: Mutex::default(),
            }),
        }
    }

    fn socket(&self) -> MutexGuard<'_, OwnedFd> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next reply; the spawner answers in the order in which it is asked.
    fn reply(socket: &OwnedFd) -> Result<(Reply, Vec<OwnedFd>)> {
        let failed = |source| EngineError::Spawner {
            doing: "talk to",
            source,
        };
        match wire::receive(socket).map_err(failed)? {
            Some((Reply::Failed { doing, errno }, _)) => Err(EngineError::HostLacks {
                reason: format!("could not {doing}: {}", io::Error::from_raw_os_error(errno)),
                hint: hint(errno).into(),
            }),
            Some(answer) => Ok(answer),
            None => Err(failed(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let failed = |source| EngineError::Spawner {
            doing: "talk to",
            source,
        };
        self.collect_begun()?;
        let socket = self.socket();
        wire::send(&*socket, request, descriptors).map_err(failed)?;
        Self::reply(&socket)
    }

    /// Has a process made that will be asked for soon, and a user namespace that it will enter, and
    /// does not wait for them.
    pub(crate) fn begin_process(
        &self,
        flags: u64,
        birth: Option<UserNamespace>,
        later: Option<UserNamespace>,
    ) -> Result<()> {
        let failed = |source| EngineError::Spawner {
            doing: "talk to",
            source,
        };
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.is_some() {
            return Ok(());
        }
        let socket = self.socket();
        let request = Request::NewProcess {
            flags,
            user_namespace: birth,
        };
        wire::send(&*socket, &request, &[]).map_err(failed)?;
        if let Some(maps) = &later {
            wire::send(&*socket, &Request::NewUserNamespace(maps.clone()), &[]).map_err(failed)?;
        }
        *begun = Some(Begun::Asked { flags, later });
        Ok(())
    }

    /// Takes the replies to [`Spawner::begin_process`] off the socket, if they are still due.
    fn collect_begun(&self) -> Result<()> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let (flags, later) = match begun.take() {
            Some(Begun::Asked { flags, later }) => (flags, later),
            other @ (None | Some(Begun::Made { .. })) => {
                *begun = other;
                return Ok(());
            }
        };
        let socket = self.socket();
        let process = Self::reply(&socket).and_then(process_of);
        if let Some(maps) = later {
            // Both replies are taken whatever the first one says; the socket has no other order.
            let (_, mut descriptors) = Self::reply(&socket)?;
            if let Some(namespace) = descriptors.pop() {
                self.keep(maps, namespace);
            }
        }
        *begun = Some(Begun::Made {
            flags,
            process: process?,
        });
        Ok(())
    }

    /// Lets go of a process that was begun and not asked for; it ends by itself.
    pub(crate) fn forget_begun(&self) {
        // An error here is the error of a process that nobody wants.
        drop(self.collect_begun());
        drop(
            self.begun
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    fn keep(&self, maps: UserNamespace, namespace: OwnedFd) {
        let mut kept = self.kept_namespaces();
        if kept.len() >= NAMESPACES_KEPT_MAX {
            // Boxes hold on to theirs; a new one with the same maps is as good.
            kept.clear();
        }
        kept.insert(maps, namespace);
    }

    fn kept_namespaces(&self) -> MutexGuard<'_, HashMap<UserNamespace, OwnedFd>> {
        self.user_namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A process in the namespaces that `flags` name, waiting for steps on its control socket.
    pub(crate) fn new_process(
        &self,
        flags: u64,
        user_namespace: Option<UserNamespace>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<NewProcess> {
        self.collect_begun()?;
        {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = matches!(&*begun, Some(Begun::Made { flags: made, .. }) if *made == flags);
            if cgroup.is_none()
                && fits
                && let Some(Begun::Made { process, .. }) = begun.take()
            {
                return Ok(process);
            }
        }
        let request = Request::NewProcess {
            flags,
            user_namespace,
        };
        process_of(self.ask(&request, cgroup.as_slice())?)
    }

    /// A user namespace with the given maps; made once and kept.
    pub(crate) fn user_namespace(&self, maps: &UserNamespace) -> Result<OwnedFd> {
        let failed = |source| EngineError::Spawner {
            doing: "talk to",
            source,
        };
        self.collect_begun()?;
        if let Some(namespace) = self.kept_namespaces().get(maps) {
            return namespace.try_clone().map_err(failed);
        }
        let (_, mut descriptors) = self.ask(&Request::NewUserNamespace(maps.clone()), &[])?;
        let namespace = descriptors
            .pop()
            .ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let copy = namespace.try_clone().map_err(failed)?;
        self.keep(maps.clone(), namespace);
        Ok(copy)
    }
}

/// What to change when the kernel refuses namespaces with this error.
fn hint(errno: i32) -> &'static str {
    match errno {
        libc::ENOSPC => {
            "a limit of this host is reached: look at `sysctl user` (`user.max_user_namespaces` and \
             its like)"
        }
        libc::EPERM | libc::EACCES => {
            "run as root, or allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, or \
             `kernel.apparmor_restrict_unprivileged_userns=0`)"
        }
        _ => "run `holm doctor` to see what this host gives",
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // Closing the socket ends the spawner; waiting for it keeps no zombie.
        if let Ok((closed, _)) = wire::socket_pair() {
            *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        }
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())
            {
            }
        }
    }
}

fn process_of((reply, mut descriptors): (Reply, Vec<OwnedFd>)) -> Result<NewProcess> {
    match (reply, descriptors.pop(), descriptors.pop()) {
        (Reply::Process { pid }, Some(control), Some(pidfd)) => Ok(NewProcess {
            pid,
            pidfd,
            control,
        }),
        _ => Err(EngineError::Spawner {
            doing: "understand",
            source: io::ErrorKind::InvalidData.into(),
        }),
    }
}

/// The spawner's whole life.
fn serve(socket: OwnedFd) -> io::Result<()> {
    detach_from_parent(&socket)?;
    let command_niceness = put_before_commands()?;
    while let Some((request, mut descriptors)) = wire::receive::<Request>(&socket)? {
        let (reply, sent) = match request {
            Request::NewProcess {
                flags,
                user_namespace,
            } => match new_process(
                flags,
                user_namespace.as_ref(),
                descriptors.pop(),
                command_niceness,
            ) {
                Ok((pid, pidfd, control)) => (Reply::Process { pid }, vec![pidfd, control]),
                Err(failure) => (failure, Vec::new()),
            },
            Request::NewUserNamespace(maps) => match new_user_namespace(&maps) {
                Ok(namespace) => (Reply::UserNamespace, vec![namespace]),
                Err(failure) => (failure, Vec::new()),
            },
        };
        let borrowed: Vec<_> = sent.iter().map(AsFd::as_fd).collect();
        wire::send(&socket, &reply, &borrowed)?;
    }
    Ok(())
}

fn detach_from_parent(socket: &OwnedFd) -> io::Result<()> {
    // A Ctrl-C in the host's terminal is the host's to handle.
    rustix::process::setsid()?;
    sys::wipe_arguments_and_environment(b"holm: box")?;
    // Standard streams may be pipes whose reader waits for the last writer.
    let null = rustix::fs::open(
        c"/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    sys::close_all_except(3, &[socket.as_raw_fd()])?;
    std::mem::forget(null);
    // The host's folder may be a mount that the user wants to unmount later.
    rustix::process::chdir(c"/")?;
    // What init makes for a box has the mode that the plan says.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    sys::reset_signals();
    // Ended boxes are reaped by the kernel; the host watches them through their pidfds.
    sys::ignore_children();
    rustix::thread::set_name(c"holm-spawner")?;
    Ok(())
}

/// Has this process, and so every init, run before all commands where the host allows it (as root): an init that waits
/// its turn among thousands of a fork bomb could not end them. Tells the niceness that commands get.
fn put_before_commands() -> io::Result<i32> {
    let given = rustix::process::getpriority_process(None)?;
    // Without the privilege init takes its turn.
    let _unchanged = rustix::process::setpriority_process(None, NICENESS_MIN);
    Ok(given)
}

fn failed(doing: &str) -> impl FnOnce(io::Error) -> Reply + '_ {
    move |error| Reply::Failed {
        doing: doing.into(),
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    }
}

fn new_process(
    flags: u64,
    user_namespace: Option<&UserNamespace>,
    cgroup: Option<OwnedFd>,
    command_niceness: i32,
) -> std::result::Result<(i32, OwnedFd, OwnedFd), Reply> {
    let (ours, theirs) = wire::socket_pair().map_err(failed("make a control socket"))?;
    let cgroup = cgroup.as_ref().map(AsFd::as_fd);
    match sys::clone3(flags, cgroup).map_err(failed("make a process in new namespaces"))? {
        Forked::Child => {
            // Init keeps nothing of the spawner: with its socket, init could answer in its name, and a
            // host whose spawner has died would wait for ever. What is closed here is not dropped: init
            // does not return.
            match sys::close_all_except(3, &[theirs.as_raw_fd()]) {
                Ok(()) => init::run(theirs, command_niceness),
                Err(_) => sys::exit_now(1),
            }
        }
        Forked::Parent { pid, pidfd } => {
            if let Some(maps) = user_namespace
                && let Err(error) = write_maps(pid, maps)
            {
                // Nobody will talk to the child, so it ends with its control socket.
                return Err(failed("map user ids into the box")(error));
            }
            Ok((pid, pidfd, ours))
        }
    }
}

fn write_maps(pid: i32, maps: &UserNamespace) -> io::Result<()> {
    let write = |name: &str, text: &str| -> io::Result<()> {
        File::options()
            .write(true)
            .open(format!("/proc/{pid}/{name}"))?
            .write_all(text.as_bytes())
    };
    match maps.setgroups {
        SetGroups::Deny => write("setgroups", "deny")?,
        SetGroups::Allow => {}
    }
    write("uid_map", &map_text(&maps.uids))?;
    write("gid_map", &map_text(&maps.gids))
}

fn map_text(maps: &[IdMap]) -> String {
    maps.iter()
        .map(|map| format!("{} {} {}\n", map.inside, map.outside, map.count))
        .collect()
}

fn new_user_namespace(maps: &UserNamespace) -> std::result::Result<OwnedFd, Reply> {
    let flags = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let forked = sys::clone3(flags, None).map_err(failed("make a user namespace"))?;
    match forked {
        Forked::Child => loop {
            // Only the namespace is wanted; the process ends as soon as it is held by descriptor.
            rustix::event::pause();
        },
        Forked::Parent { pid, pidfd } => {
            let namespace = write_maps(pid, maps)
                .and_then(|()| Ok(OwnedFd::from(File::open(format!("/proc/{pid}/ns/user"))?)));
            // The child is ours and ends by SIGKILL whatever came of the maps.
            let ended = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
            ended
                .map_err(io::Error::from)
                .map_err(failed("end a helper process"))?;
            namespace.map_err(failed("map user ids"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_written_one_per_line() {
        let maps = [
            IdMap {
                inside: 0,
                outside: 100_000,
                count: 1000,
            },
            IdMap {
                inside: 1000,
                outside: 7,
                count: 1,
            },
        ];
        assert_eq!(map_text(&maps), "0 100000 1000\n1000 7 1\n");
    }
}
