//! The server: a process of its own, as users start it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub(crate) const KEY: &str = "benchmark-key-0123456789abcdef";
const START_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    /// What `DAYTONA_API_URL` is.
    pub(crate) api_url: String,
}

impl Subject {
    pub(crate) fn start(data: &Path) -> Result<Self> {
        let holm = std::env::var_os("HOLM_BENCH_HOLM").map(PathBuf::from);
        let holm = holm.context("HOLM_BENCH_HOLM has to name the program")?;
        let log_path = data.with_extension("log");
        let log = fs::File::create(&log_path).context("make the log")?;
        let child = Command::new(&holm)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
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
            api_url: String::new(),
        };
        let until = Instant::now() + START_MAX;
        loop {
            let said = fs::read_to_string(&log_path)?;
            let address = said.split("://").nth(1);
            let address = address.and_then(|rest| rest.split_once('/'));
            if let Some((address, _)) = address {
                subject.api_url = format!("http://{address}/api");
                return Ok(subject);
            }
            if Instant::now() > until || subject.child.try_wait()?.is_some() {
                bail!("the server did not start: {said}");
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
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
