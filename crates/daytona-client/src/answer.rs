//! Reading answers: bounded, and with what the server says about a failure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use holm_daytona_wire::error::{ErrorCode, ErrorSource};
use holm_sandbox::Secret;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::{ApiError, ClientError, Result};

/// What is read of an answer that says no.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const MESSAGE_CHARACTERS_MAX: usize = 2_000;
/// A server that asks for longer is not waited for by its own word alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

pub(crate) fn transport_error(action: &str, error: reqwest::Error) -> ClientError {
    // An address may hold a token.
    let error = error.without_url();
    let action = action.to_owned();
    if error.is_connect() {
        return ClientError::Connect {
            action,
            source: error.into(),
        };
    }
    if error.is_builder() {
        return ClientError::Invalid {
            what: "request",
            problem: error.to_string(),
        };
    }
    ClientError::Interrupted {
        action,
        source: error.into(),
    }
}

/// The answer itself, if it says yes.
pub(crate) async fn check(action: &str, response: Response, key: &Secret) -> Result<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    // What can be read of the reason is enough.
    let body = read_beginning(response).await;
    Err(refusal(action, status.as_u16(), &headers, &body, key))
}

/// An answer that says no, as an error.
pub(crate) fn refusal(
    action: &str,
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    key: &Secret,
) -> ClientError {
    if status < 400 {
        return ClientError::Protocol {
            action: action.to_owned(),
            problem: format!("status {status} was not expected; is the address of the API right?"),
        };
    }
    let reason = Reason::read(status, body);
    ClientError::Api(Box::new(ApiError {
        action: action.to_owned(),
        status,
        origin: reason.origin,
        code: reason.code,
        // Something on the way may show us our own request.
        message: shorten(&reason.message.replace(key.expose(), "[hidden]")),
        retry_after: retry_after(headers, SystemTime::now()),
    }))
}

/// What a body says about a failure. Both planes' envelopes are read, and anything else as far as it goes.
#[derive(Debug, Default)]
struct Reason {
    origin: Option<ErrorSource>,
    code: Option<ErrorCode>,
    message: String,
}

impl Reason {
    fn read(status: u16, body: &[u8]) -> Self {
        let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            // A page for a browser explains nothing to a caller.
            let message = if text.is_empty() || text.starts_with('<') {
                holm_daytona_wire::error::reason_phrase(status)
            } else {
                text
            };
            return Self {
                message: message.to_owned(),
                ..Self::default()
            };
        };
        let word = |name| body.get(name).and_then(Value::as_str);
        let text = |name| body.get(name).and_then(text_of);
        let message = text("message")
            .or_else(|| text("errors"))
            .or_else(|| text("error"))
            .unwrap_or_else(|| holm_daytona_wire::error::reason_phrase(status).to_owned());
        Self {
            origin: word("source").map(ErrorSource::from),
            code: word("code").map(ErrorCode::from),
            message,
        }
    }
}

/// One text, or several in one.
fn text_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(texts) => {
            let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
            texts.join("; ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// How long to wait: the longest of `Retry-After` and `Retry-After-{limit}`; without these, when the limits that are
/// used up are counted anew (`X-RateLimit-Remaining-{limit}` and `X-RateLimit-Reset-{limit}`).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number =
        |name: &str| -> Option<u64> { headers.get(name)?.to_str().ok()?.trim().parse().ok() };
    let asked = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            name == "retry-after" || name.starts_with("retry-after-")
        })
        .filter_map(|name| number(name.as_str()))
        .max();
    let seconds = asked.or_else(|| {
        headers
            .keys()
            .filter_map(|name| name.as_str().strip_prefix("x-ratelimit-remaining"))
            .filter(|limit| number(&format!("x-ratelimit-remaining{limit}")) == Some(0))
            .filter_map(|limit| number(&format!("x-ratelimit-reset{limit}")))
            .map(|reset| seconds_until(reset, now))
            .max()
    })?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// A small number counts from now, a large one since 1970.
fn seconds_until(reset: u64, now: SystemTime) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_moment = reset > now / 2;
    if is_moment {
        reset.saturating_sub(now)
    } else {
        reset
    }
}

/// All of the content, if that is not too much.
pub(crate) async fn read_whole(
    action: &str,
    mut response: Response,
    bytes_max: usize,
) -> Result<Bytes> {
    let too_large = || ClientError::TooLarge {
        action: action.to_owned(),
        bytes_max,
    };
    if response
        .content_length()
        .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > bytes_max))
    {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| transport_error(action, error))?
    {
        if chunk.len() > bytes_max - whole.len() {
            return Err(too_large());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

async fn read_beginning(mut response: Response) -> Vec<u8> {
    let mut beginning = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = REFUSAL_BYTES_MAX - beginning.len();
        beginning.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() >= room {
            break;
        }
    }
    beginning
}

#[cfg(test)]
mod tests;
