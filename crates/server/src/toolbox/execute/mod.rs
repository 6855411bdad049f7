//! One command, run to its end by a shell that reads it from its standard input.

mod run;

use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use holm_daytona_wire::StringMap;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::process::{ExecuteRequest, ExecuteResponse};

use super::Inside;
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;

pub(super) use run::{End, Job, Outcome, SHELLS, TRUNCATED, no_shell, not_started, run};

/// How much of the output a timeout tells.
const TAIL_BYTES: usize = 4 * 1024;

pub(super) fn router() -> Router<AppState> {
    Router::new().route("/process/execute", post(execute))
}

async fn execute(inside: Inside, Body(request): Body<ExecuteRequest>) -> Result<Response> {
    if request.command.trim().is_empty() {
        return Err(ApiError::bad_request("command is required"));
    }
    check_environment(&request.envs)?;
    let job = Job {
        argvs: SHELLS.iter().map(|shell| vec![(*shell).into()]).collect(),
        input: format!("{}\n", request.command).into_bytes(),
        cwd: inside
            .machine
            .absolute(request.cwd.as_deref().unwrap_or_default()),
        envs: &request.envs,
        timeout_seconds: request.timeout.filter(|seconds| *seconds > 0),
        output_bytes_max: inside.state.config.limits.output_bytes_max,
        buffers: &inside.state.buffers,
    };
    let outcome = run(&inside.machine, job).await?;
    let exit_code = outcome.exit_code()?;
    let result = outcome.text();
    let answer = ExecuteResponse { exit_code, result };
    Ok(outcome.held.until_sent(Json(answer)))
}

impl Outcome {
    /// The exit code, or the error that a timeout is.
    pub(super) fn exit_code(&self) -> Result<i32> {
        match self.end {
            End::Exited(code) => Ok(code),
            End::TimedOut { seconds } => {
                let from = self.output.len().saturating_sub(TAIL_BYTES);
                let tail = String::from_utf8_lossy(self.output.get(from..).unwrap_or_default());
                let mut message =
                    format!("command execution timeout: killed after {seconds} seconds");
                if !tail.trim().is_empty() {
                    message.push_str("; its output ended with:\n");
                    message.push_str(&tail);
                }
                Err(ApiError::new(ErrorCode::ProcessExecutionTimeout, message))
            }
        }
    }
}

/// Names as a shell can use them, values as the kernel can pass them.
pub(super) fn check_environment(envs: &StringMap) -> Result<()> {
    for (name, value) in envs {
        let mut letters = name.bytes();
        let is_name = letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(ApiError::bad_request(format!(
                "invalid environment variable name: '{name}'"
            )));
        }
        if value.contains('\0') {
            return Err(ApiError::bad_request(format!(
                "the value of the environment variable '{name}' holds a NUL byte"
            )));
        }
    }
    Ok(())
}
