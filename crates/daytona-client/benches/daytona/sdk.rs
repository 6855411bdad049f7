//! The official SDKs, each in a process that lives as long as the measurement and takes its own time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::report::Report;
use crate::subject::{KEY, Subject};

#[derive(Debug)]
pub(crate) struct Sdk {
    pub(crate) name: &'static str,
    _process: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// Those that are installed, with a sandbox in hand.
pub(crate) async fn start_all(
    subject: &Subject,
    sandbox: &str,
    file: &Path,
    report: &mut Report,
) -> Result<Vec<Sdk>> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sdk/bench");
    let python = std::env::var_os("HOLM_BENCH_PYTHON").map(PathBuf::from);
    let typescript = std::env::var_os("HOLM_BENCH_TYPESCRIPT").map(PathBuf::from);
    let node = typescript.as_ref().map(|_| PathBuf::from("node"));
    let typescript = typescript.unwrap_or_default().join("programs/client.mjs");
    let mut all = Vec::new();
    for (name, interpreter, script) in [
        ("Python SDK", python, programs.join("client.py")),
        ("TypeScript SDK", node, typescript),
    ] {
        let Some(interpreter) = interpreter else {
            report.note(format!("the {name} is not installed, and was left out"));
            continue;
        };
        let mut process = Command::new(&interpreter)
            .arg(&script)
            .args([sandbox.as_ref(), file.as_os_str()])
            .env("DAYTONA_API_URL", &subject.api_url)
            .env("DAYTONA_API_KEY", KEY)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start the {name}"))?;
        let to = process.stdin.take().context("no way to it")?;
        let from = process.stdout.take().context("no way from it")?;
        all.push(Sdk {
            name,
            _process: process,
            to,
            from: BufReader::new(from).lines(),
        });
    }
    Ok(all)
}

impl Sdk {
    /// Does it once, and says how long that took.
    pub(crate) async fn time(&mut self, what: &str) -> Result<Duration> {
        let failed = || format!("{}, {what}", self.name);
        self.to
            .write_all(format!("{what}\n").as_bytes())
            .await
            .with_context(failed)?;
        let line = self.from.next_line().await.with_context(failed)?;
        let milliseconds: f64 = line.with_context(failed)?.parse().with_context(failed)?;
        Ok(Duration::from_secs_f64(milliseconds / 1_000.0))
    }
}
