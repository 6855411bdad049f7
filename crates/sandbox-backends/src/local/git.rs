//! The git command line, called in one way: no prompts, no hooks, no inherited `GIT_*`, bounded in time
//! and output, and as the owner of the repository, so that root leaves no root-owned file in it. `gh` is called in the same way.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_sandbox::{Result, SandboxError};
use holm_sandbox_linux::plain::PlainCommand;
use holm_sandbox_linux::pump::{Cause, Pump, Source};
use holm_sandbox_linux::{EngineError, Exit, Owner};

use super::config::LocalConfig;

/// Longer than any honest git command here; a hung filter or a dead network disk ends it.
const GIT_PATIENCE: Duration = Duration::from_secs(600);
/// Refs and configuration of a very large repository fit; more is not expected from these commands.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// One call of git.
#[derive(Debug, Clone)]
pub(crate) struct GitCommand {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    user: Option<Owner>,
}

/// What git said.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl GitCommand {
    /// A command in `directory`, run as `user` if given.
    pub(crate) fn new(config: &LocalConfig, directory: &Path, user: Option<Owner>) -> Self {
        Self::program("git", config, directory, user).args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "gc.auto=0",
        ])
    }

    /// The same for GitHub's own command line, which calls git in its turn.
    pub(crate) fn gh(config: &LocalConfig, directory: &Path, user: Option<Owner>) -> Self {
        let gh = Self::program("gh", config, directory, user);
        gh.env("GH_PROMPT_DISABLED", "1").env("NO_COLOR", "1")
    }

    fn program(name: &str, config: &LocalConfig, directory: &Path, user: Option<Owner>) -> Self {
        let inherited = config.environment.iter().filter(|(key, _)| {
            let key = key.to_string_lossy();
            !key.starts_with("GIT_") && !key.starts_with("LC_") && key != "LANG"
        });
        let mut environment: Vec<(OsString, OsString)> = inherited.cloned().collect();
        if let Some(home) = user.and_then(|user| home_of(user.uid)) {
            environment.retain(|(key, _)| key != "HOME" && key != "XDG_CONFIG_HOME");
            environment.push(("HOME".into(), home.into()));
        }
        for (key, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LC_ALL", "C"),
            ("GIT_OPTIONAL_LOCKS", "0"),
        ] {
            environment.push((key.into(), value.into()));
        }
        Self {
            arguments: vec![name.into()],
            environment,
            cwd: directory.to_path_buf(),
            user,
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((key.into(), value.as_ref().to_owned()));
        self
    }

    /// Runs it, whatever its exit code.
    pub(crate) fn output(self, doing: &str) -> Result<GitOutput> {
        self.output_with(doing, None)
    }

    /// Runs it with a file as standard input.
    pub(crate) fn output_with(self, doing: &str, stdin: Option<File>) -> Result<GitOutput> {
        let program = self.arguments.first().cloned().unwrap_or_default();
        let program = program.to_string_lossy();
        let failed = |source: std::io::Error| SandboxError::Backend {
            doing: format!("run {program} to {doing}"),
            hint: None,
            source: source.into(),
        };
        let stdin = match stdin {
            Some(file) => OwnedFd::from(file),
            None => OwnedFd::from(File::open("/dev/null").map_err(failed)?),
        };
        let (stdout, stdout_inside) = std::io::pipe().map_err(failed)?;
        let (stderr, stderr_inside) = std::io::pipe().map_err(failed)?;
        let command = PlainCommand {
            argv: self.arguments,
            env: self.environment,
            cwd: self.cwd,
            user: self.user,
        };
        let process = command
            .start([stdin, stdout_inside.into(), stderr_inside.into()])
            .map_err(|error| {
                if matches!(error, EngineError::CommandNotFound { .. }) {
                    return SandboxError::Git {
                        doing: doing.into(),
                        detail: format!("{program} is not installed"),
                        hint: Some(format!(
                            "install it, for instance with `apt-get install {program}`"
                        )),
                    };
                }
                SandboxError::Backend {
                    doing: format!("run {program} to {doing}"),
                    hint: None,
                    source: error.into(),
                }
            })?;
        let pump = Pump {
            stdout: stdout.into(),
            stderr: stderr.into(),
            deadline: Some(Instant::now() + GIT_PATIENCE),
            interruptions: None,
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ended = pump
            .run(&process, &mut |source, piece| {
                let kept = match source {
                    Source::Stdout => &mut out,
                    Source::Stderr => &mut err,
                };
                let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
            })
            .map_err(|source| SandboxError::Backend {
                doing: format!("run {program} to {doing}"),
                hint: None,
                source: source.into(),
            })?;
        if out.len() >= OUTPUT_BYTES_MAX || ended.cause != Cause::Itself {
            return Err(SandboxError::Git {
                doing: doing.into(),
                detail: format!("{program} took too long or said too much"),
                hint: None,
            });
        }
        Ok(GitOutput {
            success: ended.exit == Exit::Code(0),
            stdout: out,
            stderr: String::from_utf8_lossy(&err).trim().to_owned(),
        })
    }

    /// Runs it and returns its standard output; a failure is an error with what git said.
    pub(crate) fn run(self, doing: &str) -> Result<Vec<u8>> {
        let output = self.output(doing)?;
        if output.success {
            Ok(output.stdout)
        } else {
            Err(output.error(doing))
        }
    }
}

impl GitOutput {
    pub(crate) fn error(&self, doing: &str) -> SandboxError {
        let said = self.stderr.lines().find(|line| !line.trim().is_empty());
        let said = said.map_or("git failed and said nothing", |line| {
            line.trim_start_matches("fatal: ")
                .trim_start_matches("error: ")
        });
        SandboxError::Git {
            doing: doing.into(),
            detail: said.to_owned(),
            hint: None,
        }
    }
}

/// The home of a user, from the account database's file.
fn home_of(uid: u32) -> Option<String> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let id = fields.nth(2)?.parse::<u32>().ok()?;
        (id == uid)
            .then(|| fields.nth(2).map(str::to_owned))
            .flatten()
    })
}

/// Text that git printed, without its final newline.
pub(crate) fn text(output: &[u8]) -> String {
    let output = output.strip_suffix(b"\n").unwrap_or(output);
    String::from_utf8_lossy(output).into_owned()
}
