//! Programs of the system that make images: their output line by line, ended with everything they started.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_sandbox_linux::Exit;
use holm_sandbox_linux::cgroup::BoxGroup;
use holm_sandbox_linux::plain::PlainCommand;
use holm_sandbox_linux::pump::{Cause, Interruption, Pump};

use crate::error::{ImagesError, Result};
use crate::store::free_bytes;
use crate::watch::{CANCEL_POLL, Progress, Watch};

/// Where programs are looked for, whatever the caller's environment says.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Kept for the error when it fails.
const LAST_LINES: usize = 12;

/// Waits for a line, so that the program is in its control group before it does anything.
const GATE: [&str; 4] = ["sh", "-c", "read -r _ && exec \"$@\"", "sh"];

/// What a program may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) free_bytes_min: u64,
    pub(crate) group: Option<&'a BoxGroup>,
}

/// A program, and the Debian package that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

impl Program {
    pub(crate) fn check_installed(self) -> Result<()> {
        let is_there = |folder: &str| Path::new(folder).join(self.name).is_file();
        if PATH.split(':').any(is_there) {
            return Ok(());
        }
        Err(ImagesError::ProgramMissing {
            program: self.name,
            package: self.package,
        })
    }

    fn failed(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ImagesError {
        ImagesError::Run {
            program: self.name,
            source: source.into(),
        }
    }

    /// Runs `argv`, in which this program does the work, perhaps started by another one. It is ended
    /// when the caller cancels, at the deadline, and when less than `free_bytes_min` is left where `cwd` is.
    pub(crate) fn run(
        self,
        argv: Vec<OsString>,
        cwd: &Path,
        bounds: Bounds<'_>,
        watch: &Watch<'_>,
    ) -> Result<()> {
        self.check_installed()?;
        let failed = |source: std::io::Error| self.failed(source);
        let (stdout, stdout_inside) = std::io::pipe().map_err(failed)?;
        let (interruptions, mut interrupt) = std::io::pipe().map_err(failed)?;
        let (stdin_inside, mut gate) = std::io::pipe().map_err(failed)?;
        let streams: [OwnedFd; 3] = [
            stdin_inside.into(),
            stdout_inside.try_clone().map_err(failed)?.into(),
            stdout_inside.into(),
        ];
        // Both streams are one, so that lines stay in order; the pump wants two.
        let (stderr, _) = std::io::pipe().map_err(failed)?;
        let command = PlainCommand {
            argv: GATE.map(OsString::from).into_iter().chain(argv).collect(),
            env: [("PATH", PATH), ("LC_ALL", "C.UTF-8"), ("HOME", "/root")]
                .map(|(key, value)| (key.into(), value.into()))
                .into(),
            cwd: cwd.to_path_buf(),
            user: None,
        };
        let process = command.start(streams).map_err(|error| self.failed(error))?;
        if let (Some(group), Some(pid)) = (bounds.group, process.pid()) {
            group.attach(pid).map_err(|error| self.failed(error))?;
        }
        gate.write_all(b"\n").map_err(failed)?;
        drop(gate);
        let pump = Pump {
            stdout: stdout.into(),
            stderr: stderr.into(),
            deadline: Some(watch.deadline),
            interruptions: Some(interruptions.as_fd()),
        };
        let mut lines = Lines::default();
        let stopped = Mutex::new(None);
        let is_done = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let guard = scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    if let Err(error) = check(cwd, bounds.free_bytes_min, watch) {
                        if let Ok(mut stopped) = stopped.lock() {
                            *stopped = Some(error);
                        }
                        // Nobody reads any more: then it has ended by itself.
                        drop(interrupt.write_all(&[Interruption::Kill as u8]));
                        return;
                    }
                    std::thread::park_timeout(CANCEL_POLL);
                }
            });
            let ended = pump.run(&process, &mut |_, piece| lines.take(piece, watch));
            is_done.store(true, Ordering::Release);
            guard.thread().unpark();
            ended
        });
        lines.end(watch);
        let ended = ended.map_err(|error| self.failed(error))?;
        if ended.exit == Exit::Code(0) && ended.cause == Cause::Itself {
            return Ok(());
        }
        if let Ok(Some(error)) = stopped.into_inner() {
            return Err(error);
        }
        if ended.cause == Cause::Deadline {
            return Err(ImagesError::DeadlinePassed);
        }
        Err(ImagesError::ProgramFailed {
            program: self.name,
            exit: match ended.exit {
                Exit::Code(code) => format!("exit code {code}"),
                Exit::Signal(signal) => format!("ended by signal {signal}"),
                Exit::Lost => "lost".to_owned(),
            },
            last_lines: lines.last.into_iter().collect::<Vec<_>>().join("\n"),
        })
    }
}

fn check(path: &Path, free_bytes_min: u64, watch: &Watch<'_>) -> Result<()> {
    watch.check()?;
    let free_bytes = free_bytes(path)?;
    if free_bytes < free_bytes_min {
        return Err(ImagesError::DiskFull {
            path: path.to_path_buf(),
            free_bytes,
        });
    }
    Ok(())
}

/// Cuts output into lines. What a program writes is shown to people, so control characters are left out.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    last: VecDeque<String>,
}

impl Lines {
    fn take(&mut self, piece: &[u8], watch: &Watch<'_>) {
        for byte in piece {
            let is_end = matches!(byte, b'\n' | b'\r');
            if !is_end {
                self.line.push(*byte);
            }
            if (is_end && !self.line.is_empty()) || self.line.len() >= LINE_BYTES_MAX {
                self.end(watch);
            }
        }
    }

    fn end(&mut self, watch: &Watch<'_>) {
        let line = std::mem::take(&mut self.line);
        let line: String = String::from_utf8_lossy(&line)
            .chars()
            .filter(|char| !char.is_control() || *char == '\t')
            .collect();
        if line.is_empty() {
            return;
        }
        (watch.progress)(Progress::Line(&line));
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Cancel;

    const SHELL: Program = Program {
        name: "sh",
        package: "dash",
    };

    fn run(script: &str, cancel: &Cancel, patience: Duration) -> (Result<()>, Vec<String>) {
        let told = Mutex::new(Vec::new());
        let progress = |progress: Progress<'_>| {
            if let Progress::Line(line) = progress {
                told.lock().unwrap().push(line.to_owned());
                if line == "cancel me" {
                    cancel.cancel();
                }
            }
        };
        let watch = Watch {
            cancel,
            deadline: Instant::now() + patience,
            progress: &progress,
        };
        let argv = ["sh", "-c", script].map(OsString::from).into();
        let bounds = Bounds {
            free_bytes_min: 0,
            group: None,
        };
        let outcome = SHELL.run(argv, Path::new("/"), bounds, &watch);
        (outcome, told.into_inner().unwrap())
    }

    #[test]
    fn output_comes_in_lines_of_both_streams() {
        let script = r"printf 'a\nb' ; echo c >&2; printf '\033[31mred\r\n\n'; printf end";
        let (outcome, lines) = run(script, &Cancel::new(), Duration::from_secs(20));
        outcome.unwrap();
        assert_eq!(lines, ["a", "bc", "[31mred", "end"]);
    }

    #[test]
    fn a_failure_shows_the_last_lines() {
        let script = "for n in $(seq 30); do echo line $n; done; exit 3";
        let (outcome, lines) = run(script, &Cancel::new(), Duration::from_secs(20));
        let error = outcome.unwrap_err().to_string();
        assert!(
            error.starts_with("`sh` failed (exit code 3):\nline 19\n"),
            "{error}"
        );
        assert_eq!(lines.len(), 30);
    }

    #[test]
    fn what_it_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let fifo = fifo.display();
        // A process in a session of its own, which ignores the polite signal and holds the FIFO's other side.
        let script = format!(
            "mkfifo {fifo}; setsid sh -c 'trap \"\" TERM; echo cancel me; sleep 1000; sleep 1000' 3<>{fifo} & wait"
        );
        let began = Instant::now();
        let (outcome, _) = run(&script, &Cancel::new(), Duration::from_secs(60));
        assert!(
            matches!(outcome, Err(ImagesError::Cancelled)),
            "{outcome:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(20));
        // Without a reader, opening for writing fails at once.
        let open = rustix::fs::open(
            fifo.to_string(),
            rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK,
            rustix::fs::Mode::empty(),
        );
        assert_eq!(open.err(), Some(rustix::io::Errno::NXIO));
        let (outcome, _) = run("sleep 1000", &Cancel::new(), Duration::from_millis(200));
        assert!(
            matches!(outcome, Err(ImagesError::DeadlinePassed)),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_missing_program_says_what_to_install() {
        let missing = Program {
            name: "no-such-builder",
            package: "builder",
        };
        let error = missing.check_installed().unwrap_err().to_string();
        assert_eq!(
            error,
            "`no-such-builder` is not installed: run `apt-get install builder`"
        );
    }
}
