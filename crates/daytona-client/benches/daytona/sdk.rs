//! The official SDKs, each in a process that lives as long as the measurement and takes its own time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::Report;
use crate::subject::{KEY, Subject};

#[derive(Debug)]
pub(crate) struct Sdk {
    pub(crate) name: &'static str,
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Those that are installed, with a sandbox in hand.
pub(crate) fn start_all(
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
            .spawn()
            .with_context(|| format!("start the {name}"))?;
        let to = process.stdin.take().context("no way to it")?;
        let from = process.stdout.take().context("no way from it")?;
        all.push(Sdk {
            name,
            process,
            to,
            from: BufReader::new(from),
        });
    }
    Ok(all)
}

impl Sdk {
    /// Does it once, and says how long that took. Blocks: while it works, nobody else does.
    pub(crate) fn time(&mut self, what: &str) -> Result<Duration> {
        let failed = || format!("{}, {what}", self.name);
        let mut line = String::new();
        writeln!(self.to, "{what}").with_context(failed)?;
        self.from.read_line(&mut line).with_context(failed)?;
        let milliseconds: f64 = line.trim().parse().with_context(failed)?;
        Ok(Duration::from_secs_f64(milliseconds / 1_000.0))
    }
}

impl Drop for Sdk {
    fn drop(&mut self) {
        // Already gone, when it failed.
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}
