//! One command in a sandbox: what is asked for, and what came of it.
//!
//! **Invariants:** a command is an argv and never a shell string; stdin is closed unless something is given; an
//! [`EnvKey`] that exists is valid; nothing here prints a secret, an environment value or the bytes of stdin.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::path::refuse_nul;
use crate::{Result, SandboxError, Secret};

/// How long one operation may take when nobody says otherwise.
pub const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a whole run may take when nobody says otherwise.
pub const DEFAULT_RUN_TIMEOUT: Duration = Duration::from_secs(3600);

/// How much of each output stream is kept when nobody says otherwise.
pub const MAX_OUTPUT_BYTES: usize = 50 * 1024;

/// The exit code that shells give to a command which a signal ended.
#[must_use]
pub fn exit_code_for_signal(signal: i32) -> i32 {
    128 + signal
}

/// A command to run.
///
/// Not `Clone`: standard input and the channel of interrupts can be used once.
pub struct Exec {
    /// The program and its arguments, handed to the kernel as they are.
    pub argv: Vec<OsString>,
    /// Where it starts; confined. `None` is the sandbox's current directory.
    pub cwd: Option<PathBuf>,
    /// Variables added to the sandbox's own environment.
    pub env: BTreeMap<EnvKey, OsString>,
    /// The same for values that must not be seen; the backend redacts them from the output.
    pub secret_env: BTreeMap<EnvKey, Secret>,
    /// What the command reads.
    pub stdin: Stdin,
    /// When the whole process tree is killed. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// How many bytes of stdout, and how many of stderr, are kept.
    pub output_bytes_max: usize,
    /// Requests to end early, made while the command runs.
    pub interrupts: Option<Receiver<Interrupt>>,
}

impl Exec {
    /// A command with closed stdin, the default timeout and the default cap on output.
    pub fn new<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            secret_env: BTreeMap::new(),
            stdin: Stdin::Closed,
            timeout: Some(DEFAULT_OPERATION_TIMEOUT),
            output_bytes_max: MAX_OUTPUT_BYTES,
            interrupts: None,
        }
    }

    /// Starts the command in this directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Adds a variable. The last value for a key counts, whether plain or secret.
    ///
    /// # Errors
    ///
    /// [`SandboxError::InvalidEnvKey`] for a key that a shell could misread.
    pub fn env(mut self, key: impl AsRef<str>, value: impl Into<OsString>) -> Result<Self> {
        let key = EnvKey::new(key)?;
        self.secret_env.remove(&key);
        self.env.insert(key, value.into());
        Ok(self)
    }

    /// Adds a variable whose value must not be seen.
    ///
    /// # Errors
    ///
    /// [`SandboxError::InvalidEnvKey`] for a key that a shell could misread.
    pub fn secret_env(mut self, key: impl AsRef<str>, value: impl Into<Secret>) -> Result<Self> {
        let key = EnvKey::new(key)?;
        self.env.remove(&key);
        self.secret_env.insert(key, value.into());
        Ok(self)
    }

    /// Gives the command something to read.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Kills the whole process tree after this time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits for ever. Only for a command that a person watches and can interrupt.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Keeps this many bytes of each output stream.
    #[must_use]
    pub fn output_bytes_max(mut self, bytes_max: usize) -> Self {
        self.output_bytes_max = bytes_max;
        self
    }

    /// Listens to these requests while the command runs.
    #[must_use]
    pub fn interrupts(mut self, interrupts: Receiver<Interrupt>) -> Self {
        self.interrupts = Some(interrupts);
        self
    }

    /// What every backend checks before it does anything.
    ///
    /// # Errors
    ///
    /// [`SandboxError::EmptyArgv`] without a program, [`SandboxError::NulByte`] for what the kernel would cut short,
    /// [`SandboxError::Invalid`] for an empty program name or a variable that is both plain and secret.
    pub fn validate(&self) -> Result<()> {
        let Some(program) = self.argv.first() else {
            return Err(SandboxError::EmptyArgv);
        };
        if program.is_empty() {
            return Err(SandboxError::Invalid {
                what: "the program name is empty".to_owned(),
                hint: "the first argument names the program to run".to_owned(),
            });
        }
        for argument in &self.argv {
            refuse_nul(argument, "an argument")?;
        }
        if let Some(cwd) = &self.cwd {
            refuse_nul(cwd.as_os_str(), "the working directory")?;
        }
        for value in self.env.values() {
            refuse_nul(value, "the value of an environment variable")?;
        }
        for (key, secret) in &self.secret_env {
            refuse_nul(secret.expose().as_ref(), "the value of a secret variable")?;
            // The fields are public, so the builder's "last one counts" may have been passed by.
            if self.env.contains_key(key) {
                return Err(SandboxError::Invalid {
                    what: format!("environment variable `{key}` is given twice, plain and secret"),
                    hint: "give it once".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            argv,
            cwd,
            env,
            secret_env,
            stdin,
            timeout,
            output_bytes_max,
            interrupts,
        } = self;
        // Plain values are left out as well: what a user calls plain has been a token before.
        formatter
            .debug_struct("Exec")
            .field("argv", argv)
            .field("cwd", cwd)
            .field("env", &env.keys().collect::<Vec<_>>())
            .field("secret_env", &secret_env.keys().collect::<Vec<_>>())
            .field("stdin", stdin)
            .field("timeout", timeout)
            .field("output_bytes_max", output_bytes_max)
            .field("interrupts", &interrupts.is_some())
            .finish()
    }
}

/// A request to end a command that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Pass SIGINT on and wait for the command to end by itself.
    Drain,
    /// End it now, with all its children.
    Kill,
}

/// What a command reads.
#[derive(Default)]
pub enum Stdin {
    /// End of file at once. Some agents wait for ever on an open stdin.
    #[default]
    Closed,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Whatever this gives, then end of file. It is read on a thread of its own, so it may block.
    Reader(Box<dyn Read + Send>),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => formatter.write_str("Closed"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::Reader(_) => formatter.write_str("Reader(..)"),
        }
    }
}

/// How a command ended, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutcome {
    /// What it exited with; [`exit_code_for_signal`] when a signal ended it. A backend that is told no exit code
    /// reports 1, because a missing code is a failure.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// At most `output_bytes_max` bytes, redacted, plus the marker when more was written.
    pub stdout: Vec<u8>,
    /// The same for stderr.
    pub stderr: Vec<u8>,
    /// From start to end.
    pub duration: Duration,
    /// The timeout ended it; the output up to then is here.
    pub timed_out: bool,
    /// One of the two outputs was cut.
    pub truncated: bool,
}

impl ExecOutcome {
    /// Whether the command ended by itself and said that all was well.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code == 0 && self.signal.is_none() && !self.timed_out
    }

    /// Stdout as text; bytes that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Stderr as text; bytes that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

/// Which of a command's two outputs a chunk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// Whoever wants to see output while it is written.
///
/// Chunks arrive redacted, in the order of their stream, cut anywhere (also inside of a character) and without the
/// cap of the outcome. The call must not block for long: the command waits for it.
pub trait OutputSink: Send + 'static {
    /// Takes the next chunk of a stream.
    fn output(&mut self, stream: OutputStream, chunk: &[u8]);
}

impl<F> OutputSink for F
where
    F: FnMut(OutputStream, &[u8]) + Send + 'static,
{
    fn output(&mut self, stream: OutputStream, chunk: &[u8]) {
        self(stream, chunk);
    }
}

/// The name of an environment variable, `[A-Za-z_][A-Za-z0-9_]*`.
///
/// Remote backends write names into a shell command, where anything else could end the name and begin a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvKey(String);

impl EnvKey {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`SandboxError::InvalidEnvKey`].
    pub fn new(key: impl AsRef<str>) -> Result<Self> {
        let key = key.as_ref();
        let valid = key.bytes().enumerate().all(|(index, byte)| {
            byte == b'_' || byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit())
        });
        if key.is_empty() || !valid {
            return Err(SandboxError::InvalidEnvKey {
                key: key.to_owned(),
            });
        }
        Ok(Self(key.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for EnvKey {
    type Err = SandboxError;

    fn from_str(key: &str) -> Result<Self> {
        Self::new(key)
    }
}

impl AsRef<str> for EnvKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
