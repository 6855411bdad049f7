//! Small scripts in the sandbox, run by the direct API: never by the commands that they are made for.

use holm_daytona_client::wire::process::{ExecuteRequest, ExecuteResponse};
use holm_daytona_client::{ClientError, Toolbox};
use holm_sandbox::{SandboxError, shell_quote};

use super::error::{ProviderError, Result};
use super::live::Live;

const INSPECT: &str = include_str!("inspect.sh");
/// Paths that are asked for at once: their text stays far below what a command line may hold.
const INSPECT_PATHS_MAX: usize = 100;
/// What one of our own scripts may take, hashing a large file too.
const SCRIPT_TIMEOUT_SECONDS: u64 = 300;

/// Runs a script of ours with arguments that no shell interprets.
pub(super) async fn run(
    toolbox: &Toolbox,
    script: &str,
    arguments: &[&str],
) -> Result<ExecuteResponse, ClientError> {
    run_with_input(toolbox, script, arguments, None).await
}

/// The same for a script that reads text. It goes in as a here-document, which has no limit as arguments have.
pub(super) async fn run_with_input(
    toolbox: &Toolbox,
    script: &str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<ExecuteResponse, ClientError> {
    let command = command_line(script, arguments, input).map_err(|error| ClientError::Invalid {
        what: "argument",
        problem: error.to_string(),
    })?;
    let request = ExecuteRequest {
        command,
        timeout: Some(SCRIPT_TIMEOUT_SECONDS),
        ..ExecuteRequest::default()
    };
    toolbox.process().execute(&request).await
}

pub(super) fn command_line(
    script: &str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, SandboxError> {
    let mut argv = vec!["sh", "-c", script, "sh"];
    argv.extend_from_slice(arguments);
    let command = shell_quote(&argv)?;
    // The shell reads commands from its own input; without this the script would read on from there.
    Ok(match input {
        None => format!("{command} </dev/null"),
        Some(text) => format!("{command} <<'HOLM_INPUT'\n{text}\nHOLM_INPUT"),
    })
}

/// What a path is in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Missing,
    File,
    Folder,
    Link,
    Other,
}

/// What the sandbox says of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inspected {
    pub(super) kind: Kind,
    /// Of a file, or of the file that a link leads to.
    pub(super) size: Option<u64>,
    /// Hexadecimal; `None` if the sandbox has nothing to compute it with.
    pub(super) sha256: Option<String>,
}

/// Looks at paths of the workspace. One that leads out of it, over a link, is an error.
pub(super) async fn inspect(live: &Live, paths: &[&str]) -> Result<Vec<Inspected>> {
    live.workspace_is_set_up().await?;
    let workspace = live.workspace()?;
    let mut inspected = Vec::with_capacity(paths.len());
    for some in paths.chunks(INSPECT_PATHS_MAX) {
        let mut arguments = vec![workspace.as_str()];
        arguments.extend_from_slice(some);
        let answer = live
            .call(|toolbox| {
                let arguments = arguments.clone();
                async move { run(&toolbox, INSPECT, &arguments).await }
            })
            .await?;
        let lines: Vec<&str> = answer.result.lines().collect();
        if answer.exit_code != 0 || lines.len() != some.len() {
            return Err(ProviderError::Script {
                doing: "look at files".to_owned(),
                problem: format!("exit code {}: {}", answer.exit_code, answer.result.trim()),
            });
        }
        for (path, line) in some.iter().zip(lines) {
            inspected.push(parse_line(&workspace, path, line)?);
        }
    }
    Ok(inspected)
}

fn parse_line(workspace: &str, path: &str, line: &str) -> Result<Inspected> {
    let unknown = || ProviderError::Script {
        doing: format!("look at `{path}`"),
        problem: format!("the answer is `{line}`"),
    };
    let [place, kind, size, sha256] = line.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
        return Err(unknown());
    };
    if place != "in" {
        return Err(SandboxError::PathConfinement {
            path: path.into(),
            base: workspace.into(),
        }
        .into());
    }
    Ok(Inspected {
        kind: match kind {
            "missing" => Kind::Missing,
            "file" => Kind::File,
            "folder" => Kind::Folder,
            "link" => Kind::Link,
            "other" => Kind::Other,
            _ => return Err(unknown()),
        },
        size: size.parse().ok(),
        sha256: (sha256.len() == 64).then(|| sha256.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_and_what_leads_out_is_refused() {
        let found = parse_line("/w", "/w/a", "in file 3 -").unwrap();
        let expected = Inspected {
            kind: Kind::File,
            size: Some(3),
            sha256: None,
        };
        assert_eq!(found, expected);
        let error = parse_line("/w", "/w/a", "out link - -").unwrap_err();
        assert!(error.to_string().starts_with("path confinement violation"));
        assert!(parse_line("/w", "/w/a", "in file").is_err());
        assert!(parse_line("/w", "/w/a", "").is_err());
    }

    #[test]
    fn arguments_stay_arguments() {
        let line = command_line("echo \"$1\"", &["$(rm -rf /); 'x'"], None).unwrap();
        assert_eq!(
            line,
            r#"'sh' '-c' 'echo "$1"' 'sh' '$(rm -rf /); '\''x'\''' </dev/null"#
        );
    }
}
