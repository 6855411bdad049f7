//! One command or one piece of code, run to its end.

use std::time::Duration;

use holm_daytona_wire::process::{
    CodeRunRequest, CodeRunResponse, ExecuteRequest, ExecuteResponse,
};
use reqwest::Method;

use crate::{Result, Toolbox};

/// Commands whose two outputs come merged. For them apart, and as they come, see [`crate::Sessions`].
#[derive(Debug, Clone, Copy)]
pub struct Process<'toolbox> {
    pub(crate) toolbox: &'toolbox Toolbox,
}

impl Process<'_> {
    /// Runs a shell command. With a timeout the server kills it and answers 408 (`PROCESS_EXECUTION_TIMEOUT`), and its
    /// output is lost. Without one, [`crate::Deadlines::execute`] ends the call, and the command runs on.
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ExecuteResponse> {
        let deadline = self.deadline(request.timeout);
        let call = self
            .toolbox
            .call(Method::POST, &["process", "execute"], "run a command")?;
        call.deadline(deadline).body(request)?.json().await
    }

    /// Runs code in Python, JavaScript or TypeScript.
    pub async fn run_code(&self, request: &CodeRunRequest) -> Result<CodeRunResponse> {
        let deadline = self.deadline(request.timeout);
        let call = self
            .toolbox
            .call(Method::POST, &["process", "code-run"], "run code")?;
        call.deadline(deadline).body(request)?.json().await
    }

    fn deadline(&self, timeout_seconds: Option<u64>) -> Duration {
        let deadlines = self.toolbox.client().deadlines();
        match timeout_seconds {
            // No timeout, in Daytona's words.
            None | Some(0) => deadlines.execute,
            Some(seconds) => Duration::from_secs(seconds).saturating_add(deadlines.execute_grace),
        }
    }
}
