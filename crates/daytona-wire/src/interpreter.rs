//! The Python interpreter: its contexts over HTTP, its frames over a WebSocket.

use serde::{Deserialize, Serialize};

use crate::StringMap;

wire_words! {
    /// How a run ended.
    pub enum InterpreterEnd {
        Completed = "completed",
        Interrupted = "interrupted",
    }
}

wire_structs! {
    /// `POST /process/interpreter/context`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateContextRequest {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub language: Option<String>,
    }

    /// A context. All fields are required.
    #[serde(rename_all = "camelCase")]
    pub struct InterpreterContext {
        pub id: String,
        pub cwd: String,
        pub language: String,
        pub created_at: String,
        pub active: bool,
    }

    /// All contexts but the default one.
    #[serde(rename_all = "camelCase")]
    pub struct ListContextsResponse {
        pub contexts: Vec<InterpreterContext>,
    }

    /// The one frame of the client.
    #[serde(rename_all = "camelCase")]
    pub struct InterpreterRequest {
        pub code: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub context_id: Option<String>,
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub envs: StringMap,
        /// Seconds; 0 = none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout: Option<u64>,
    }
}

/// A text frame of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum InterpreterEvent {
    Stdout {
        text: String,
    },
    Stderr {
        text: String,
    },
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    Control {
        text: InterpreterEnd,
    },
    /// A frame of another version.
    #[serde(other)]
    Unknown,
}

/// The close code of a run that took too long.
pub const CLOSE_TIMEOUT: u16 = 4008;
