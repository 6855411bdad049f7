//! What a reader asks for in its query.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use holm_thread_log::ReadFrom;
use percent_encoding::percent_decode_str;

use super::error::{Result, StreamError};
use super::headers;

/// A cursor is a number that we made.
const CURSOR_LENGTH_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadQuery {
    /// `None`: not said, which is the start.
    pub(super) from: Option<ReadFrom>,
    pub(super) live: Live,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    /// What is there, and no more.
    No,
    LongPoll,
    Events,
}

/// How messages of JSON are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Array,
    /// One message in each line.
    Lines,
}

impl ReadQuery {
    pub(super) fn parse(query: Option<&str>) -> Result<Self> {
        let offset = parameter(query, "offset")?;
        let from = match offset {
            None => None,
            Some(text) => {
                let from = text.parse();
                Some(from.map_err(|error: holm_thread_log::OffsetError| {
                    StreamError::bad_request("offset_invalid", error.to_string())
                })?)
            }
        };
        let live = match parameter(query, "live")?.as_deref() {
            None => Live::No,
            Some("long-poll") => Live::LongPoll,
            Some("sse") => Live::Events,
            Some(_) => {
                let message = "`live` is `long-poll` or `sse`";
                return Err(StreamError::bad_request("live_invalid", message));
            }
        };
        let cursor = parameter(query, "cursor")?.filter(|text| text.len() <= CURSOR_LENGTH_MAX);
        Ok(Self { from, live, cursor })
    }
}

/// A parameter, decoded, if it is there, once.
fn parameter(query: Option<&str>, name: &str) -> Result<Option<String>> {
    let pairs = query.unwrap_or_default().split('&');
    let mut values = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(known, _)| *known == name);
    let Some((_, first)) = values.next() else {
        return Ok(None);
    };
    let wrong = |what: &str| {
        StreamError::bad_request("query_invalid", format!("the parameter `{name}` {what}"))
    };
    if values.next().is_some() {
        return Err(wrong("was sent more than once"));
    }
    let decoded = percent_decode_str(first).decode_utf8();
    let decoded = decoded.map_err(|_| wrong("is not UTF-8"))?;
    Ok(Some(decoded.into_owned()))
}

impl Form {
    /// What a reader of JSON would rather have.
    pub(super) fn of(request: &HeaderMap) -> Result<Self> {
        let accepted = headers::text(request, &ACCEPT)?.unwrap_or_default();
        let wants_lines = accepted
            .split(',')
            .filter_map(|range| range.split(';').next())
            .map(str::trim)
            .any(|kind| {
                kind.eq_ignore_ascii_case("application/x-ndjson")
                    || kind.eq_ignore_ascii_case("application/ndjson")
            });
        Ok(if wants_lines {
            Self::Lines
        } else {
            Self::Array
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_asked() {
        let parsed = ReadQuery::parse(Some("cursor=12&live=long-poll&offset=now")).unwrap();
        assert_eq!(
            parsed,
            ReadQuery {
                from: Some(ReadFrom::Now),
                live: Live::LongPoll,
                cursor: Some("12".to_owned()),
            }
        );
        let nothing = ReadQuery::parse(None).unwrap();
        assert_eq!((nothing.from, nothing.live), (None, Live::No));
        let zero = ReadQuery::parse(Some("offset=%30&ticket=x")).unwrap();
        assert_eq!(zero.from, Some(ReadFrom::Start));
    }

    #[test]
    fn what_cannot() {
        for wrong in [
            "offset=",
            "offset",
            "offset=-1&offset=-1",
            "offset=..%2f",
            "offset=%00",
            "offset=%ff",
            "live=yes",
            "live=sse&live=sse",
        ] {
            assert!(ReadQuery::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
