//! A box for a test, with its folder, gone at the end of the test.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_sandbox_linux::files::{ConfinedDir, Resolve};
use holm_sandbox_linux::pump::{Cause, Pump, Running, Source};
use holm_sandbox_linux::{
    Access, Account, BaseOptions, BoxSpec, Command, CommandUser, Durability, Engine, EngineError,
    Exit, IdRange, Job, Lifetime, Limits, LinuxBox, MountSpec, Network, OnDisconnect, Owners,
    Profile, Streams,
};

/// Where the test binary lies in a box that was made with [`probed`].
pub(crate) const PROBE: &str = "/probe";

/// The home of the box's user.
pub(crate) const HOME: &str = "/home/holm";

/// Long enough for a loaded machine, and never waited for in full by a test that passes.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct TestBox {
    // Before the engine: it is stopped first.
    pub(crate) inner: LinuxBox,
    pub(crate) engine: Engine,
    pub(crate) directory: TestFolder,
}

/// A temporary folder for boxes. Overlayfs leaves folders in it that even their owner may not list, which
/// `tempfile` does not remove.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap().keep())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let (parent, name) = (self.0.parent().unwrap(), self.0.file_name().unwrap());
        ConfinedDir::open(parent)
            .unwrap()
            .remove_tree(Path::new(name))
            .unwrap();
    }
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) exit: Exit,
    pub(crate) cause: Cause,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) bytes: Vec<u8>,
}

impl Output {
    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.exit, Exit::Code(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

/// What a box is made of, before the test changes it.
pub(crate) fn spec(engine: &Engine, directory: &Path) -> BoxSpec {
    let home = directory.join("box");
    fs::create_dir(&home).unwrap();
    BoxSpec {
        id: format!("test-{}", holm_sandbox_linux::random_hex()),
        directory: home,
        base: engine
            .host_base(&base_options(&directory.join("base")))
            .unwrap()
            .into(),
        layers: Vec::new(),
        mounts: Vec::new(),
        profile: Profile::Strict,
        network: Network::None,
        limits: Limits::default(),
        lifetime: Lifetime::WithCreator,
        durability: Durability::Volatile,
        ids: IdRange::FIRST,
        hostname: None,
    }
}

/// A base without network and toolchains, kept below `directory`.
pub(crate) fn base_options(directory: &Path) -> BaseOptions {
    BaseOptions {
        directory: directory.to_path_buf(),
        network: Network::None,
        ids: IdRange::FIRST,
        account: Account::holm(),
        toolchain_home: None,
    }
}

/// Shows this test binary in the box, whose `probe::run` does what no shell can do.
pub(crate) fn probed(spec: &mut BoxSpec) {
    spec.mounts.push(MountSpec::Bind {
        source: std::env::current_exe().unwrap(),
        place: PROBE.into(),
        access: Access::ReadOnly,
        owners: Owners::AsOnHost,
    });
}

impl TestBox {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut BoxSpec)) -> Self {
        let engine = Engine::start().unwrap();
        let directory = TestFolder::new();
        let mut spec = spec(&engine, directory.path());
        change(&mut spec);
        let inner = engine.create(&spec).unwrap();
        Self {
            inner,
            engine,
            directory,
        }
    }

    pub(crate) fn run(&self, argv: &[&str]) -> Output {
        run_in(&self.inner, &command(argv), None)
    }

    pub(crate) fn sh(&self, script: &str) -> Output {
        self.run(&["sh", "-c", script])
    }

    pub(crate) fn sh_for(&self, script: &str, timeout: Duration) -> Output {
        run_in(&self.inner, &command(&["sh", "-c", script]), Some(timeout))
    }

    /// Starts a shell script and leaves it running, without any stream.
    pub(crate) fn start(&self, script: &str, disconnect: OnDisconnect) -> Job {
        let mut command = command(&["sh", "-c", script]);
        command.disconnect = disconnect;
        start_silent(&self.inner, &command).unwrap()
    }

    /// The box's files, with the rights of the box's user.
    pub(crate) fn files(&self) -> ConfinedDir {
        let root = ConfinedDir::new(self.inner.root().unwrap()).unwrap();
        let root = root.resolving(Resolve::InRoot);
        let home = root.metadata(Path::new("/home/holm")).unwrap();
        root.acting_as(home.uid, home.gid)
    }

    /// What a probe found in the box.
    #[track_caller]
    pub(crate) fn probe(&self, name: &str, argument: &str) -> String {
        let output = run_in(&self.inner, &probe_command(name, argument), None);
        assert_eq!(
            output.exit,
            Exit::Code(0),
            "{}{}",
            output.stdout,
            output.stderr
        );
        output.stderr
    }

    /// Why a command could not be started.
    #[track_caller]
    pub(crate) fn start_error(&self, command: &Command) -> EngineError {
        start_silent(&self.inner, command)
            .map(|job| job.pid())
            .unwrap_err()
    }
}

impl Drop for TestBox {
    fn drop(&mut self) {
        self.inner.stop().unwrap();
    }
}

pub(crate) fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(OsString::from).collect(),
        env: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), HOME.into()),
        ],
        cwd: PathBuf::from("/"),
        user: CommandUser::BoxUser,
        disconnect: OnDisconnect::Kill,
    }
}

pub(crate) fn probe_command(name: &str, argument: &str) -> Command {
    let mut command = command(&[PROBE]);
    command
        .argv
        .extend(crate::probe::ARGUMENTS.map(OsString::from));
    command
        .env
        .push((crate::probe::NAME_VARIABLE.into(), name.into()));
    command
        .env
        .push((crate::probe::ARGUMENT_VARIABLE.into(), argument.into()));
    command
}

/// Runs this test binary's probe as a process of the host.
pub(crate) fn host_probe(name: &str, argument: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(crate::probe::ARGUMENTS)
        .env(crate::probe::NAME_VARIABLE, name)
        .env(crate::probe::ARGUMENT_VARIABLE, argument);
    command
}

pub(crate) fn start_silent(inner: &LinuxBox, command: &Command) -> Result<Job, EngineError> {
    let null = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    inner.start(command, &Streams::Descriptors([null.as_fd(); 3]))
}

/// Starts a command and gives the host's ends of its output.
pub(crate) fn start_piped(inner: &LinuxBox, command: &Command) -> (Job, OwnedFd, OwnedFd) {
    let null = fs::File::open("/dev/null").unwrap();
    let (out_read, out_write) = pipe();
    let (err_read, err_write) = pipe();
    let streams = Streams::Descriptors([null.as_fd(), out_write.as_fd(), err_write.as_fd()]);
    let job = inner.start(command, &streams).unwrap();
    (job, out_read, err_read)
}

/// A pipe that no other process of the test inherits.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

pub(crate) fn run_in(inner: &LinuxBox, command: &Command, timeout: Option<Duration>) -> Output {
    let (job, stdout, stderr) = start_piped(inner, command);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    collect(
        &job,
        Pump {
            stdout,
            stderr,
            deadline,
            interruptions: None,
        },
    )
}

pub(crate) fn collect(running: &dyn Running, pump: Pump<'_>) -> Output {
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    let ended = pump
        .run(running, &mut |source, piece| match source {
            Source::Stdout => stdout.extend_from_slice(piece),
            Source::Stderr => stderr.extend_from_slice(piece),
        })
        .unwrap();
    Output {
        exit: ended.exit,
        cause: ended.cause,
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        bytes: stdout,
    }
}

/// Reads until the text ends with `end`, or all of it.
pub(crate) fn read_until(descriptor: &OwnedFd, end: &str) -> String {
    let mut file = fs::File::from(descriptor.try_clone().unwrap());
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) || end.is_empty() {
        match file.read(&mut byte) {
            Ok(1) => text.push(byte[0]),
            // A terminal whose other side is closed says so with an error.
            Ok(_) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Waits for a state, not for time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        let pause = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        rustix::event::poll(&mut [], Some(&pause)).unwrap();
    }
}

/// The host's processes whose command line holds `token`, this one and the dead excepted.
pub(crate) fn processes_with(token: &str) -> Vec<u32> {
    let own = std::process::id();
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(token.len())
                .any(|part| part == token.as_bytes())
        })
        .collect()
}

/// A word that no other process on the machine has on its command line.
pub(crate) fn token() -> String {
    format!("holm-token-{}", holm_sandbox_linux::random_hex())
}

/// A shell that sleeps for ever with `token` on its command line, as part of a script.
///
/// Whoever runs the script does not have the token on its own line, so that one process found is one
/// sleeper started: the quotes in the middle are gone only there.
pub(crate) fn sleeper(token: &str) -> String {
    shell_with("sleep 1000", token)
}

/// As [`sleeper`], for another script; it must not contain single quotes.
pub(crate) fn shell_with(script: &str, token: &str) -> String {
    let (head, tail) = token.split_at(token.len() / 2);
    format!("sh -c '{script}; : {head}''{tail}'")
}

/// Removes the control groups of a box that ended without being stopped, where the host has any.
pub(crate) fn remove_group(engine: &Engine, id: &str) {
    if let Ok(group) = engine.hierarchy().open_existing(id) {
        group.remove().unwrap();
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}
