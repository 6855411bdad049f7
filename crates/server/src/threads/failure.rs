//! Why a request about threads fails.

use axum::extract::Request;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use holm_daytona_wire::error::ErrorCode;
use holm_thread_log::threads::{NotAdmitted, Refused, code};
use holm_thread_log::{Refusal, StoreError, Unseen};

use crate::error::{ApiError, chain};
use crate::streams::access::Denied;
use crate::streams::pages::PageError;

/// An error with a code of our own.
pub(super) fn coded(status: StatusCode, code: &str, message: impl Into<String>) -> ApiError {
    ApiError {
        status: Some(status.as_u16()),
        ..ApiError::new(ErrorCode::from(code), message)
    }
}

pub(super) fn denied(denied: Denied) -> ApiError {
    coded(denied.status, denied.code, denied.message)
}

/// Another organisation's thread is answered the same.
pub(super) fn no_such_thread(id: &str) -> ApiError {
    let id: String = id.chars().take(64).collect();
    ApiError::not_found(format!("there is no thread `{id}`"))
}

pub(super) fn unseen(id: &str, unseen: Unseen) -> ApiError {
    match unseen {
        Unseen::NotFound => no_such_thread(id),
        Unseen::Gone => ApiError::new(ErrorCode::Gone, "the thread was deleted; it has forks"),
        Unseen::ForeignOffset => {
            ApiError::bad_request("the offset is none of this thread's: read from the start again")
        }
    }
}

pub(super) fn store(error: StoreError) -> ApiError {
    match error {
        StoreError::Busy => ApiError::new(
            ErrorCode::TooManyRequests,
            "too much is being written: try again",
        ),
        StoreError::Full { .. } => coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "store_full",
            "the server has no space left, or may not write",
        )
        .with_cause(error),
        StoreError::Stopped => ApiError::internal(
            "the server is stopping, and cannot say whether this was stored: send it again with the same ids",
            error,
        ),
        StoreError::Failed { .. } => ApiError::internal(
            "the server could not use its store of threads; its log says why",
            error,
        ),
    }
}

pub(super) fn not_admitted(error: &NotAdmitted) -> ApiError {
    coded(StatusCode::BAD_REQUEST, code::ENTRY_INVALID, chain(error))
}

/// The HTTP status of a rule's code.
pub(super) fn status_of_rule(rule: &str) -> StatusCode {
    match rule {
        code::ENTRY_INVALID => StatusCode::BAD_REQUEST,
        code::RUN_ENDED | code::RUN_NOT_CURRENT | code::SIGNAL_FORBIDDEN => StatusCode::FORBIDDEN,
        code::RUN_IN_PROGRESS | code::CONTENT_TYPE => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub(super) fn of_rule(refused: Refused) -> ApiError {
    coded(status_of_rule(refused.code), refused.code, refused.message)
}

pub(super) fn refused(id: &str, refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::NotFound => no_such_thread(id),
        Refusal::Gone => unseen(id, Unseen::Gone),
        Refusal::Rule { code, message } => coded(status_of_rule(code), code, message.as_str()),
        Refusal::Replaced => replaced(),
        Refusal::StreamFull { .. } => coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "thread_full",
            refusal.to_string(),
        ),
        Refusal::Empty => ApiError::bad_request("there is no entry in the body"),
        Refusal::Json(error) => ApiError::new(ErrorCode::InvalidRequestBody, error.to_string()),
        Refusal::Closed { .. } => ApiError::conflict("the thread is closed"),
        Refusal::ContentType { .. }
        | Refusal::Differs { .. }
        | Refusal::NameHeld
        | Refusal::SourceNotFound { .. }
        | Refusal::SourceGone { .. }
        | Refusal::SourceContentType { .. }
        | Refusal::ForkOffset
        | Refusal::ForkSubOffset
        | Refusal::ForkTooDeep
        | Refusal::StaleEpoch { .. }
        | Refusal::EpochMustStartAtZero
        | Refusal::Gap { .. }
        | Refusal::StreamSeq { .. }
        | Refusal::DocumentChanged { .. } => ApiError::conflict(refusal.to_string()),
    }
}

/// A token whose thread is no more, and an id that another thread has now.
fn replaced() -> ApiError {
    denied(Denied::replaced())
}

/// A page that could not be read.
pub(super) fn page(error: PageError) -> ApiError {
    match error {
        PageError::Store(error) => store(error),
        PageError::Busy => ApiError::new(ErrorCode::TooManyRequests, error.to_string()),
    }
}

/// Says in the header what RFC 6750 wants to be there.
pub(super) async fn challenge(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        let error = response.extensions().get::<ApiError>();
        let code = error.map_or_else(String::new, |error| error.code.to_string());
        let text = format!("Bearer error=\"invalid_token\", error_description=\"{code}\"");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
    }
    response
}
