//! A command by one call, for debugging (`DAYTONA_SIMPLE_EXEC=1`): its outputs come merged, and at the end.
//!
//! At its timeout the server kills it, and what it had printed is lost.

use std::path::Path;
use std::time::Instant;

use holm_daytona_client::wire::process::ExecuteRequest;
use holm_sandbox::{
    Capture, Exec, ExecOutcome, OutputSink, OutputStream, Result, SandboxError, shell_quote,
};

use super::outputs::signal_of;
use super::sandbox::Inner;

/// As `timeout` has it.
const TIMED_OUT_CODE: i32 = 124;

pub(super) async fn run(
    inner: &Inner,
    exec: Exec,
    cwd: &Path,
    sink: Option<Box<dyn OutputSink>>,
) -> Result<ExecOutcome> {
    let request = request(&exec, cwd)?;
    let started = Instant::now();
    let answer = inner.toolbox.process().execute(&request).await;
    let (exit_code, timed_out, output) = match answer {
        Ok(answer) => (answer.exit_code, false, answer.result),
        Err(error) if error.is_timeout() && exec.timeout.is_some() => {
            (TIMED_OUT_CODE, true, String::new())
        }
        Err(error) => return Err(inner.failed("run a command", error)),
    };
    let redactor = inner.redactor(&exec);
    let mut capture = Capture::new(exec.output_bytes_max, redactor.clone());
    capture.push(output.as_bytes());
    let captured = capture.finish();
    if let Some(mut sink) = sink {
        sink.output(
            OutputStream::Stdout,
            &redactor.redact_bytes(output.as_bytes()),
        );
    }
    // Whoever looks for the error in stderr finds it there.
    let stderr = if exit_code == 0 || timed_out {
        Vec::new()
    } else {
        captured.bytes.clone()
    };
    Ok(ExecOutcome {
        exit_code,
        signal: signal_of(exit_code),
        stdout: captured.bytes,
        stderr,
        duration: started.elapsed(),
        timed_out,
        truncated: captured.truncated,
    })
}

fn request(exec: &Exec, cwd: &Path) -> Result<ExecuteRequest> {
    let text = |value: &std::ffi::OsStr| {
        let text = value.to_str().map(str::to_owned);
        text.ok_or_else(|| SandboxError::Invalid {
            what: "a command that is no text cannot be run by one call".to_owned(),
            hint: "leave DAYTONA_SIMPLE_EXEC unset".to_owned(),
        })
    };
    let argv: Result<Vec<String>> = exec.argv.iter().map(|word| text(word)).collect();
    let mut envs = std::collections::BTreeMap::new();
    for (key, value) in &exec.env {
        envs.insert(key.to_string(), text(value)?);
    }
    for (key, value) in &exec.secret_env {
        envs.insert(key.to_string(), value.expose().to_owned());
    }
    Ok(ExecuteRequest {
        command: shell_quote(&argv?)?,
        cwd: Some(text(cwd.as_os_str())?),
        envs: envs.into_iter().collect(),
        // Seconds, rounded up.
        timeout: exec
            .timeout
            .map(|timeout| timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_call_says_all_of_the_command() {
        let exec = Exec::new(["echo", "it's"])
            .env("A", "b c")
            .unwrap()
            .secret_env("TOKEN", "hidden-value")
            .unwrap()
            .timeout(Duration::from_millis(1_001));
        let request = request(&exec, Path::new("/w")).unwrap();
        assert_eq!(request.command, r"'echo' 'it'\''s'");
        assert_eq!(request.cwd.as_deref(), Some("/w"));
        assert_eq!(request.timeout, Some(2));
        assert_eq!(request.envs.get("TOKEN").unwrap(), "hidden-value");
    }
}
