//! One piece of code, run to its end by an interpreter of its language.

use std::ffi::OsString;

use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use holm_daytona_wire::process::{
    ARTIFACT_PREFIX, CodeRunArtifacts, CodeRunRequest, CodeRunResponse,
};
use serde_json::Value;

use super::Inside;
use super::execute::{Job, check_environment, run};
use crate::api::body::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;

/// Runs what comes on the standard input, and has charts shown as artifacts.
const PYTHON_PRELUDE: &str = include_str!("code_run_prelude.py");
const TYPESCRIPT: &str = include_str!("code_run_typescript.sh");
/// The label by which SDKs tell a sandbox's language.
const LANGUAGE_LABEL: &str = "code-toolbox-language";
pub(super) fn router() -> Router<AppState> {
    Router::new().route("/process/code-run", post(code_run))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    JavaScript,
    TypeScript,
}

impl Language {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "python" => Ok(Self::Python),
            "javascript" => Ok(Self::JavaScript),
            "typescript" => Ok(Self::TypeScript),
            other => Err(ApiError::bad_request(format!(
                "unsupported language '{other}': use python, javascript or typescript"
            ))),
        }
    }

    /// Programs that run code from their standard input, the preferred one first.
    fn interpreters(self) -> Vec<Vec<&'static str>> {
        match self {
            Self::Python => ["python3", "python"]
                .map(|program| vec![program, "-u", "-c", PYTHON_PRELUDE])
                .into(),
            Self::JavaScript => vec![vec!["node", "-"]],
            Self::TypeScript => vec![vec!["sh", "-c", TYPESCRIPT, "sh"]],
        }
    }

    /// What is said if no interpreter is there.
    fn needs(self) -> &'static str {
        match self {
            Self::Python => "Python needs `python3` in the sandbox\n",
            Self::JavaScript => "JavaScript needs `node` in the sandbox\n",
            Self::TypeScript => "TypeScript needs `sh` in the sandbox\n",
        }
    }
}

async fn code_run(inside: Inside, Body(request): Body<CodeRunRequest>) -> Result<Response> {
    if request.code.trim().is_empty() {
        return Err(ApiError::bad_request("code is required"));
    }
    check_environment(&request.envs)?;
    if request.argv.iter().any(|argument| argument.contains('\0')) {
        return Err(ApiError::bad_request("an argument holds a NUL byte"));
    }
    let labelled = inside
        .sandbox
        .peek(|record| record.labels.get(LANGUAGE_LABEL).cloned());
    let language = match (request.language.as_str(), labelled) {
        ("", Some(labelled)) => Language::parse(&labelled)?,
        ("", None) => Language::Python,
        (named, _) => Language::parse(named)?,
    };
    let argv = |program: Vec<&str>| -> Vec<OsString> {
        let program = program.into_iter().map(OsString::from);
        program
            .chain(request.argv.iter().map(OsString::from))
            .collect()
    };
    let job = Job {
        argvs: language.interpreters().into_iter().map(argv).collect(),
        input: request.code.into_bytes(),
        cwd: inside.machine.work_dir().to_path_buf(),
        envs: &request.envs,
        timeout_seconds: request.timeout.filter(|seconds| *seconds > 0),
        output_bytes_max: inside.state.config.limits.output_bytes_max,
        buffers: &inside.state.buffers,
    };
    let outcome = run(&inside.machine, job).await?;
    let exit_code = outcome.exit_code()?;
    let (mut result, charts) = take_artifacts(&outcome.text());
    if exit_code == -1 {
        result.push_str(language.needs());
    }
    let artifacts = (!charts.is_empty()).then_some(CodeRunArtifacts { charts });
    let answer = CodeRunResponse {
        exit_code,
        result,
        artifacts,
    };
    Ok(outcome.held.until_sent(Json(answer)))
}

/// The output without the lines that carry charts, and the charts.
fn take_artifacts(output: &str) -> (String, Vec<Value>) {
    let mut charts = Vec::new();
    let mut text = String::with_capacity(output.len());
    for line in output.split_inclusive('\n') {
        match line.strip_prefix(ARTIFACT_PREFIX).and_then(chart) {
            Some(chart) => charts.push(chart),
            None => text.push_str(line),
        }
    }
    (text, charts)
}

/// `{"type": "chart", "value": {…}}`.
fn chart(json: &str) -> Option<Value> {
    let mut artifact: Value = serde_json::from_str(json.trim_end()).ok()?;
    if artifact.get("type")? != "chart" {
        return None;
    }
    artifact.get_mut("value").map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_taken_out_of_the_output() {
        let output = format!(
            "before\n{ARTIFACT_PREFIX}{{\"type\":\"chart\",\"value\":{{\"title\":\"t\"}}}}\nafter"
        );
        let (text, charts) = take_artifacts(&output);
        assert_eq!(text, "before\nafter");
        assert_eq!(charts, [serde_json::json!({ "title": "t" })]);
    }

    #[test]
    fn what_only_looks_like_a_chart_stays() {
        for line in [
            format!("{ARTIFACT_PREFIX}no json\n"),
            format!("{ARTIFACT_PREFIX}{{\"type\":\"other\"}}\n"),
            format!(" {ARTIFACT_PREFIX}{{\"type\":\"chart\",\"value\":1}}\n"),
        ] {
            assert_eq!(take_artifacts(&line), (line.clone(), Vec::new()));
        }
    }
}
