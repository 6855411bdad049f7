//! The C program of the floor, as a process that answers line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Separates the fields of a command in a line.
const FIELD_SEPARATOR: &str = "\u{1f}";

/// A running `floor`.
pub(crate) struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("take the helper's output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// One line there, one line of numbers back.
    pub(crate) fn ask(&mut self, line: &str) -> Result<Vec<u64>> {
        let input = self.input.as_mut().context("the helper has ended")?;
        input.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        if answer.is_empty() {
            bail!("the helper gave up at `{line}`");
        }
        let numbers = answer.split_ascii_whitespace().map(str::parse);
        numbers
            .collect::<std::result::Result<_, _>>()
            .with_context(|| format!("read the helper's answer `{answer}`"))
    }

    /// A box of the floor.
    pub(crate) fn make_box(&mut self) -> Result<Duration> {
        let numbers = self.ask("box")?;
        let nanoseconds = numbers.first().context("no time in the answer")?;
        Ok(Duration::from_nanos(*nanoseconds))
    }

    /// Runs a command where the helper is; its clock runs there too.
    pub(crate) fn run(&mut self, argv: &[String]) -> Result<Duration> {
        let numbers = self.ask(&argv.join(FIELD_SEPARATOR))?;
        let [nanoseconds, status] = numbers.as_slice() else {
            bail!("the helper's answer has {} numbers", numbers.len());
        };
        if *status != 0 {
            bail!("`{}` ended with {status}", argv.join(" "));
        }
        Ok(Duration::from_nanos(*nanoseconds))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The end of its input is its end.
        drop(self.input.take());
        drop(self.child.wait());
    }
}

/// Compiles the floor; static where the C library allows it, because that starts faster.
pub(crate) fn compile_floor(program: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/start/floor.c");
    let compile = |kind: &[&str]| -> Result<bool> {
        let status = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(program)
            .args(kind)
            .arg(&source)
            .stderr(Stdio::null())
            .status()
            .context("start the C compiler `cc`")?;
        Ok(status.success())
    };
    if compile(&["-static"])? || compile(&[])? {
        return Ok(());
    }
    bail!("`cc` could not compile `{}`", source.display())
}
