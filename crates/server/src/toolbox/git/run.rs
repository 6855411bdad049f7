//! One run of git in a box.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::credentials::Credentials;
use super::failure;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::command::{Collected, TIMEOUT, Wanted, collect};

/// How long a transfer may take, as the SDKs wait for one.
pub(super) const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Transports that only carry data. `ext::` would run a command, `fd::` use our descriptors.
const PROTOCOLS: &str = "http:https:ssh:git:file";

/// A run of git that is being put together.
#[derive(Debug)]
pub(super) struct Git {
    arguments: Vec<OsString>,
    env: Vec<(String, String)>,
    stdin: Vec<u8>,
    timeout: Duration,
    secret: Option<Credentials>,
}

impl Git {
    /// Git outside of any repository.
    pub(super) fn new() -> Self {
        let env = [
            // Messages are read by [`failure`].
            ("LC_ALL", "C"),
            // Nobody is there to be asked.
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("SSH_ASKPASS", "true"),
            ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
            ("GIT_EDITOR", "true"),
            ("GIT_PAGER", "cat"),
            ("GIT_ALLOW_PROTOCOL", PROTOCOLS),
        ];
        Self {
            arguments: Vec::new(),
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            stdin: Vec::new(),
            timeout: TIMEOUT,
            secret: None,
        }
    }

    /// Git in the repository at a client's path.
    pub(super) fn inside(machine: &Machine, path: &str) -> Result<Self> {
        let path = repository_path(machine, path)?;
        Ok(Self::new().arg("-C").arg(path))
    }

    pub(super) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(super) fn args<const COUNT: usize>(mut self, arguments: [&str; COUNT]) -> Self {
        self.arguments.extend(arguments.map(Into::into));
        self
    }

    /// Names that clients chose, after which no option is read.
    pub(super) fn operands<'a>(mut self, operands: impl IntoIterator<Item = &'a String>) -> Self {
        self.arguments.push("--".into());
        self.arguments.extend(operands.into_iter().map(Into::into));
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Lets git show these to the one server that they are for.
    pub(super) fn authenticated(mut self, credentials: Option<Credentials>) -> Self {
        if let Some(credentials) = credentials {
            let mut arguments = credentials.arguments();
            arguments.append(&mut self.arguments);
            self.arguments = arguments;
            self.env.extend(credentials.environment());
            self.secret = Some(credentials);
        }
        self.timeout = TRANSFER_TIMEOUT;
        self
    }

    /// Runs it, whatever comes of it.
    pub(super) async fn outcome(self, machine: &Arc<Machine>) -> Result<Collected> {
        let mut argv = vec![OsString::from("git")];
        argv.extend(self.arguments);
        let wanted = Wanted {
            env: self.env,
            stdin: self.stdin,
            timeout: self.timeout,
            ..Wanted::new(argv)
        };
        let mut done = collect(machine, wanted).await?;
        if let Some(secret) = &self.secret {
            done.stderr = secret.redact(&done.stderr);
        }
        Ok(done)
    }

    /// Runs it; it has to succeed. Gives what it printed.
    pub(super) async fn run(self, machine: &Arc<Machine>) -> Result<Vec<u8>> {
        let done = self.outcome(machine).await?;
        match done.exit_code {
            0 => Ok(done.stdout),
            _ => Err(failure::failure(&done)),
        }
    }

    /// [`run`](Self::run) for one line of text.
    pub(super) async fn line(self, machine: &Arc<Machine>) -> Result<String> {
        let printed = self.run(machine).await?;
        Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
    }
}

/// A repository's path, absolute and so never an option.
pub(super) fn repository_path(machine: &Machine, path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.contains('\0') {
        return Err(ApiError::bad_request(
            "`path` has to name the folder of the repository",
        ));
    }
    Ok(machine.absolute(path))
}

/// A text that git gets as a value: not empty, without what ends an argument, and not like an option.
pub(super) fn value<'a>(name: &str, text: &'a str) -> Result<&'a str> {
    let is_fine = !text.is_empty() && !text.starts_with('-') && !text.contains(['\0', '\n', '\r']);
    if is_fine {
        Ok(text)
    } else {
        Err(ApiError::bad_request(format!(
            "`{}` is no value for `{name}`",
            text.escape_debug()
        )))
    }
}

/// Several of them, of which any text may be but an empty one.
pub(super) fn pathspecs<'a>(name: &str, files: &'a [String]) -> Result<&'a [String]> {
    if files.is_empty()
        || files
            .iter()
            .any(|file| file.is_empty() || file.contains('\0'))
    {
        return Err(ApiError::bad_request(format!("`{name}` has to name files")));
    }
    Ok(files)
}
