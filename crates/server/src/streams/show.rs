//! `HEAD`: what is known of a stream. It renews nothing.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use holm_thread_log::{Ending, Lifetime, ReadFrom, StreamName, etag};

use super::access::{Access, Verb};
use super::error::Result;
use super::{headers, now};
use crate::state::AppState;

pub(super) async fn show(state: &AppState, access: &Access, name: &StreamName) -> Result<Response> {
    access.check(name, Verb::Read)?;
    let stream = state.streams.head(&access.stored(name)?, now()).await??;
    access.check_stream(&stream)?;
    let mut found = HeaderMap::new();
    found.insert(CONTENT_TYPE, headers::value(&stream.content_type));
    found.insert(headers::NEXT_OFFSET, headers::value(stream.tail()));
    found.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let tag = etag::etag(stream.id, ReadFrom::Start, stream.tail(), stream.ending);
    found.insert(ETAG, headers::value(tag));
    match stream.lifetime {
        Lifetime::Forever => {}
        Lifetime::Sliding { seconds } => {
            found.insert(headers::TTL, headers::value(seconds));
        }
        Lifetime::Until(time) => {
            found.insert(headers::EXPIRES_AT, headers::value(time));
        }
    }
    if stream.ending == Ending::Closed {
        found.insert(headers::CLOSED, headers::TRUE);
    }
    Ok(found.into_response())
}
