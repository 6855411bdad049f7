//! The server that is measured: a process of its own, as users start it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::http::Connection;

pub(crate) const KEY: &str = "benchmark-key-0123456789abcdef";
const START_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Subject {
    pub(crate) fn start(data: &Path) -> Result<Self> {
        let holm = std::env::var_os("HOLM_BENCH_HOLM").map(PathBuf::from);
        let holm = holm.context("HOLM_BENCH_HOLM has to name the program")?;
        let log_path = data.with_extension("log");
        let log = fs::File::create(&log_path).context("make the log")?;
        let child = Command::new(&holm)
            .args(["serve", "--listen", "127.0.0.1:0", "--sandboxes-max"])
            .args(["5000", "--data"])
            .arg(data)
            .env("HOLM_API_KEY", KEY)
            .env("HOLM_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start `{}`", holm.display()))?;
        let mut subject = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let until = Instant::now() + START_MAX;
        loop {
            let said = fs::read_to_string(&log_path)?;
            let address = said
                .split("://")
                .nth(1)
                .and_then(|rest| rest.split('/').next());
            if let Some(address) = address {
                subject.address = address.parse().context("read the server's address")?;
                return Ok(subject);
            }
            if Instant::now() > until || subject.child.try_wait()?.is_some() {
                bail!("the server did not start: {said}");
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, KEY)
    }

    /// Memory of the server's own process, in KiB: what is resident, and what of it is its own alone.
    pub(crate) fn resident_kib(&self) -> Result<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            Ok(number
                .with_context(|| format!("{name} of the server"))?
                .parse()?)
        };
        Ok((field("VmRSS:")?, field("RssAnon:")?))
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the server ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Already gone, when it was stopped.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

pub(crate) fn create(connection: &mut Connection) -> Result<String> {
    let made = connection.ask("POST", "/api/sandbox", &json!({ "autoStopInterval": 0 }))?;
    Ok(made["id"].as_str().context("no id")?.to_owned())
}

pub(crate) fn execute(connection: &mut Connection, id: &str, command: &str) -> Result<String> {
    let path = format!("/toolbox/{id}/process/execute");
    let answer = connection.ask("POST", &path, &json!({ "command": command }))?;
    if answer["exitCode"] != 0 {
        bail!("`{command}` failed: {answer}");
    }
    Ok(answer["result"].as_str().unwrap_or_default().to_owned())
}

pub(crate) fn delete(connection: &mut Connection, id: &str) -> Result<()> {
    connection.ask("DELETE", &format!("/api/sandbox/{id}"), &Value::Null)?;
    Ok(())
}
