//! Starting other programs, and saying what went wrong with them.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::workspace;

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A message for the developer; there is nothing to be done about it in code.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Says what was being done when an I/O error came.
pub(crate) trait Context<T> {
    fn context(self, doing: impl fmt::Display) -> Outcome<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, doing: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure::new(format!("could not {doing}: {error}")))
    }
}

/// The Cargo that runs this tool, in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(arguments)
        .current_dir(workspace::root())
        // Said again, because a relative one would now be taken from another folder.
        .env("CARGO_TARGET_DIR", workspace::target());
    command
}

pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    command
}

/// Runs a command that must succeed; its output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = display(command);
    let status = command.status().context(format_args!("start `{line}`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{line}` failed with {status}")))
    }
}

/// Runs a command and gives what it wrote to its standard output.
pub(crate) fn capture(command: &mut Command) -> Outcome<String> {
    let line = display(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context(format_args!("start `{line}`"))?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "`{line}` failed with {}",
            output.status
        )));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("`{line}` wrote something that is not UTF-8")))
}

/// What nextest said at its end, and how it went.
#[derive(Debug)]
pub(crate) struct TestRun {
    /// Missing when it did not get as far as running tests.
    pub(crate) closing_line: Option<String>,
    pub(crate) outcome: Outcome,
}

/// Runs nextest, shows what it says while it says it, and remembers its closing line.
pub(crate) fn run_tests(command: &mut Command) -> TestRun {
    let mut closing_line = None;
    let outcome = run_and_read(command, |line| {
        if is_closing_line(line) {
            closing_line = Some(line.to_owned());
        }
    });
    TestRun {
        closing_line,
        outcome,
    }
}

fn run_and_read(command: &mut Command, mut read: impl FnMut(&str)) -> Outcome {
    let line = display(command);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .context(format_args!("start `{line}`"))?;
    if let Some(stderr) = child.stderr.take() {
        for said in BufReader::new(stderr).split(b'\n') {
            let said = said.context(format_args!("read from `{line}`"))?;
            let said = String::from_utf8_lossy(&said);
            writeln!(io::stderr(), "{said}").context("write to standard error")?;
            read(&said);
        }
    }
    let status = child.wait().context(format_args!("wait for `{line}`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{line}` failed with {status}")))
    }
}

fn is_closing_line(line: &str) -> bool {
    line.contains("Summary") && (line.contains(" tests run:") || line.contains(" test run:"))
}

/// A command as a reader would type it: the program without its folder.
fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy()),
    );
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line_is_told_from_other_lines() {
        for line in [
            "     Summary [   0.004s] 21 tests run: 21 passed, 0 skipped",
            "     Summary [   0.004s] 1 test run: 1 passed, 3 skipped",
            "     Summary [   0.004s] 3/7 tests run: 2 passed, 1 failed, 0 skipped",
        ] {
            assert!(is_closing_line(line), "{line}");
        }
        for line in [
            "        PASS [   0.004s] xtask summary",
            "# Summary",
            "Summary of tests",
        ] {
            assert!(!is_closing_line(line), "{line}");
        }
    }

    #[test]
    fn commands_are_shown_as_typed() {
        assert_eq!(
            display(&program("/usr/bin/git", &["log", "-1"])),
            "git log -1"
        );
    }

    #[test]
    fn test_run_keeps_the_closing_line_and_the_failure() {
        let script = "echo 'Summary [ 1s] 2 tests run: 1 passed' >&2; echo other >&2; exit 3";
        let run = run_tests(&mut program("sh", &["-c", script]));
        assert_eq!(
            run.closing_line.as_deref(),
            Some("Summary [ 1s] 2 tests run: 1 passed")
        );
        assert!(
            run.outcome
                .unwrap_err()
                .to_string()
                .contains("exit status: 3")
        );
    }
}
