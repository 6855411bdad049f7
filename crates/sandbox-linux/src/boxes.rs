//! A running box, as the host holds it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::cgroup::{BoxGroup, Limits, Unenforced, Usage};
use crate::checks;
use crate::error::{EngineError, HostFileContext, Result};
use crate::files::{ConfinedDir, Resolve};
use crate::init::display_name;
use crate::job::{Command, Job, Streams};
use crate::power::Power;
use crate::protocol::{Order, Question, Reply};
use crate::spawner::NewProcess;
use crate::spec::CommandUsers;
use crate::step::Owner;
use crate::wire;

/// How long init may take to end after it was told to; then it is killed, which cannot fail.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How long the kernel may take to tear a killed box down.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// Connections that may wait on a box's socket.
const BACKLOG: i32 = 64;

/// A running box. Dropping the last connection to one that does not [`listen`](LinuxBox::listen) ends it,
/// without waiting for that and without removing its control groups: call [`LinuxBox::stop`].
#[derive(Debug)]
pub struct LinuxBox {
    id: String,
    power: Power,
    control: Mutex<OwnedFd>,
    pid: i32,
    pidfd: OwnedFd,
    group: RwLock<BoxGroup>,
    unenforced: Vec<Unenforced>,
    users: CommandUsers,
}

impl LinuxBox {
    pub(crate) fn new(
        id: String,
        power: Power,
        process: NewProcess,
        group: BoxGroup,
        enforced_otherwise: fn(Power, &Unenforced) -> bool,
    ) -> Self {
        let unenforced = group
            .unenforced()
            .iter()
            .filter(|limit| !enforced_otherwise(power, limit))
            .cloned()
            .collect();
        Self {
            id,
            power,
            control: Mutex::new(process.control),
            pid: process.pid,
            pidfd: process.pidfd,
            group: RwLock::new(group),
            unenforced,
            users: CommandUsers::BoxUserOnly,
        }
    }

    /// Connects to a box that another process made and left running.
    ///
    /// `process` is init's pidfd, which the caller has checked to be the one it recorded.
    pub fn attach(
        id: &str,
        power: Power,
        socket: &Path,
        pid: i32,
        process: OwnedFd,
        group: BoxGroup,
    ) -> Result<Self> {
        let control = connect(socket).doing("connect to", socket)?;
        Ok(Self {
            id: id.to_owned(),
            power,
            control: Mutex::new(control),
            pid,
            pidfd: process,
            group: RwLock::new(group),
            unenforced: Vec::new(),
            users: CommandUsers::BoxUserOnly,
        })
    }

    /// Says whom commands may run as; the box's own user only, unless the base is an image.
    #[must_use]
    pub fn with_users(self, users: CommandUsers) -> Self {
        Self { users, ..self }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Init's process id on the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Limits that were asked for and that this host does not grant.
    pub fn unenforced(&self) -> &[Unenforced] {
        &self.unenforced
    }

    /// What the box uses now, as far as the host counts it.
    pub fn usage(&self) -> Usage {
        self.group().usage()
    }

    /// How many processes the box has beside init; one that has ended and was not waited for is none.
    pub fn process_count(&self) -> Result<u64> {
        let listed = self.group().pids();
        let listed = listed.map_err(|source| EngineError::Cgroup { source })?;
        if !listed.is_empty() {
            let others = listed
                .iter()
                .filter(|pid| pid.as_raw_nonzero().get() != self.pid);
            return Ok(u64::try_from(others.count()).unwrap_or(u64::MAX));
        }
        // No groups on this host, or the box is not in them: init can see for itself.
        let doing = "count the processes of";
        match self.ask(doing, Question::CountProcesses, &[])? {
            (Reply::Count(count), _) => Ok(count),
            (_, _) => Err(self.failed(doing, io::ErrorKind::InvalidData.into())),
        }
    }

    fn group(&self) -> RwLockReadGuard<'_, BoxGroup> {
        self.group
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Gives the box exactly these limits from now on; `None` lifts one. Returns those that this host does not grant.
    ///
    /// Memory that the box uses and cannot give back is not taken from it: such a limit is among those returned. What
    /// [`unenforced`](Self::unenforced) tells is about the limits that the box was made with.
    pub fn update_limits(&self, limits: &Limits) -> Result<Vec<Unenforced>> {
        let mut group = self
            .group
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let unenforced = group.update(limits);
        unenforced
            .map(<[Unenforced]>::to_vec)
            .map_err(|source| EngineError::Cgroup { source })
    }

    fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let control = self
            .control
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        wire::send(&*control, order, descriptors).map_err(|source| {
            let is_gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            if is_gone.contains(&source.kind()) {
                return EngineError::NotRunning {
                    id: self.id.clone(),
                };
            }
            EngineError::Control {
                doing: "give an order to",
                id: self.id.clone(),
                source,
            }
        })
    }

    /// Starts a command.
    pub fn start(&self, command: &Command, streams: &Streams<'_>) -> Result<Job> {
        let (ours, theirs) = wire::socket_pair().map_err(|source| EngineError::Control {
            doing: "make a socket for a command in",
            id: self.id.clone(),
            source,
        })?;
        let mut descriptors = vec![theirs.as_fd()];
        let terminal = match streams {
            Streams::Descriptors(three) => {
                descriptors.extend_from_slice(three);
                None
            }
            Streams::Terminal(size) => Some(*size),
        };
        let user = checks::command_ids(&self.id, self.power, self.users, command.user)?;
        let launch = command.launch(user, terminal);
        match self.order(&Order::Start(launch.clone()), &descriptors) {
            Err(EngineError::Control { source, .. })
                if source.raw_os_error() == Some(libc::E2BIG) =>
            {
                let program = display_name(&launch.argv);
                return Err(EngineError::CommandNotExecutable { program, source });
            }
            sent => sent?,
        }
        drop(descriptors);
        drop(theirs);
        Job::started(ours, &launch, &self.id)
    }

    /// Asks init and waits for the answer. Many threads may ask at once.
    pub(crate) fn ask(
        &self,
        doing: &'static str,
        question: Question,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let failed = |source| self.failed(doing, source);
        let (ours, theirs) = wire::socket_pair().map_err(failed)?;
        let mut sent = vec![theirs.as_fd()];
        sent.extend_from_slice(descriptors);
        self.order(&Order::Ask(question), &sent)?;
        drop(sent);
        drop(theirs);
        match wire::receive_answer::<Reply>(&ours).map_err(failed)? {
            Some((Reply::Failed { errno }, _)) => Err(failed(io::Error::from_raw_os_error(errno))),
            Some(answer) => Ok(answer),
            None => Err(EngineError::NotRunning {
                id: self.id.clone(),
            }),
        }
    }

    /// Asks for one descriptor.
    pub(crate) fn ask_for(&self, doing: &'static str, question: Question) -> Result<OwnedFd> {
        match self.ask(doing, question, &[])? {
            (Reply::Descriptor, descriptors) => descriptors.into_iter().next(),
            (_, _) => None,
        }
        .ok_or_else(|| self.failed(doing, io::ErrorKind::InvalidData.into()))
    }

    pub(crate) fn failed(&self, doing: &'static str, source: io::Error) -> EngineError {
        EngineError::Control {
            doing,
            id: self.id.clone(),
            source,
        }
    }

    /// A descriptor of the box's root, for file operations that the kernel confines to it.
    pub fn root(&self) -> Result<OwnedFd> {
        self.ask_for("open the root of", Question::Root)
    }

    /// The box's files with the rights of one of its users (by the ids on the host), from its `/` on. For everything
    /// that is done on behalf of somebody who may use the box and is not to have the host's power.
    pub fn files(&self, user: Owner) -> Result<ConfinedDir> {
        let root = ConfinedDir::new(self.root()?)
            .map_err(|error| self.failed("open the root of", io::Error::other(error)))?;
        Ok(root
            .resolving(Resolve::InRoot)
            .acting_as(user.uid, user.gid))
    }

    /// Lets other processes of the host connect at `path`, which only its owner can reach.
    pub fn listen(&self, path: &Path) -> Result<()> {
        let listener = listener(path).doing("listen at", path)?;
        self.order(&Order::Listen, &[listener.as_fd()])
    }

    /// Gives descriptors to init that stay open, with their locks, as long as the box lives.
    pub fn hold(&self, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        self.order(&Order::Hold, descriptors)
    }

    /// Whether init still runs.
    pub fn is_running(&self) -> bool {
        !has_ended(&self.pidfd, Duration::ZERO)
    }

    /// Stops or continues every process of the box, where the host has a freezer.
    pub fn freeze(&self) -> Result<()> {
        self.group()
            .freeze()
            .map_err(|source| EngineError::Cgroup { source })
    }

    pub fn thaw(&self) -> Result<()> {
        self.group()
            .thaw()
            .map_err(|source| EngineError::Cgroup { source })
    }

    /// Ends every process of the box and removes its control groups. A second call does nothing.
    pub fn stop(&self) -> Result<()> {
        // Init that is asked ends at once; one that is gone needs no asking.
        let asked = self.order(&Order::Stop, &[]);
        if asked.is_err() || !has_ended(&self.pidfd, STOP_PATIENCE) {
            end_process(&self.pidfd);
        }
        self.group()
            .remove()
            .map_err(|source| EngineError::Cgroup { source })
    }
}

/// Becomes readable when the box has ended.
impl AsFd for LinuxBox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl AsRawFd for LinuxBox {
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

/// Kills a box's init, and with it the whole box, and waits until the kernel is done.
pub(crate) fn end_process(pidfd: &OwnedFd) {
    // Fails only if it has already ended.
    let _gone = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
    has_ended(pidfd, END_PATIENCE);
}

fn has_ended(pidfd: &OwnedFd, patience: Duration) -> bool {
    let until = std::time::Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let left = Timespec::try_from(left).ok();
        let mut waited = [PollFd::new(pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut waited, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(ready) => return ready > 0,
            Err(_) => return true,
        }
    }
}

/// A path for a socket that fits into an address however long it is.
fn with_address<T>(
    path: &Path,
    use_address: impl FnOnce(&SocketAddrUnix) -> io::Result<T>,
) -> io::Result<T> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = rustix::fs::open(
        parent,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name);
    use_address(&SocketAddrUnix::new(short)?)
}

fn packet_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

fn listener(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    with_address(path, |address| Ok(rustix::net::bind(&socket, address)?))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    with_address(path, |address| Ok(rustix::net::connect(&socket, address)?))?;
    Ok(socket)
}
