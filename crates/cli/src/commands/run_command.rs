//! One command in a sandbox, on behalf of `holm exec` and `holm sandbox exec`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use holm_sandbox::{Exec, ExecOutcome, OutputSink, Redactor, Secret, Stdin, exit_code_for_signal};
use holm_sandbox_backends::daytona::PushResult;
use holm_sandbox_backends::local::LocalSandbox;
use rustix::fs::FileType;
use serde::Serialize;

use super::passthrough::{End, PassThrough, SharedFailure};
use super::{isolation_name, network_name};
use crate::args::CommandArgs;
use crate::environment::Environment;
use crate::error::{CliError, EXIT_TIMED_OUT};
use crate::output::{BranchJson, output_error, say};
use crate::signals::Interruptions;

/// How much of each stream stands in the JSON object; the help text of `--json` says so too.
const JSON_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// `/dev/null`, major and minor: the numbers are the kernel's and never change.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Where a command's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputForm {
    PassedThrough,
    Json,
}

impl OutputForm {
    pub(crate) fn of(args: &CommandArgs) -> Self {
        if args.json {
            Self::Json
        } else {
            Self::PassedThrough
        }
    }
}

/// How it went.
#[derive(Debug)]
pub(crate) enum Ended {
    Ran {
        outcome: ExecOutcome,
        code: u8,
    },
    /// A signal came before it was started, or before anything was known of it.
    NotStarted {
        code: u8,
    },
}

impl Ended {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Ran { code, .. } | Self::NotStarted { code } => *code,
        }
    }
}

/// The result of a command as one JSON object. Names are stable; new ones may be added.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeJson {
    exit_code: u8,
    signal: Option<i32>,
    timed_out: bool,
    truncated: bool,
    duration_ms: u64,
    stdout: String,
    stderr: String,
    sandbox: SandboxJson,
    pub(crate) branches: Vec<BranchJson>,
    pub(crate) warnings: Vec<String>,
    #[serde(rename = "pushResult", skip_serializing_if = "Option::is_none")]
    pub(crate) push_result: Option<PushResult>,
    /// Where the ports that the command served could be seen, if the sandbox's server has such addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previews: Option<Vec<PreviewJson>>,
}

/// The address of a port; whoever has it can see the port for an hour.
#[derive(Debug, Serialize)]
pub(crate) struct PreviewJson {
    pub(crate) port: u16,
    pub(crate) url: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct SandboxJson {
    id: String,
    name: Option<String>,
    isolation: &'static str,
    network: &'static str,
    work_dir: String,
}

impl SandboxJson {
    /// `kept_apart` is how it is isolated, and what it can reach.
    pub(crate) fn new(
        id: String,
        name: Option<String>,
        kept_apart: (&'static str, &'static str),
        work_dir: &Path,
    ) -> Self {
        Self {
            id,
            name,
            isolation: kept_apart.0,
            network: kept_apart.1,
            work_dir: work_dir.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn of(sandbox: &LocalSandbox) -> Self {
        let record = sandbox.record();
        Self::new(
            record.run_id.to_string(),
            record.name.clone(),
            (isolation_name(record), network_name(record)),
            &record.work_dir,
        )
    }
}

impl OutcomeJson {
    pub(crate) fn new(sandbox: SandboxJson, outcome: &ExecOutcome, code: u8) -> Self {
        Self {
            exit_code: code,
            signal: outcome.signal,
            timed_out: outcome.timed_out,
            truncated: outcome.truncated,
            duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            stdout: outcome.stdout_text().into_owned(),
            stderr: outcome.stderr_text().into_owned(),
            sandbox,
            branches: Vec::new(),
            warnings: Vec::new(),
            push_result: None,
            previews: None,
        }
    }
}

/// The command that was asked for. Wrong input is told here, before anything is made.
pub(crate) fn prepare(
    args: CommandArgs,
    cwd: Option<PathBuf>,
    environment: &Environment,
) -> Result<Exec, CliError> {
    let form = OutputForm::of(&args);
    let mut exec = Exec::new(args.argv).output_bytes_max(match form {
        // Nobody looks at what is kept.
        OutputForm::PassedThrough => 0,
        OutputForm::Json => JSON_OUTPUT_BYTES_MAX,
    });
    exec.cwd = cwd;
    exec.timeout = args.timeout;
    exec.stdin = stdin();
    for given in args.env {
        exec = with_variable(exec, &given, environment)?;
    }
    exec.validate()?;
    Ok(exec)
}

/// What the command reads: whatever we read, unless that is a terminal or nothing at all.
fn stdin() -> Stdin {
    let stdin = io::stdin();
    if stdin.is_terminal() || is_null_device(stdin.as_fd()) {
        // Without a pipe and a thread to fill it.
        return Stdin::Closed;
    }
    Stdin::Reader(Box::new(stdin))
}

fn is_null_device(descriptor: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(descriptor).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
            && found.st_rdev == rustix::fs::makedev(NULL_DEVICE.0, NULL_DEVICE.1)
    })
}

/// `NAME=VALUE`, or `NAME` for the caller's own value.
fn with_variable(exec: Exec, given: &OsStr, environment: &Environment) -> Result<Exec, CliError> {
    let bytes = given.as_bytes();
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            let (name, value) = bytes.split_at(at);
            let value = OsStr::from_bytes(value.get(1..).unwrap_or_default());
            (OsStr::from_bytes(name), value.to_owned())
        }
        None => (given, inherited(given, environment)?),
    };
    let name = name.to_string_lossy();
    // By the rule of the library for whole environments: the name tells, and short values are words.
    let redactor = Redactor::from_env([(name.as_ref(), value.clone())]);
    if redactor.secret_bytes_max() == 0 {
        return Ok(exec.env(name, value)?);
    }
    let secret = value.into_string().map_err(|_| CliError::Refused {
        what: format!(
            "the value of `{name}` is not UTF-8, so it could not be kept out of the output"
        ),
        hint: Some("give it a name without KEY, TOKEN, SECRET, PASSWORD and CREDENTIAL".to_owned()),
    })?;
    Ok(exec.secret_env(name, Secret::new(secret))?)
}

fn inherited(name: &OsStr, environment: &Environment) -> Result<OsString, CliError> {
    let value = environment.get(name).map(OsStr::to_owned);
    value.ok_or_else(|| {
        let name = name.to_string_lossy();
        CliError::Refused {
            what: format!("environment variable `{name}` is not set"),
            hint: Some(format!("set it, or give a value: --env {name}=VALUE")),
        }
    })
}

/// Runs it, by the given function. A command that fails is no error; one that could not be run is.
pub(crate) fn run(
    execute: impl FnOnce(Exec, Option<Box<dyn OutputSink>>) -> holm_sandbox::Result<ExecOutcome>,
    exec: Exec,
    form: OutputForm,
    interruptions: &Interruptions,
) -> Result<Ended, CliError> {
    if let Some(signal) = interruptions.before_start() {
        let code = signal_code(signal);
        return Ok(Ended::NotStarted { code });
    }
    let (requests, receiver) = interruptions.running();
    let failure = SharedFailure::default();
    let timeout = exec.timeout;
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let sink: Option<Box<dyn OutputSink>> = match form {
        OutputForm::Json => None,
        OutputForm::PassedThrough => Some(Box::new(PassThrough::new(
            End {
                interruptions: interruptions.clone(),
                requests,
                deadline,
            },
            failure.clone(),
        ))),
    };
    let ran = execute(exec.interrupts(receiver), sink);
    interruptions.cleaning_up();
    let outcome = ran?;
    if let Some(source) = failure.take() {
        return Err(output_error("hand on the command's output", source));
    }
    if let (true, Some(timeout)) = (outcome.timed_out, timeout) {
        say(&format!(
            "timed out: the command was ended after {timeout:?}"
        ));
    }
    let code = match interruptions.killed_by() {
        Some(signal) => signal_code(signal),
        None if outcome.timed_out => EXIT_TIMED_OUT,
        None => code_of(outcome.exit_code),
    };
    Ok(Ended::Ran { outcome, code })
}

/// What is told of a command that a signal ended, or that was not begun because of one.
pub(crate) fn signal_code(signal: i32) -> u8 {
    code_of(exit_code_for_signal(signal))
}

/// The kernel knows no other codes; if a backend does, it must not look like success.
fn code_of(exit_code: i32) -> u8 {
    u8::try_from(exit_code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_codes_are_failures() {
        assert_eq!(code_of(3), 3);
        assert_eq!(code_of(256), 255);
        assert_eq!(code_of(-1), 255);
    }

    #[test]
    fn names_and_lengths_decide_what_is_secret() {
        let environment = Environment::read();
        let exec = ["API_KEY=0123456789", "USE_KEYRING=1", "PLAIN=0123456789"]
            .iter()
            .try_fold(Exec::new(["x"]), |exec, given| {
                with_variable(exec, OsStr::new(given), &environment)
            })
            .unwrap();
        let secret: Vec<&str> = exec.secret_env.keys().map(AsRef::as_ref).collect();
        let plain: Vec<&str> = exec.env.keys().map(AsRef::as_ref).collect();
        assert_eq!(secret, ["API_KEY"]);
        assert_eq!(plain, ["PLAIN", "USE_KEYRING"]);
    }

    #[test]
    fn a_value_may_hold_anything_and_a_name_may_not() {
        let environment = Environment::read();
        let exec = with_variable(Exec::new(["x"]), OsStr::new("A=b=c=\n"), &environment).unwrap();
        assert_eq!(exec.env.values().next().unwrap(), "b=c=\n");
        for wrong in ["=x", "A B=x", "1=x"] {
            assert!(with_variable(Exec::new(["x"]), OsStr::new(wrong), &environment).is_err());
        }
    }
}
