//! How both planes say no.
//!
//! The SDKs choose the class of an error by `(source, code)`, then by status, and show `message`. An answer without a
//! code still works; one with a code that a client does not know falls back to the status.

wire_words! {
    /// The stable name of what went wrong.
    pub enum ErrorCode {
        InternalServerError = "INTERNAL_SERVER_ERROR",
        BadRequest = "BAD_REQUEST",
        InvalidRequestBody = "INVALID_REQUEST_BODY",
        Unauthorized = "UNAUTHORIZED",
        Forbidden = "FORBIDDEN",
        NotFound = "NOT_FOUND",
        RequestTimeout = "REQUEST_TIMEOUT",
        Conflict = "CONFLICT",
        Gone = "GONE",
        UnprocessableEntity = "UNPROCESSABLE_ENTITY",
        NotImplemented = "NOT_IMPLEMENTED",
        GitAuthFailed = "GIT_AUTH_FAILED",
        GitRepoNotFound = "GIT_REPO_NOT_FOUND",
        GitBranchNotFound = "GIT_BRANCH_NOT_FOUND",
        GitBranchExists = "GIT_BRANCH_EXISTS",
        GitPushRejected = "GIT_PUSH_REJECTED",
        GitDirtyWorktree = "GIT_DIRTY_WORKTREE",
        GitMergeConflict = "GIT_MERGE_CONFLICT",
        GitTransportFailed = "GIT_TRANSPORT_FAILED",
        GitRemoteRejected = "GIT_REMOTE_REJECTED",
        FileNotFound = "FILE_NOT_FOUND",
        FileAccessDenied = "FILE_ACCESS_DENIED",
        InvalidFilePath = "INVALID_FILE_PATH",
        FileReadFailed = "FILE_READ_FAILED",
        LspServerNotInitialized = "LSP_SERVER_NOT_INITIALIZED",
        ProcessExecutionTimeout = "PROCESS_EXECUTION_TIMEOUT",
        ProcessNotFound = "PROCESS_NOT_FOUND",
        SessionEnded = "SESSION_ENDED",
        CommandAlreadyCompleted = "COMMAND_ALREADY_COMPLETED",
        A11yUnavailable = "A11Y_UNAVAILABLE",
        RecordingStillActive = "RECORDING_STILL_ACTIVE",
        RecordingFfmpegNotFound = "RECORDING_FFMPEG_NOT_FOUND",
        TooManyRequests = "TOO_MANY_REQUESTS",
        ServiceUnavailable = "SERVICE_UNAVAILABLE",
    }
}

wire_words! {
    /// Who says so. [`ErrorSource::Proxy`] is for previews and for what stands before the toolbox.
    pub enum ErrorSource {
        Api = "DAYTONA_API",
        Daemon = "DAYTONA_DAEMON",
        Proxy = "DAYTONA_PROXY",
    }
}

impl ErrorCode {
    /// The HTTP status that goes with the code. A code that we do not know is treated as a fault of the server.
    pub fn status(&self) -> u16 {
        match self {
            Self::BadRequest
            | Self::InvalidRequestBody
            | Self::InvalidFilePath
            | Self::LspServerNotInitialized => 400,
            Self::Unauthorized | Self::GitAuthFailed => 401,
            Self::Forbidden | Self::FileAccessDenied => 403,
            Self::NotFound
            | Self::GitRepoNotFound
            | Self::GitBranchNotFound
            | Self::FileNotFound
            | Self::ProcessNotFound => 404,
            Self::RequestTimeout | Self::ProcessExecutionTimeout => 408,
            Self::Conflict
            | Self::GitBranchExists
            | Self::GitPushRejected
            | Self::GitDirtyWorktree
            | Self::GitMergeConflict
            | Self::RecordingStillActive => 409,
            Self::Gone | Self::SessionEnded | Self::CommandAlreadyCompleted => 410,
            Self::UnprocessableEntity | Self::GitRemoteRejected => 422,
            Self::TooManyRequests => 429,
            Self::NotImplemented => 501,
            Self::GitTransportFailed => 502,
            Self::A11yUnavailable | Self::RecordingFfmpegNotFound | Self::ServiceUnavailable => 503,
            Self::InternalServerError | Self::FileReadFailed | Self::Unknown(_) => 500,
        }
    }
}

wire_structs! {
    /// An error of the control plane.
    #[serde(rename_all = "camelCase")]
    pub struct ApiErrorBody {
        pub path: String,
        pub timestamp: String,
        pub status_code: u16,
        /// The name of the status: `Not Found`.
        pub error: String,
        pub message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub code: Option<ErrorCode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub source: Option<ErrorSource>,
    }

    /// An error of the toolbox.
    #[serde(rename_all = "camelCase")]
    pub struct DaemonErrorBody {
        pub status_code: u16,
        pub message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub code: Option<ErrorCode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub source: Option<ErrorSource>,
        pub timestamp: String,
        pub path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub method: Option<String>,
    }
}

impl ApiErrorBody {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let status_code = code.status();
        Self {
            status_code,
            error: reason_phrase(status_code).to_owned(),
            message: message.into(),
            code: Some(code),
            source: Some(ErrorSource::Api),
            ..Self::default()
        }
    }

    /// The request that failed, and when.
    #[must_use]
    pub fn at(self, path: impl Into<String>, timestamp: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            timestamp: timestamp.into(),
            ..self
        }
    }
}

impl DaemonErrorBody {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status_code: code.status(),
            message: message.into(),
            code: Some(code),
            source: Some(ErrorSource::Daemon),
            ..Self::default()
        }
    }

    /// The request that failed, and when.
    #[must_use]
    pub fn at(
        self,
        method: impl Into<String>,
        path: impl Into<String>,
        timestamp: impl Into<String>,
    ) -> Self {
        Self {
            method: Some(method.into()),
            path: path.into(),
            timestamp: timestamp.into(),
            ..self
        }
    }
}

/// The name of a status, as far as this protocol uses it.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Payload Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_as_daytona_writes_them() {
        let api = ApiErrorBody::new(ErrorCode::NotFound, "Sandbox with ID or name a not found")
            .at("/api/sandbox/a", "2026-11-15T19:46:28.950Z");
        assert_eq!(
            serde_json::to_value(&api).unwrap(),
            serde_json::json!({
                "path": "/api/sandbox/a", "timestamp": "2026-11-15T19:46:28.950Z", "statusCode": 404,
                "error": "Not Found", "message": "Sandbox with ID or name a not found",
                "code": "NOT_FOUND", "source": "DAYTONA_API",
            })
        );
        let daemon = DaemonErrorBody::new(ErrorCode::ProcessExecutionTimeout, "too long").at(
            "POST",
            "/toolbox/a/process/execute",
            "2026-11-15T19:46:33.968Z",
        );
        assert_eq!(
            serde_json::to_value(&daemon).unwrap(),
            serde_json::json!({
                "statusCode": 408, "message": "too long", "code": "PROCESS_EXECUTION_TIMEOUT",
                "source": "DAYTONA_DAEMON", "timestamp": "2026-11-15T19:46:33.968Z",
                "path": "/toolbox/a/process/execute", "method": "POST",
            })
        );
    }

    #[test]
    fn an_error_without_code_is_read() {
        let seen = r#"{"path":"/api/sandbox","timestamp":"t","statusCode":401,"error":"Unauthorized","message":"Unauthorized"}"#;
        let body: ApiErrorBody = serde_json::from_str(seen).unwrap();
        assert_eq!(body.code, None);
        assert_eq!(serde_json::to_string(&body).unwrap(), seen);
    }

    #[test]
    fn each_code_has_a_status_with_a_name() {
        for code in ErrorCode::KNOWN {
            assert_ne!(reason_phrase(code.status()), "Error", "{code}");
        }
        assert_eq!(ErrorCode::NotImplemented.status(), 501);
        assert_eq!(ErrorCode::from("MADE_LATER").status(), 500);
    }
}
