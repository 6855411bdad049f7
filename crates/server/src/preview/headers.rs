//! Headers between two connections: what belongs to one of them stays there.

use std::net::SocketAddr;

use axum::http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue};

const HOP_BY_HOP: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
const HOP_BY_HOP_NAMES: [&str; 4] = [
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
];
/// What we say ourselves, and therefore nobody else.
const FORWARDED: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Whether a WebSocket is asked for, or agreed on.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let asks = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value: &HeaderValue| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(word))
    };
    asks(CONNECTION, "upgrade") && asks(UPGRADE, "websocket")
}

/// Removes what concerns only the connection that it came by.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        // The length and the host are not a connection's to take away.
        .filter(|name| ![CONTENT_LENGTH.as_str(), HOST.as_str()].contains(&name.as_str()))
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    for name in HOP_BY_HOP_NAMES {
        headers.remove(name);
    }
}

/// Puts back what a WebSocket needs.
fn ask_upgrade(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// Headers of a request, as the program in the box gets them.
pub(super) fn for_box(headers: &mut HeaderMap, peer: Option<SocketAddr>, scheme: &'static str) {
    let upgrade = is_upgrade(headers);
    // The length of a chunked body is not known, whatever a header says.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
    // We have answered that ourselves.
    headers.remove(EXPECT);
    for name in FORWARDED {
        headers.remove(name);
    }
    if upgrade {
        ask_upgrade(headers);
    }
    let peer = peer.map(|peer| peer.ip().to_canonical().to_string());
    let peer = peer.and_then(|peer| HeaderValue::from_str(&peer).ok());
    if let Some(peer) = peer {
        headers.insert("x-forwarded-for", peer);
    }
    if let Some(host) = headers.get(HOST).cloned() {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
}

/// Headers of an answer, as the client gets them.
pub(super) fn for_client(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    super::cookies::confine(headers);
}

/// Headers of an answer that agrees to a WebSocket.
pub(super) fn for_client_upgrade(headers: &mut HeaderMap) {
    for_client(headers);
    ask_upgrade(headers);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn a_connections_headers_stay_with_it() {
        let mut given = headers(&[
            ("connection", "close, X-Secret, host, content-length"),
            ("x-secret", "1"),
            ("host", "a"),
            ("content-length", "5"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "x"),
            ("te", "trailers"),
            ("x-forwarded-for", "8.8.8.8"),
            ("forwarded", "for=8.8.8.8"),
            ("expect", "100-continue"),
            ("x-mine", "2"),
        ]);
        for_box(
            &mut given,
            Some("[::ffff:10.0.0.1]:5".parse().unwrap()),
            "https",
        );
        let expected = headers(&[
            ("host", "a"),
            ("content-length", "5"),
            ("x-mine", "2"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-host", "a"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(given, expected);
    }

    #[test]
    fn websockets_are_asked_for_and_nothing_else() {
        let mut socket = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
        ]);
        assert!(is_upgrade(&socket));
        for_box(&mut socket, None, "http");
        assert!(is_upgrade(&socket));
        let mut other = headers(&[
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
        ]);
        for_box(&mut other, None, "http");
        assert_eq!(other, headers(&[("x-forwarded-proto", "http")]));
        let mut both = headers(&[("transfer-encoding", "chunked"), ("content-length", "5")]);
        for_box(&mut both, None, "http");
        assert_eq!(both, headers(&[("x-forwarded-proto", "http")]));
    }
}
