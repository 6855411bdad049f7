//! Sessions: one shell that lives on between commands.

use crate::StringMap;

wire_structs! {
    /// `POST /process/session`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateSessionRequest {
        pub session_id: String,
    }

    /// A session and what ran in it.
    #[serde(rename_all = "camelCase")]
    pub struct Session {
        pub session_id: String,
        pub commands: Vec<Command>,
    }

    /// One command of a session.
    #[serde(rename_all = "camelCase")]
    pub struct Command {
        pub id: String,
        pub command: String,
        /// Absent while it runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32>,
    }

    /// `POST /process/session/{id}/exec`.
    #[serde(rename_all = "camelCase")]
    pub struct SessionExecuteRequest {
        pub command: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub run_async: Option<bool>,
        /// The older name of `runAsync`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub r#async: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suppress_input_echo: Option<bool>,
        /// Not in Daytona, which ignores it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cwd: Option<String>,
        /// Not in Daytona, which ignores it.
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub envs: StringMap,
        /// Seconds. Not in Daytona, which ignores it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout: Option<u64>,
    }

    /// Its answer: all fields when the command has ended, `cmdId` alone when it runs on.
    #[serde(rename_all = "camelCase")]
    pub struct SessionExecuteResponse {
        pub cmd_id: String,
        /// The log with its markers.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub output: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdout: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stderr: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32>,
    }

    /// The answer of `GET …/command/{id}/logs`.
    #[serde(rename_all = "camelCase")]
    pub struct SessionCommandLogs {
        /// The log with its markers.
        pub output: String,
        pub stdout: String,
        pub stderr: String,
    }

    /// `POST …/command/{id}/input`.
    #[serde(rename_all = "camelCase")]
    pub struct SessionSendInput {
        pub data: String,
    }
}

impl SessionExecuteRequest {
    /// Whether the answer comes before the command has ended.
    pub fn is_async(&self) -> bool {
        self.run_async == Some(true) || self.r#async == Some(true)
    }
}
