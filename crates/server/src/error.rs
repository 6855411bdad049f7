//! How a request fails: what the client gets, and what the log gets.
//!
//! A handler returns an [`ApiError`]. The layer [`render`] turns it into the body of its plane, which needs the
//! request's path, and writes the cause to the log, which the client never sees.

use std::error::Error;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, http};
use holm_daytona_wire::error::{ApiErrorBody, DaemonErrorBody, ErrorCode};
use holm_sandbox_linux::EngineError;
use holm_store::{PostgresError, StoreError};

use crate::clock;
use crate::missing::original_path;
use crate::request::StoreFailed;

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A failed request.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub code: ErrorCode,
    /// Differs from the code's own for the few answers where Daytona's does.
    pub status: Option<u16>,
    /// For the client: what is wrong and what to do.
    pub message: String,
    /// For the log.
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// Which envelope an error gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    Control,
    Toolbox,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            status: None,
            message: message.into(),
            cause: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthorized, message)
    }

    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotImplemented, message)
    }

    /// A fault of ours. The client learns what was being done; the cause is for the log.
    pub fn internal(doing: impl Into<String>, cause: impl Error + Send + Sync + 'static) -> Self {
        Self {
            cause: Some(Arc::new(cause)),
            ..Self::new(ErrorCode::InternalServerError, doing)
        }
    }

    #[must_use]
    pub fn with_cause(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self {
            cause: Some(Arc::new(cause)),
            ..self
        }
    }

    pub fn status(&self) -> http::StatusCode {
        let number = self.status.unwrap_or_else(|| self.code.status());
        http::StatusCode::from_u16(number).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NameTaken { ref name } => {
                Self::conflict(format!("`{name}` already exists"))
            }
            StoreError::Open { .. }
            | StoreError::TooNew { .. }
            | StoreError::InUse { .. }
            | StoreError::Lock { .. }
            | StoreError::Thread { .. }
            | StoreError::Stopped { .. }
            | StoreError::Sql { .. }
            | StoreError::Malformed { .. } => Self::internal(
                "the server could not use its database; its log says why",
                error,
            ),
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::internal(crate::error::chain(&error), error)
    }
}

impl From<tokio::task::JoinError> for ApiError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal("the server could not finish this request", error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of a failed request in the manner of its plane.
pub(crate) async fn render(plane: Plane, request: Request, next: Next) -> Response {
    let method = request.method().to_string();
    let path = original_path(&request);
    let mut response = next.run(request).await;
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        // A number in an address that is none: refused by the router, in its own words.
        None if plane == Plane::Control && response.status() == http::StatusCode::BAD_REQUEST => {
            ApiError::bad_request(format!("the address `{path}` is malformed"))
        }
        None => return response,
    };
    let status = error.status();
    if let Some(cause) = &error.cause {
        let chain = chain(cause.as_ref());
        if status.is_server_error() {
            tracing::error!(%status, message = %error.message, cause = %chain, "request failed");
        } else {
            tracing::debug!(%status, message = %error.message, cause = %chain, "request failed");
        }
    }
    let store_failed = matches!(&error.cause, Some(cause) if cause.is::<StoreError>());
    let now = clock::rfc3339(clock::now());
    let headers = std::mem::take(response.headers_mut());
    let mut rendered = match plane {
        Plane::Control => {
            let mut body = ApiErrorBody::new(error.code, error.message).at(path, now);
            body.status_code = status.as_u16();
            (status, Json(body)).into_response()
        }
        Plane::Toolbox => {
            let mut body = DaemonErrorBody::new(error.code, error.message).at(method, path, now);
            body.status_code = status.as_u16();
            (status, Json(body)).into_response()
        }
    };
    for (name, value) in &headers {
        if name != http::header::CONTENT_LENGTH && name != http::header::CONTENT_TYPE {
            rendered.headers_mut().append(name, value.clone());
        }
    }
    if store_failed {
        rendered.extensions_mut().insert(StoreFailed);
    }
    rendered
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Why a server does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not {doing} `{path}`")]
    Folder {
        doing: &'static str,
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("another server uses the data folder `{path}`")]
    InUse { path: std::path::PathBuf },
    #[error("could not open the store")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("could not open the streams")]
    Streams {
        #[from]
        source: PostgresError,
    },
    #[error("could not start the engine")]
    Engine {
        #[from]
        source: EngineError,
    },
    #[error("could not listen at {address}")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("could not use the TLS file `{path}`")]
    Tls {
        path: std::path::PathBuf,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("could not find the sandboxes of earlier runs again: {message}")]
    Restore { message: String },
    #[error("could not look for snapshots that were never finished")]
    Snapshots {
        #[source]
        source: Box<crate::operator::OperatorError>,
    },
    #[error("could not start the runtime")]
    Runtime {
        #[source]
        source: std::io::Error,
    },
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => {
                Some("stop the other server, or give this one its own `--data`".into())
            }
            Self::Listen { .. } => Some("choose another address with `--listen`".into()),
            Self::Store { source } => source.hint().map(Into::into),
            Self::Streams { source } => source.hint().map(Into::into),
            Self::Tls { .. } => Some("give a certificate chain and its key, both in PEM".into()),
            Self::Folder { .. } => Some("choose a folder that you may write, with `--data`".into()),
            Self::Snapshots { source } => source.hint(),
            Self::Engine { .. } | Self::Restore { .. } | Self::Runtime { .. } => None,
        }
    }
}
