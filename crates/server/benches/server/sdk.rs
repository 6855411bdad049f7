//! The same through the official SDKs, which bring their own cost: two processes, JSON, events.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::report::{Report, Samples};
use crate::subject::{KEY, Subject};

/// Through an SDK there is more to wait for, so fewer rounds do.
const ROUNDS_MAX: usize = 50;
const BURSTS: [usize; 2] = [50, 100];

pub(crate) fn run(subject: &Subject, rounds: usize, report: &mut Report) -> Result<()> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sdk/bench");
    let mut rows = Vec::new();
    let python = std::env::var_os("HOLM_BENCH_PYTHON").map(PathBuf::from);
    let typescript = std::env::var_os("HOLM_BENCH_TYPESCRIPT").map(PathBuf::from);
    for (name, interpreter, script) in [
        ("Python SDK", python, programs.join("interactive.py")),
        (
            "TypeScript SDK",
            typescript.as_ref().map(|_| PathBuf::from("node")),
            typescript
                .unwrap_or_default()
                .join("programs/interactive.mjs"),
        ),
    ] {
        let Some(interpreter) = interpreter else {
            report.note(format!("the {name} is not installed, and was left out"));
            continue;
        };
        let rounds = rounds.min(ROUNDS_MAX);
        let wanted =
            std::iter::once(("sequential", rounds)).chain(BURSTS.map(|size| ("burst", size)));
        for (mode, count) in wanted {
            let mut command = Command::new(&interpreter);
            command.arg(&script).args([mode, &count.to_string()]);
            match measure(subject, &mut command) {
                Ok(samples) => {
                    if samples.count() < count {
                        let failed = count - samples.count();
                        report.note(format!("{name}, {mode}: {failed} of {count} failed"));
                    }
                    rows.push((format!("{name}, {mode} of {count}"), samples));
                }
                Err(error) => report.note(format!("{name}, {mode} of {count}: {error:#}")),
            }
        }
    }
    let rows: Vec<(&str, &Samples)> = rows
        .iter()
        .map(|(name, samples)| (name.as_str(), samples))
        .collect();
    if !rows.is_empty() {
        report.times("Create to first output, through the SDKs", &rows, 0);
    }
    Ok(())
}

/// Runs a program that prints a JSON list of milliseconds.
fn measure(subject: &Subject, command: &mut Command) -> Result<Samples> {
    let output = command
        .env("DAYTONA_API_URL", format!("http://{}/api", subject.address))
        .env("DAYTONA_API_KEY", KEY)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start the program")?;
    if !output.status.success() {
        bail!("the program ended with {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("the program said nothing")?;
    Ok(Samples::of_milliseconds(serde_json::from_str(last)?))
}
