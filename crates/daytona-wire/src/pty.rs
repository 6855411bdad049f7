//! Terminals: what is said about them over HTTP, and the control frames of their WebSocket.

use crate::StringMap;

wire_words! {
    /// What a control frame tells.
    pub enum PtyStatus {
        Connected = "connected",
        Error = "error",
        Exited = "exited",
    }
}

wire_structs! {
    /// `POST /process/pty`.
    #[serde(rename_all = "camelCase")]
    pub struct PtyCreateRequest {
        pub id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cwd: Option<String>,
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub envs: StringMap,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cols: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rows: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lazy_start: Option<bool>,
    }

    /// Its answer.
    #[serde(rename_all = "camelCase")]
    pub struct PtyCreateResponse {
        pub session_id: String,
    }

    /// `POST /process/pty/{id}/resize`.
    #[serde(rename_all = "camelCase")]
    pub struct PtyResizeRequest {
        pub cols: u32,
        pub rows: u32,
    }

    /// A terminal. All fields are required.
    #[serde(rename_all = "camelCase")]
    pub struct PtySessionInfo {
        pub id: String,
        pub cwd: String,
        pub envs: StringMap,
        pub cols: u32,
        pub rows: u32,
        pub created_at: String,
        pub active: bool,
        pub lazy_start: bool,
    }

    /// The answer of `GET /process/pty`.
    #[serde(rename_all = "camelCase")]
    pub struct PtyListResponse {
        pub sessions: Vec<PtySessionInfo>,
    }

    /// A text frame of the server.
    #[serde(rename_all = "camelCase")]
    pub struct PtyControl {
        /// Always `control`.
        #[serde(rename = "type")]
        pub kind: String,
        pub status: PtyStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_reason: Option<String>,
    }

    /// The reason in the close frame (1011) of a terminal whose command failed.
    #[serde(rename_all = "camelCase")]
    pub struct PtyExit {
        pub exit_code: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub exit_reason: Option<String>,
    }
}

impl PtyControl {
    /// The first frame, before any output.
    pub fn connected() -> Self {
        Self::new(PtyStatus::Connected)
    }

    pub fn error(message: impl Into<String>) -> Self {
        Self {
            error: Some(message.into()),
            ..Self::new(PtyStatus::Error)
        }
    }

    pub fn exited(exit: &PtyExit) -> Self {
        Self {
            exit_code: Some(exit.exit_code),
            exit_reason: exit.exit_reason.clone(),
            ..Self::new(PtyStatus::Exited)
        }
    }

    fn new(status: PtyStatus) -> Self {
        Self {
            kind: "control".to_owned(),
            status,
            ..Self::default()
        }
    }
}
