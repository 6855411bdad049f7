//! Headers that are meant for one leg of the way and do not travel on (RFC 9110, section 7.6.1).

use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

const ONE_LEG: [HeaderName; 10] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    // Belongs to an upgrade to HTTP/2, which is not passed on.
    HeaderName::from_static("http2-settings"),
];

/// Removes them, and those that `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let mut named = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in tokens(value) {
            if let Ok(name) = token.parse::<HeaderName>() {
                named.push(name);
            }
        }
    }
    // The length was read already and frames the body that follows.
    named.retain(|name| *name != HOST && *name != hyper::header::CONTENT_LENGTH);
    for name in named.iter().chain(&ONE_LEG) {
        headers.remove(name);
    }
}

/// The protocol that a request wants to change to. HTTP/2 is never one: it would hide requests.
pub(crate) fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_asked = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(tokens)
        .any(|token| token.eq_ignore_ascii_case("upgrade"));
    let protocol = headers.get(UPGRADE)?;
    let is_http = tokens(protocol).any(|token| {
        let token = token.to_ascii_lowercase();
        token.starts_with("h2c") || token.starts_with("http") || token.starts_with("tls")
    });
    (is_asked && !is_http).then(|| protocol.clone())
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn one_leg_headers_do_not_travel() {
        let mut headers = map(&[
            ("connection", "close, X-Mine"),
            ("connection", "host, content-length, not a name"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("host", "a.b"),
            ("content-length", "5"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
        ]);
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-other"]);
    }

    #[test]
    fn upgrades_that_are_passed_on() {
        let wanted = |connection, upgrade| {
            wanted_upgrade(&map(&[("connection", connection), ("upgrade", upgrade)])).is_some()
        };
        assert!(wanted("Upgrade", "websocket"));
        assert!(wanted("keep-alive, upgrade", "WebSocket"));
        assert!(!wanted("keep-alive", "websocket"));
        assert!(!wanted("Upgrade, HTTP2-Settings", "h2c"));
        assert!(!wanted("Upgrade", "websocket, h2c"));
        assert!(!wanted("Upgrade", "TLS/1.2"));
    }
}
