//! A Postgres of a test's own: its folder, its process, its end.
//!
//! `initdb` takes seconds, so it is done once for each build folder and its result copied. The server listens on a socket in a folder that
//! only its user may enter; it never touches a cluster of the system. It ends with the thread that started it, however that ends.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const USER: &str = "holm";
const FOLDER_PREFIX: &str = "holm-postgres-";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The name of the socket; nothing listens on the network.
const PORT: u16 = 5432;

/// A server that runs, unless a test has stopped it.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    process: Option<Child>,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are cut off, and everything is written.
    Fast,
    /// As a power cut of the database: it recovers from its log when it starts again.
    Kill,
}

impl PostgresServer {
    /// Starts one; or says loudly that the test is skipped, where there is none and none can be had.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// With settings such as `ssl=on`.
    pub fn start_with(settings: &[String]) -> Option<Self> {
        Self::start_in(&quick_folder(), settings)
    }

    /// In a folder below this one, which the user `postgres` can reach: for measuring, on a disk that is a disk.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub fn start_in(parent: &Path, settings: &[String]) -> Option<Self> {
        let Some(programs) = find_programs() else {
            let told = "there is no Postgres on this machine (`cargo xtask setup` installs it)";
            assert!(std::env::var_os("CI").is_none(), "{told}");
            eprintln!("SKIPPED: {told}");
            return None;
        };
        sweep(parent);
        let folder = new_folder(parent);
        make_data(&programs, &folder.path().join("data"));
        let mut server = Self {
            folder,
            programs,
            settings: settings.to_vec(),
            process: None,
        };
        server.start_again();
        Some(server)
    }

    /// Where a client connects: as administrator of an empty database, without a password.
    pub fn url(&self) -> String {
        let folder = self.folder.path().to_str().expect("a folder in UTF-8");
        format!(
            "postgres://{USER}@{}:{PORT}/postgres",
            folder.replace('/', "%2F")
        )
    }

    /// The socket, for a proxy in between.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{PORT}"))
    }

    pub fn user(&self) -> &'static str {
        USER
    }

    /// Whose the server's files are, if not ours: Postgres refuses to run as root, and Debian's package has a user for it.
    pub fn owner() -> Option<(u32, u32)> {
        owner()
    }

    /// What the server has said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn stop(&mut self, how: Stop) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        match how {
            Stop::Fast => signal(&process, "INT"),
            Stop::Kill => process.kill().expect("kill postgres"),
        }
        process.wait().expect("wait for postgres");
    }

    /// Starts it with the data that it had.
    #[expect(
        clippy::disallowed_methods,
        reason = "the server says that it is ready by a line in a file, which is looked at again and again"
    )]
    pub fn start_again(&mut self) {
        let deadline = Instant::now() + START_TIMEOUT;
        // Processes of a killed server take a moment to notice; until then the folder is theirs.
        while Instant::now() < deadline {
            let mut process = self.spawn();
            while Instant::now() < deadline {
                if is_ready(&self.data(), process.id()) {
                    self.process = Some(process);
                    return;
                }
                if process.try_wait().expect("look at postgres").is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(process.kill());
            drop(process.wait());
        }
        panic!("postgres did not start: {}", self.log());
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn spawn(&self) -> Child {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("open the log of postgres");
        let mut command = as_server_user(&self.programs.join("postgres"));
        command.arg("-D").arg(self.data());
        let folder = self.folder.path().display();
        let ours = [
            "listen_addresses=".to_owned(),
            format!("port={PORT}"),
            format!("unix_socket_directories={folder}"),
            "max_connections=100".to_owned(),
            "shared_buffers=64MB".to_owned(),
        ];
        for setting in ours.iter().chain(&self.settings) {
            command.arg("-c").arg(setting);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start postgres")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            // Not tidy, but quick: nobody will ever start it again.
            signal(process, "QUIT");
        }
        if let Some(mut process) = self.process.take() {
            drop(process.wait());
        }
    }
}

/// The newest that is installed, where Debian has it or on the path.
fn find_programs() -> Option<PathBuf> {
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.parent().and_then(Path::file_name);
        name.and_then(|name| name.to_str()?.parse().ok())
            .unwrap_or(0)
    };
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let debian = debian.map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_server =
        |folder: &PathBuf| folder.join("postgres").exists() && folder.join("initdb").exists();
    let newest = debian.filter(has_server).max_by_key(version);
    newest.or_else(|| std::env::split_paths(&path).find(has_server))
}

fn owner() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self")
        .expect("look at this process")
        .uid()
        == 0;
    if !is_root {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("read the users");
    let user = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&"postgres");
        is_it.then(|| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))?
    });
    Some(user.expect("there is no user `postgres`, and postgres does not run as root"))
}

/// A program that ends when its parent does.
fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = owner() {
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={group}"))
            .arg("--clear-groups");
    }
    command.arg("--pdeathsig=QUIT").arg("--").arg(program);
    command.env("LC_ALL", "C").current_dir("/");
    command
}

/// Memory, if there is enough of it: tests end processes, not machines, and wait for no disk then.
fn quick_folder() -> PathBuf {
    const NEEDED_BYTES: u64 = 2 << 30;
    let memory = PathBuf::from("/dev/shm");
    let free = rustix::fs::statvfs(&memory).map_or(0, |shape| shape.f_bavail * shape.f_frsize);
    if free >= NEEDED_BYTES {
        memory
    } else {
        std::env::temp_dir()
    }
}

fn new_folder(parent: &Path) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix(&format!("{FOLDER_PREFIX}{}-", std::process::id()))
        .tempdir_in(parent)
        .expect("make a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))
        .expect("close the folder");
    if let Some((user, group)) = owner() {
        chown(folder.path(), Some(user), Some(group)).expect("give the folder to postgres");
    }
    folder
}

/// Removes what tests that were killed have left.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX));
        let process = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Makes the server's data: as a copy of what `initdb` made for another test of this build, or by `initdb`.
fn make_data(programs: &Path, data: &Path) {
    let test = std::env::current_exe().expect("find this test");
    let build = test.parent().expect("a test is in a folder");
    let version = programs
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default();
    let template = build.join(format!("postgres-template-{}", version.to_string_lossy()));
    if fs::read_dir(&template).is_ok() {
        return copy_tree(&template, data, owner());
    }
    let made = as_server_user(&programs.join("initdb"))
        .args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--wal-segsize=4",
        ])
        .args(["--username", USER, "--pgdata"])
        .arg(data)
        .output()
        .expect("run initdb");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    // If this user may: a test of another user may have made the build folder.
    if let Ok(draft) = tempfile::Builder::new()
        .prefix("postgres-template-")
        .tempdir_in(build)
    {
        copy_tree(data, &draft.path().join("data"), None);
        // Somebody else may have been quicker, and theirs is as good.
        drop(fs::rename(draft.path().join("data"), &template));
    }
}

fn copy_tree(from: &Path, to: &Path, owner: Option<(u32, u32)>) {
    fs::create_dir(to).expect("make a folder");
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("close the folder");
    for entry in fs::read_dir(from).expect("read the template") {
        let entry = entry.expect("read the template");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("look at the template").is_dir() {
            copy_tree(&entry.path(), &target, owner);
        } else {
            fs::copy(entry.path(), &target).expect("copy the template");
            if let Some((user, group)) = owner {
                chown(&target, Some(user), Some(group)).expect("give a file to postgres");
            }
        }
    }
    if let Some((user, group)) = owner {
        chown(to, Some(user), Some(group)).expect("give a folder to postgres");
    }
}

/// The server says so in the eighth line of its file, which begins with its process.
fn is_ready(data: &Path, process: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first() == Some(&process.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", process.id())])
        .status();
    assert!(
        sent.is_ok_and(|status| status.success()),
        "could not signal postgres"
    );
}
