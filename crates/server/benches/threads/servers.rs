//! The servers that are compared: processes of their own, as users start them.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holm_testkit::PostgresServer;

use crate::http::Address;
use crate::report::Report;

pub(crate) const HOLM: &str = "**Holm**, SQLite";
pub(crate) const HOLM_POSTGRES: &str = "**Holm**, Postgres";
pub(crate) const OFFICIAL: &str = "`durable-streams`";

const KEY: &str = "benchmark-key-0123456789abcdef";
const START_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: Address,
    child: Child,
    /// Ends after the server that uses it.
    _postgres: Option<PostgresServer>,
}

/// All that can be had here.
pub(crate) fn start_all(folder: &Path, report: &mut Report) -> Result<Vec<Server>> {
    let mut all = vec![Server::holm(HOLM, &folder.join("holm"), None)?];
    match official(&folder.join("official"))? {
        Some(server) => all.push(server),
        None => report.say(
            "\nThe official server is not there to compare with (HOLM_BENCH_DURABLE_STREAMS).\n",
        ),
    }
    match PostgresServer::start_in(folder, &[]) {
        Some(postgres) => {
            let data = folder.join("holm-postgres");
            all.push(Server::holm(HOLM_POSTGRES, &data, Some(postgres))?);
        }
        None => report.say("\nThere is no Postgres on this machine.\n"),
    }
    Ok(all)
}

impl Server {
    pub(crate) fn holm(
        name: &'static str,
        data: &Path,
        postgres: Option<PostgresServer>,
    ) -> Result<Self> {
        let program = std::env::var_os("HOLM_BENCH_HOLM").map(PathBuf::from);
        let program = program.context("HOLM_BENCH_HOLM has to name the program")?;
        let log = data.with_extension("log");
        let mut command = Command::new(&program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("HOLM_API_KEY", KEY)
            .env("HOLM_LOG", "warn");
        if let Some(postgres) = &postgres {
            command.env("HOLM_POSTGRES_URL", postgres.url());
        }
        let child = start(&mut command, &log)?;
        let mut server = Self {
            name,
            address: Address {
                socket: SocketAddr::from(([127, 0, 0, 1], 0)),
                headers: format!("authorization: Bearer {KEY}\r\n"),
            },
            child,
            _postgres: postgres,
        };
        server.address.socket = server.wait(&log, |said| {
            let address = said.split("://").nth(1)?.split('/').next()?;
            address.parse().ok()
        })?;
        Ok(server)
    }

    /// Waits until the server has said something, or can be reached.
    fn wait<T>(&mut self, log: &Path, ready: impl Fn(&str) -> Option<T>) -> Result<T> {
        let until = Instant::now() + START_MAX;
        loop {
            let said = fs::read_to_string(log)?;
            if let Some(found) = ready(&said) {
                return Ok(found);
            }
            if Instant::now() > until || self.child.try_wait()?.is_some() {
                bail!("{} did not start: {said}", self.name);
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Processor time of the server's own process so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let mut total = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may have ended in the meantime.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let nanoseconds = text.split(' ').next().context("a schedstat")?;
            total += Duration::from_nanos(nanoseconds.parse()?);
        }
        Ok(total)
    }

    /// What is resident of the server's own process.
    pub(crate) fn resident_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("memory of the server")?.parse()?)
    }

    pub(crate) fn descriptors(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    /// With no warning, as a crash.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().context("kill the server")?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone, when it was killed.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn start(command: &mut Command, log: &Path) -> Result<Child> {
    let output = fs::File::create(log).context("make the log")?;
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("start {command:?}"))
}

/// The official server in Rust, as it comes: a log that is synced before an append is answered.
fn official(data: &Path) -> Result<Option<Server>> {
    let Some(program) = std::env::var_os("HOLM_BENCH_DURABLE_STREAMS") else {
        return Ok(None);
    };
    // It cannot choose a port itself.
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let log = data.with_extension("log");
    let mut command = Command::new(program);
    command
        .args(["--host", "127.0.0.1", "--port", &free.port().to_string()])
        .arg("--data-dir")
        .arg(data);
    let mut server = Server {
        name: OFFICIAL,
        address: Address {
            socket: free,
            headers: String::new(),
        },
        child: start(&mut command, &log)?,
        _postgres: None,
    };
    server.wait(&log, |_| TcpStream::connect(free).ok())?;
    Ok(Some(server))
}
