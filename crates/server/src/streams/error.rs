//! How a request about streams fails: `{"error":{"code":…,"message":…}}`, with the protocol's headers.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::{NameError, Offset, Refusal, StoreError, Unseen};
use serde_json::{Value, json};

use super::access::{Denied, Gate};
use super::headers;
use super::pages::PageError;
use crate::error::chain;
use crate::request::StoreFailed;

pub(super) type Result<T, E = StreamError> = std::result::Result<T, E>;

/// A failed request. The code is for machines and does not change; the message is for people.
#[derive(Debug)]
pub(crate) struct StreamError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// More for machines, beside the code.
    details: Vec<(&'static str, Value)>,
    /// Whether the database is to blame, for the figures.
    is_store: bool,
}

impl StreamError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            headers: Vec::new(),
            details: Vec::new(),
            is_store: false,
        }
    }

    pub(super) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: impl ToString) -> Self {
        self.headers.push((name, headers::value(value)));
        self
    }

    #[must_use]
    pub(super) fn detail(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// What a refused command is over HTTP.
    pub(super) fn of(refusal: Refusal, gate: &dyn Gate) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::NotFound | Refusal::SourceNotFound { .. } => {
                Self::new(StatusCode::NOT_FOUND, "not_found", message)
            }
            Refusal::Gone => Self::new(StatusCode::GONE, "gone", message),
            Refusal::Closed { tail } => Self::closed(message, tail),
            Refusal::ContentType { .. } | Refusal::SourceContentType { .. } => {
                Self::conflict("content_type", message)
            }
            Refusal::Differs { .. } => Self::conflict("differs", message),
            Refusal::NameHeld => Self::conflict("name_held", message),
            Refusal::SourceGone { .. } => Self::conflict("source_gone", message),
            Refusal::StreamSeq { .. } => Self::conflict("stream_seq", message),
            Refusal::DocumentChanged { .. } => Self::conflict("changed", message),
            Refusal::Gap { expected, received } => Self::conflict("producer_gap", message)
                .with(headers::PRODUCER_EXPECTED_SEQ, expected)
                .with(headers::PRODUCER_RECEIVED_SEQ, received),
            Refusal::StaleEpoch { current } => {
                Self::new(StatusCode::FORBIDDEN, "producer_stale", message)
                    .with(headers::PRODUCER_EPOCH, current)
            }
            Refusal::Empty => Self::bad_request("empty", message),
            Refusal::Json(_) => Self::bad_request("json_invalid", message),
            Refusal::ForkOffset | Refusal::ForkSubOffset => {
                Self::bad_request("fork_offset", message)
            }
            Refusal::ForkTooDeep => Self::bad_request("fork_too_deep", message),
            Refusal::EpochMustStartAtZero => Self::bad_request("producer_epoch", message),
            Refusal::Replaced => Self::new(StatusCode::FORBIDDEN, "thread_replaced", message),
            Refusal::StreamFull { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "thread_full", message)
            }
            Refusal::Rule { code, message } => Self::new(gate.status_of(code), code, message),
        }
    }

    fn closed(message: String, tail: Offset) -> Self {
        Self::conflict("closed", message)
            .with(headers::CLOSED, "true")
            .with(headers::NEXT_OFFSET, tail)
    }
}

impl From<Unseen> for StreamError {
    fn from(unseen: Unseen) -> Self {
        let message = unseen.to_string();
        match unseen {
            Unseen::NotFound => Self::new(StatusCode::NOT_FOUND, "not_found", message),
            Unseen::Gone => Self::new(StatusCode::GONE, "gone", message),
            Unseen::ForeignOffset => Self::bad_request("offset_foreign", message),
        }
    }
}

impl From<StoreError> for StreamError {
    fn from(error: StoreError) -> Self {
        let (status, code, message) = match &error {
            StoreError::Busy => {
                let message = "the server has more to write than it can: try again";
                return Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message)
                    .with(RETRY_AFTER, 1);
            }
            StoreError::Full { .. } => (
                StatusCode::INSUFFICIENT_STORAGE,
                "full",
                "the server's disk is full or may not be written; nothing was stored",
            ),
            StoreError::Stopped => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "stopped",
                "the server is stopping, and cannot say whether this was stored: ask again with the same numbers",
            ),
            StoreError::Failed { .. } => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the server could not use its database; its log says why",
            ),
        };
        tracing::error!(cause = %chain(&error), "a request about a stream failed");
        Self {
            is_store: true,
            ..Self::new(status, code, message)
        }
    }
}

impl From<PageError> for StreamError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Store(error) => error.into(),
            PageError::Busy => {
                let message = error.to_string();
                Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message).with(RETRY_AFTER, 1)
            }
        }
    }
}

impl From<NameError> for StreamError {
    fn from(error: NameError) -> Self {
        Self::bad_request("name_invalid", error.to_string())
    }
}

impl From<Denied> for StreamError {
    fn from(denied: Denied) -> Self {
        let error = Self::new(denied.status, denied.code, denied.message);
        if denied.status == StatusCode::UNAUTHORIZED {
            let challenge = format!("Bearer error=\"{}\"", denied.code);
            return error.with(WWW_AUTHENTICATE, challenge);
        }
        error
    }
}

impl IntoResponse for StreamError {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": { "code": self.code, "message": self.message } });
        for (name, value) in self.details {
            body["error"][name] = value;
        }
        let mut response = (self.status, Json(body)).into_response();
        response.headers_mut().extend(self.headers);
        if self.is_store {
            response.extensions_mut().insert(StoreFailed);
        }
        response
    }
}
