//! Small scripts in a sandbox, by one call each.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_daytona_client::Toolbox;
use holm_daytona_client::wire::process::ExecuteRequest;
use holm_sandbox::{Result, SandboxError, shell_quote};

use super::errors::{refused, remote};
use super::script;

/// For what takes no time by itself.
const SCRIPT_SECONDS: u64 = 60;

/// What a script said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) text: String,
}

/// Runs a shell command, outputs merged. `doing` is what follows "could not".
pub(super) async fn run(toolbox: &Toolbox, doing: &str, command: String) -> Result<Said> {
    let request = ExecuteRequest {
        command,
        timeout: Some(SCRIPT_SECONDS),
        ..ExecuteRequest::default()
    };
    let answer = toolbox.process().execute(&request).await;
    let answer = answer.map_err(|error| remote(doing, error))?;
    Ok(Said {
        code: answer.exit_code,
        text: answer.result,
    })
}

/// Runs a program that has to succeed, and gives what it printed.
pub(super) async fn program(
    toolbox: &Toolbox,
    doing: &str,
    cwd: &Path,
    argv: &[&str],
) -> Result<String> {
    let folder = cwd.to_string_lossy();
    let script = "cd -- \"$1\" && shift && exec \"$@\"";
    let mut all = vec!["sh", "-c", script, "holm", &folder];
    all.extend(argv);
    let said = run(toolbox, doing, shell_quote(&all)?).await?;
    if said.code == 0 {
        return Ok(said.text);
    }
    Err(SandboxError::Git {
        doing: doing.to_owned(),
        detail: said.text.trim().to_owned(),
        hint: None,
    })
}

/// A file operation that is done inside. See `helper.sh`.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub(super) toolbox: &'a Toolbox,
    pub(super) root: &'a Path,
    /// The verb of its errors.
    pub(super) doing: &'static str,
    /// The path of its errors.
    pub(super) path: &'a Path,
}

impl Operation<'_> {
    pub(super) async fn run(&self, operation: &str, arguments: &[&str]) -> Result<String> {
        use std::os::unix::ffi::OsStrExt as _;
        let root = super::words::encode(self.root.as_os_str().as_bytes());
        let mut all = vec![operation, &root];
        all.extend(arguments);
        let doing = format!("{} `{}` in the sandbox", self.doing, self.path.display());
        let said = run(self.toolbox, &doing, script::helper(&all)?).await?;
        if said.code == 0 {
            return Ok(said.text);
        }
        Err(refused(
            said.code, self.doing, self.root, self.path, &said.text,
        ))
    }

    /// The same for an answer that may hold any bytes.
    pub(super) async fn bytes(&self, operation: &str, arguments: &[&str]) -> Result<Vec<u8>> {
        let text: String = self
            .run(operation, arguments)
            .await?
            .split_ascii_whitespace()
            .collect();
        STANDARD
            .decode(text)
            .map_err(|error| SandboxError::Backend {
                doing: format!("{} `{}` in the sandbox", self.doing, self.path.display()),
                hint: None,
                source: Box::new(error),
            })
    }
}

/// A confined path as folder and name. `None` for the root itself.
pub(super) fn split(relative: &Path) -> Option<(PathBuf, &std::ffi::OsStr)> {
    if relative == Path::new(".") {
        return None;
    }
    let name = relative.file_name()?;
    let folder = match relative.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    };
    Some((folder, name))
}
