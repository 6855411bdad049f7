//! Headers between two connections: what belongs to one of them stays there (RFC 9110, section 7.6.1).

use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
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
    HeaderName::from_static("http2-settings"),
];

/// What is said of the way here. We say nothing of it, and whoever sends it cannot be believed.
const FORWARDED: [HeaderName; 6] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Headers of a request, as the server gets them.
pub(crate) fn for_server(headers: &mut HeaderMap, host: &HeaderValue) {
    // The length of a chunked body is not known, whatever a header says.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(headers);
    // That is answered here, when the body is asked for.
    headers.remove(EXPECT);
    for name in FORWARDED {
        headers.remove(name);
    }
    headers.insert(HOST, host.clone());
}

/// Headers of an answer, as the client gets them.
pub(crate) fn for_client(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(headers);
}

/// Removes what concerns one connection, and what `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // The length frames the body, and who asks is not a connection's to take away.
        .filter(|name| ![CONTENT_LENGTH, HOST, hyper::header::AUTHORIZATION].contains(name))
        .collect();
    for name in named.iter().chain(&ONE_LEG) {
        headers.remove(name);
    }
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
    fn what_concerns_one_connection_stays_there() {
        let mut headers = map(&[
            ("host", "proxy.local"),
            ("authorization", "Bearer x"),
            ("connection", "close, X-Mine, authorization"),
            ("connection", "content-length, host, not a name"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("content-length", "5"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("expect", "100-continue"),
            ("x-forwarded-for", "8.8.8.8"),
            ("forwarded", "for=8.8.8.8"),
            ("producer-id", "p"),
        ]);
        for_server(&mut headers, &HeaderValue::from_static("server:1"));
        let expected = map(&[
            ("host", "server:1"),
            ("authorization", "Bearer x"),
            ("x-other", "2"),
            ("content-length", "5"),
            ("producer-id", "p"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn a_body_has_one_length() {
        let both = [("transfer-encoding", "chunked"), ("content-length", "5")];
        let mut headers = map(&both);
        for_server(&mut headers, &HeaderValue::from_static("s"));
        assert_eq!(headers, map(&[("host", "s")]));
        let mut headers = map(&both);
        for_client(&mut headers);
        assert_eq!(headers, map(&[]));
    }
}
