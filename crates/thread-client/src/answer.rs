//! From an HTTP answer to what it means.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use holm_thread_log::Ending;
use holm_thread_log::producer::parse_producer_number;
use holm_thread_log::sse::Freshness;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;

use crate::error::{ApiError, ProducerAnswer};
use crate::{ClientError, Result};

/// More of a refusal nobody reads.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
const MESSAGE_CHARACTERS_MAX: usize = 1_000;
/// The protocol's own limit for offsets.
const OFFSET_LENGTH_MAX: usize = 255;

/// Where a reader is after an answer. Offsets are the server's: nothing is to be read out of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    pub next_offset: String,
    pub freshness: Freshness,
    pub ending: Ending,
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_true(headers: &HeaderMap, name: &str) -> bool {
    header(headers, name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

pub(crate) fn ending(headers: &HeaderMap) -> Ending {
    if is_true(headers, "stream-closed") {
        Ending::Closed
    } else {
        Ending::Open
    }
}

pub(crate) fn tail(action: &str, headers: &HeaderMap) -> Result<Tail> {
    let offset = header(headers, "stream-next-offset").unwrap_or_default();
    let ending = ending(headers);
    let is_fresh = is_true(headers, "stream-up-to-date") || ending == Ending::Closed;
    Ok(Tail {
        next_offset: checked_offset(action, offset)?,
        freshness: if is_fresh {
            Freshness::UpToDate
        } else {
            Freshness::MoreToRead
        },
        ending,
    })
}

/// An offset that can go into a query as it is.
pub(crate) fn checked_offset(action: &str, offset: &str) -> Result<String> {
    let is_good = (1..=OFFSET_LENGTH_MAX).contains(&offset.len())
        && offset
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b",&=?/#%".contains(&byte));
    if is_good {
        Ok(offset.to_owned())
    } else {
        Err(ClientError::Protocol {
            action: action.to_owned(),
            problem: "it names no offset to read on from".to_owned(),
        })
    }
}

pub(crate) fn producer(headers: &HeaderMap) -> ProducerAnswer {
    let number = |name| header(headers, name).and_then(|text| parse_producer_number(text).ok());
    ProducerAnswer {
        epoch: number("producer-epoch"),
        last_seq: number("producer-seq"),
        expected_seq: number("producer-expected-seq"),
        is_closed: ending(headers) == Ending::Closed,
    }
}

/// The body, as far as it is allowed to go.
pub(crate) async fn body(action: &str, mut response: Response, bytes_max: usize) -> Result<Bytes> {
    let too_large = || ClientError::TooLarge {
        action: action.to_owned(),
        bytes_max,
    };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |length| length > bytes_max) {
        return Err(too_large());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| cut(action, error))? {
        if body.len() + chunk.len() > bytes_max {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The server's no, with as much of its reason as fits.
pub(crate) async fn refusal(action: &str, response: Response) -> ClientError {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    // A reason that cannot be read is no reason to forget the status.
    let text = body(action, response, REFUSAL_BYTES_MAX)
        .await
        .unwrap_or_default();
    let (code, message) = reason(&String::from_utf8_lossy(&text));
    ClientError::Api(Box::new(ApiError {
        action: action.to_owned(),
        status,
        code,
        message,
        retry_after: retry_after(&headers),
        producer: producer(&headers),
    }))
}

/// Seconds only: a date would need a clock that agrees with the server's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Code and message of a refusal, whether JSON or plain text.
fn reason(text: &str) -> (Option<String>, String) {
    #[derive(Deserialize)]
    struct Reason {
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        error: Option<serde_json::Value>,
    }
    let (code, message) = match serde_json::from_str::<Reason>(text) {
        Ok(reason) => {
            let named = reason.error.as_ref();
            let inside = |name| named.and_then(|error| error.get(name)?.as_str());
            let inner = inside("message").or_else(|| named?.as_str());
            let message = reason.message.as_deref().or(inner).unwrap_or_default();
            let code = reason.code.or_else(|| inside("code").map(str::to_owned));
            (code, message.to_owned())
        }
        Err(_) => (None, text.trim().to_owned()),
    };
    (code, message.chars().take(MESSAGE_CHARACTERS_MAX).collect())
}

/// A failure on the way. Addresses stay out of it: they may hold what is secret.
pub(crate) fn cut(action: &str, error: reqwest::Error) -> ClientError {
    let action = action.to_owned();
    let error = error.without_url();
    if holm_client_tls::is_untrusted(&error) {
        let source = Box::new(error);
        return ClientError::Untrusted { action, source };
    }
    ClientError::Unreachable {
        action,
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_in_what_servers_say() {
        for (text, code, message) in [
            ("no such stream\n", None, "no such stream"),
            (r#"{"message":"gone","code":"GONE"}"#, Some("GONE"), "gone"),
            (r#"{"error":"bad offset"}"#, None, "bad offset"),
            (
                r#"{"error":{"code":"c","message":"inner"}}"#,
                Some("c"),
                "inner",
            ),
            ("[1]", None, "[1]"),
            ("", None, ""),
        ] {
            assert_eq!(
                reason(text),
                (code.map(str::to_owned), message.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn offsets_that_would_change_a_query_are_refused() {
        assert!(checked_offset("read", "0000000000000001_0000000000000007").is_ok());
        for wrong in [
            "",
            "a&live=sse",
            "a b",
            "x/y",
            "a?b",
            "a#b",
            "%41",
            "\u{e9}",
        ] {
            assert!(checked_offset("read", wrong).is_err(), "{wrong}");
        }
        assert!(checked_offset("read", &"1".repeat(256)).is_err());
    }
}
