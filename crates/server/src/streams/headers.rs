//! The protocol's headers: read strictly, since a header that is misunderstood stores the wrong thing.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use holm_thread_log::producer::parse_producer_number;
use holm_thread_log::{Claim, ContentType, Ending, Lifetime, Timestamp};

use super::error::{Result, StreamError};

pub(super) const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
pub(super) const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
pub(super) const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
pub(super) const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
pub(super) const TTL: HeaderName = HeaderName::from_static("stream-ttl");
pub(super) const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
pub(super) const SEQ: HeaderName = HeaderName::from_static("stream-seq");
pub(super) const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
pub(super) const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
pub(super) const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
pub(super) const DATA_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");
pub(super) const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
pub(super) const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
pub(super) const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
pub(super) const PRODUCER_EXPECTED_SEQ: HeaderName =
    HeaderName::from_static("producer-expected-seq");
pub(super) const PRODUCER_RECEIVED_SEQ: HeaderName =
    HeaderName::from_static("producer-received-seq");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a page in a browser may send.
pub(super) const ALLOWED: &str = "authorization, content-type, if-none-match, last-event-id, stream-seq, stream-ttl, \
     stream-expires-at, stream-closed, stream-forked-from, stream-fork-offset, stream-fork-sub-offset, producer-id, \
     producer-epoch, producer-seq, x-request-id";
/// What a page in a browser may see.
pub(super) const EXPOSED: &str = "stream-next-offset, stream-cursor, stream-up-to-date, stream-closed, stream-ttl, \
     stream-expires-at, stream-sse-data-encoding, producer-epoch, producer-seq, producer-expected-seq, \
     producer-received-seq, etag, location, retry-after, x-request-id";

/// `Stream-Seq` is kept with the stream.
const SEQ_LENGTH_MAX: usize = 256;

pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A value that was made of printable ASCII.
pub(super) fn value(text: impl ToString) -> HeaderValue {
    HeaderValue::from_str(&text.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A header as text, if it is there, once.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let wrong = |what: &str| {
        StreamError::bad_request("header_invalid", format!("the header `{name}` {what}"))
    };
    if values.next().is_some() {
        return Err(wrong("was sent more than once"));
    }
    first
        .to_str()
        .map(Some)
        .map_err(|_| wrong("is not plain ASCII"))
}

pub(super) fn content_type(headers: &HeaderMap) -> Result<Option<ContentType>> {
    let Some(text) = text(headers, &CONTENT_TYPE)? else {
        return Ok(None);
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| StreamError::bad_request("content_type_invalid", format!("{error}")))
}

/// Whether the request closes the stream.
pub(super) fn ending(headers: &HeaderMap) -> Result<Ending> {
    let is_true = |text: &str| text.eq_ignore_ascii_case("true");
    Ok(match text(headers, &CLOSED)? {
        Some(text) if is_true(text) => Ending::Closed,
        // Other words mean nothing, says the protocol.
        Some(_) | None => Ending::Open,
    })
}

pub(super) fn lifetime(headers: &HeaderMap) -> Result<Option<Lifetime>> {
    let wrong = |error| StreamError::bad_request("expiry_invalid", format!("{error}"));
    match (text(headers, &TTL)?, text(headers, &EXPIRES_AT)?) {
        (None, None) => Ok(None),
        (Some(ttl), None) => Lifetime::parse_ttl(ttl).map(Some).map_err(wrong),
        (None, Some(time)) => Timestamp::parse_rfc3339(time)
            .map(|time| Some(Lifetime::Until(time)))
            .map_err(wrong),
        (Some(_), Some(_)) => Err(StreamError::bad_request(
            "expiry_invalid",
            "send one of `Stream-TTL` and `Stream-Expires-At`",
        )),
    }
}

/// What the request's producer says of itself: all three headers or none.
pub(super) fn claim(headers: &HeaderMap) -> Result<Option<Claim>> {
    let wrong = |message: String| StreamError::bad_request("producer_invalid", message);
    let found = (
        text(headers, &PRODUCER_ID)?,
        text(headers, &PRODUCER_EPOCH)?,
        text(headers, &PRODUCER_SEQ)?,
    );
    match found {
        (None, None, None) => Ok(None),
        (Some(id), Some(epoch), Some(seq)) => Ok(Some(Claim {
            producer: id.parse().map_err(|error| wrong(format!("{error}")))?,
            epoch: parse_producer_number(epoch).map_err(|error| wrong(error.to_string()))?,
            seq: parse_producer_number(seq).map_err(|error| wrong(error.to_string()))?,
        })),
        (_, _, _) => Err(wrong(
            "send all of `Producer-Id`, `Producer-Epoch` and `Producer-Seq`, or none".to_owned(),
        )),
    }
}

pub(super) fn stream_seq(headers: &HeaderMap) -> Result<Option<String>> {
    match text(headers, &SEQ)? {
        Some(text) if text.is_empty() || text.len() > SEQ_LENGTH_MAX => {
            Err(StreamError::bad_request(
                "header_invalid",
                format!("the header `stream-seq` is 1 to {SEQ_LENGTH_MAX} bytes"),
            ))
        }
        found => Ok(found.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, text) in pairs {
            map.append(name, HeaderValue::from_static(text));
        }
        map
    }

    #[test]
    fn producers_are_whole_or_absent() {
        let all = headers(&[
            (PRODUCER_ID, "a"),
            (PRODUCER_EPOCH, "0"),
            (PRODUCER_SEQ, "7"),
        ]);
        let found = claim(&all).unwrap().unwrap();
        assert_eq!(
            (found.producer.as_str(), found.epoch, found.seq),
            ("a", 0, 7)
        );
        assert_eq!(claim(&HeaderMap::new()).unwrap(), None);
        for missing in [PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQ] {
            let mut some = all.clone();
            some.remove(missing);
            assert!(claim(&some).is_err());
        }
        for (name, wrong) in [
            (PRODUCER_ID, ""),
            (PRODUCER_EPOCH, "-1"),
            (PRODUCER_EPOCH, "1e3"),
            (PRODUCER_SEQ, "9007199254740992"),
        ] {
            let mut some = all.clone();
            some.insert(name, HeaderValue::from_static(wrong));
            assert!(claim(&some).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_that_is_sent_twice_is_refused() {
        let twice = headers(&[(SEQ, "a"), (SEQ, "b")]);
        let refused = stream_seq(&twice).unwrap_err();
        assert_eq!(
            refused.message,
            "the header `stream-seq` was sent more than once"
        );
        let mut strange = HeaderMap::new();
        strange.insert(SEQ, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(stream_seq(&strange).is_err());
    }

    #[test]
    fn a_stream_has_one_lifetime() {
        assert!(
            lifetime(&headers(&[
                (TTL, "5"),
                (EXPIRES_AT, "2026-11-16T12:00:00Z")
            ]))
            .is_err()
        );
        assert!(lifetime(&headers(&[(TTL, "05")])).is_err());
        assert_eq!(
            lifetime(&headers(&[(TTL, "5")])).unwrap(),
            Some(Lifetime::Sliding { seconds: 5 })
        );
    }
}
