//! `cargo xtask ci`: everything that must hold for a commit, in order, stopping at what fails.

use std::process::ExitCode;
use std::time::Instant;

use crate::generate::Mode;
use crate::ordinary_user::run_tests_as_ordinary_user;
use crate::process::{Outcome, TestRun, cargo, run, run_tests};
use crate::setup::Purpose;
use crate::{generate, sdk, setup, tidy, workspace};

/// The closing lines of the test runs, which are said again at the very end.
#[derive(Debug, Default)]
struct ClosingLines {
    ordinary_user: Option<String>,
    all: Option<String>,
}

/// Whoever reads only the last line of a log reads how the tests went, so that line comes after
/// everything else, an error included.
pub(crate) fn run_all() -> ExitCode {
    let mut closing_lines = ClosingLines::default();
    let started = Instant::now();
    let outcome = run_steps(&mut closing_lines);
    let seconds = started.elapsed().as_secs();
    let code = match &outcome {
        Ok(()) => {
            eprintln!("\nci: all steps passed in {seconds} s");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("\nerror: {failure}\nci: failed after {seconds} s");
            ExitCode::FAILURE
        }
    };
    let ClosingLines { all, ordinary_user } = closing_lines;
    let mut runs = [
        ("tests as an ordinary user", ordinary_user),
        ("all tests", all),
    ];
    if outcome.is_err() {
        // The run that came later is the one that failed.
        runs.reverse();
    }
    for (name, line) in runs {
        if let Some(line) = line {
            eprintln!("{name}:\n{line}");
        }
    }
    code
}

fn run_steps(closing_lines: &mut ClosingLines) -> Outcome {
    step("setup", || setup::run(Purpose::Tests))?;
    step("format", || run(&mut cargo(&["fmt", "--check"])))?;
    step("clippy", || {
        run(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("tidy", tidy::run)?;
    step("generated pages", || generate::run(Mode::Check))?;
    step("tests", || {
        let arguments = ["nextest", "run", "--workspace", "--profile", "ci"];
        let TestRun {
            closing_line,
            outcome,
        } = run_tests(&mut cargo(&arguments));
        closing_lines.all = closing_line;
        outcome
    })?;
    step("official SDKs", sdk::run_all)?;
    step("documentation tests", || {
        run(&mut cargo(&["test", "--doc", "--workspace"]))
    })?;
    step("tests as an ordinary user", || {
        let Some(run) = run_tests_as_ordinary_user()? else {
            return Ok(());
        };
        closing_lines.ordinary_user = run.closing_line;
        run.outcome
    })?;
    step("dependencies", check_dependencies)
}

fn step(name: &str, act: impl FnOnce() -> Outcome) -> Outcome {
    eprintln!("\n==> {name}");
    let started = Instant::now();
    let outcome = act();
    let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
    eprintln!(
        "<== {name}: {verdict} in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    outcome
}

/// cargo-deny takes minutes to compile, so it is used where it is and not fetched.
fn check_dependencies() -> Outcome {
    if workspace::find_program("cargo-deny").is_none() {
        eprintln!(
            "SKIPPED: cargo-deny is not installed, so licenses, bans and sources of the dependencies \
             were NOT checked (`cargo install cargo-deny --locked`, about 4 minutes)"
        );
        return Ok(());
    }
    run(&mut cargo(&[
        "deny", "check", "licenses", "bans", "sources",
    ]))
}
