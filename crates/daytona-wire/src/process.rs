//! One command or one piece of code, run to its end.

use crate::StringMap;

wire_structs! {
    /// `POST /process/execute`.
    #[serde(rename_all = "camelCase")]
    pub struct ExecuteRequest {
        pub command: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cwd: Option<String>,
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub envs: StringMap,
        /// Seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout: Option<u64>,
    }

    /// The answer of `POST /process/execute`.
    #[serde(rename_all = "camelCase")]
    pub struct ExecuteResponse {
        pub exit_code: i32,
        /// Both outputs, merged.
        pub result: String,
    }

    /// `POST /process/code-run`.
    #[serde(rename_all = "camelCase")]
    pub struct CodeRunRequest {
        pub code: String,
        /// `python`, `typescript` or `javascript`.
        pub language: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub argv: Vec<String>,
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub envs: StringMap,
        /// Seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout: Option<u64>,
    }

    /// The answer of `POST /process/code-run`.
    #[serde(rename_all = "camelCase")]
    pub struct CodeRunResponse {
        pub exit_code: i32,
        pub result: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub artifacts: Option<CodeRunArtifacts>,
    }

    /// What the code made besides text.
    #[serde(rename_all = "camelCase")]
    pub struct CodeRunArtifacts {
        /// As the code drew them; each kind has fields of its own.
        pub charts: Vec<serde_json::Value>,
    }
}

/// A line of output that starts with this carries an artifact as JSON and is not shown.
pub const ARTIFACT_PREFIX: &str = "dtn_artifact_k39fd2:";
