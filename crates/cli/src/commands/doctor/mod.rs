//! `holm doctor`: what this machine gives, what is missing and how to get it, and a real box as proof.
//!
//! - `facts` asks the machine, and nothing more.
//! - `checks` decides what the answers mean: functions of plain data.
//! - This file runs the proof and shows the result on one screen.

mod checks;
mod facts;

use std::time::{Duration, Instant};

use clap::builder::styling::{AnsiColor, Style};
use holm_sandbox::{Exec, SandboxError, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice, LocalRuntime};
use holm_sandbox_linux::Limits;
use serde::Serialize;

use self::checks::{Check, Verdict};
use super::Context;
use crate::args::DoctorArgs;
use crate::error::{CliError, one_line};
use crate::output::{self, printable};

/// A box that takes longer than this does not work.
const PROOF_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    version: &'static str,
    /// Whether sandboxes work here.
    works: bool,
    checks: &'a [Check],
}

pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<u8, CliError> {
    let started = context.start();
    let facts = facts::gather(context);
    let mut checks = checks::of_host(&facts);
    let proof = match &started {
        Ok(runtime) => {
            let limits = runtime.engine().hierarchy().availability();
            checks.push(checks::limits(&limits, facts.user));
            checks.push(checks::data_dir(&facts.data_dir));
            prove(runtime)
        }
        Err(error) => checks::proof_failed(one_line(error), None),
    };
    let works = proof.verdict == Verdict::Good;
    checks.push(proof);
    if args.json {
        output::json(&ReportJson {
            version: env!("CARGO_PKG_VERSION"),
            works,
            checks: &checks,
        })?;
    } else {
        output::raw(&screen(&checks, works))?;
    }
    Ok(if works { 0 } else { 1 })
}

/// Makes a box with all limits on, runs a command in it, and removes it.
fn prove(runtime: &std::sync::Arc<LocalRuntime>) -> Check {
    let started = Instant::now();
    let run = || -> Result<(i32, Vec<String>), SandboxError> {
        let sandbox = runtime.create(&CreateOptions {
            isolation: IsolationChoice::Namespaces,
            limits: Limits {
                pids: Some(64),
                ..Limits::default()
            },
            ..CreateOptions::default()
        })?;
        let ran = sandbox.exec_blocking(Exec::new(["/bin/true"]).timeout(PROOF_PATIENCE), None);
        let report = sandbox.teardown_blocking(UncommittedWork::Discard);
        Ok((ran?.exit_code, report.warnings))
    };
    match run() {
        Ok((0, warnings)) if warnings.is_empty() => checks::proof_succeeded(started.elapsed()),
        Ok((0, warnings)) => checks::proof_failed(warnings.join("; "), None),
        Ok((code, _)) => checks::proof_failed(format!("/bin/true ended with code {code}"), None),
        Err(error) => checks::proof_failed(one_line(&error), error.hint()),
    }
}

fn screen(checks: &[Check], works: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let (mark, color) = match check.verdict {
            Verdict::Good => ("✓", AnsiColor::Green),
            Verdict::Limited => ("!", AnsiColor::Yellow),
            Verdict::Missing => ("✗", AnsiColor::Red),
        };
        let style = Style::new().bold().fg_color(Some(color.into()));
        text.push_str(&format!(
            "{style}{mark}{style:#} {:width$}  {}\n",
            check.name,
            printable(&check.detail)
        ));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("  {:width$}  fix: {}\n", "", printable(fix)));
        }
    }
    text.push_str(if works {
        "\nsandboxes work on this machine\n"
    } else {
        "\nsandboxes do not work on this machine yet; `--isolation none` runs commands unprotected\n"
    });
    text
}
